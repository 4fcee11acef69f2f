"""Lines are verified all at once, and a wrong one ends the verified lines just before it."""

from __future__ import annotations

import pytest

from ledger_lab.ledger.encoding import encode_line, hash_of, verify_lines

GENESIS = b"0" * 64


def chain(count: int, first: int = 0) -> list[bytes]:
    """Return lines that follow each other."""
    lines: list[bytes] = []
    for number in range(first, first + count):
        previous = hash_of(lines[-1]) if lines else GENESIS
        lines.append(encode_line(number, "2026-01-01T00:00:00.000+00:00", "Health", b'{"a":1}', previous))
    return lines


@pytest.mark.parametrize("first", [0, 8, 20, 98])
def test_lines_fit_also_where_their_numbers_get_another_digit(first: int) -> None:
    lines = chain(5, first)
    assert verify_lines(lines, first, GENESIS) == [hash_of(line).decode() for line in lines]


@pytest.mark.parametrize("wrong", range(5))
@pytest.mark.parametrize("how", ["changed", "swapped", "renumbered", "unlinked", "short", "empty"])
def test_lines_end_before_the_first_wrong_one(wrong: int, how: str) -> None:
    lines, other = chain(6, 20), chain(6, 30)
    lines[wrong] = {
        "changed": lines[wrong].replace(b'"a":1', b'"a":2'),
        "swapped": lines[wrong + 1],
        "renumbered": other[wrong],
        "unlinked": encode_line(20 + wrong, "2026-01-01T00:00:00.000+00:00", "Health", b'{"a":1}', b"f" * 64),
        "short": lines[wrong][:40],
        "empty": b"",
    }[how]
    assert len(verify_lines(lines, 20, GENESIS)) == wrong


def test_a_chain_that_starts_elsewhere_is_wrong_from_its_first_line() -> None:
    assert verify_lines(chain(3), 0, b"1" * 64) == []
