"""The benchmark of the clocks reads journals, and says what contradicts the claims."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from benchmarks.timing import Measured, disagreements, measure
from ledger_lab.ledger import Timing
from ledger_lab.ledger.encoding import GENESIS, encode_line, encode_value
from tests.fakes.ledgers import window

TIME = "2026-01-01T00:00:00.000+00:00"


def lines(phase_ns: dict[str, int], each_s: int) -> Iterator[str]:
    """Yield the lines of a journal: a start, and four iterations of equal length; the clock stands still."""
    for done in range(5):
        row = replace(window(done or None, done, phase_ns, done), wall_ns=done * each_s * 10**9)
        yield encode_line(done, TIME, "PhaseWindow", encode_value(row.to_data()), GENESIS).decode()


def measured(timing: Timing, simulate_s: float, wall_s: float | None = None) -> Measured:
    phases_s = {"simulate": simulate_s, "learn": 0.2, "log": 0.001 * simulate_s}
    whole_s = sum(phases_s.values()) if wall_s is None else wall_s
    return Measured(timing=timing, iterations=50, phases_s=phases_s, device_bound_s={}, wall_s=whole_s)


def test_times_are_read_from_the_journal_of_a_training() -> None:
    found = measure("events", lines({"simulate": 2 * 10**9, "learn": 10**9}, 3), skip=2)
    assert (found.iterations, found.phases_s, found.sum_s, found.wall_s) == (2, {"simulate": 2, "learn": 1}, 3, 3)


def test_the_end_of_a_training_that_was_ended_is_no_iteration() -> None:
    end = replace(window(4, 4, {"learn": 10**9, "shutdown": 10**9}, 5), wall_ns=14 * 10**9)
    closing = encode_line(5, TIME, "PhaseWindow", encode_value(end.to_data()), GENESIS).decode()
    phases_ns = {"simulate": 2 * 10**9, "learn": 10**9}
    assert measure("host", [*lines(phases_ns, 3), closing], 2) == measure("host", lines(phases_ns, 3), 2)
    with pytest.raises(ValueError, match="no whole iteration after the first 4"):
        measure("host", [*lines(phases_ns, 3), closing], 4)


def test_a_phase_that_differs_or_a_sum_that_falls_short_contradicts_the_claim() -> None:
    agree: dict[Timing, Measured] = {
        "host": measured("host", 0.1),
        "events": measured("events", 0.96),
        "synchronized": measured("synchronized", 1.0),
    }
    assert disagreements(agree) == [], "host is not compared, nor are small phases"
    (apart,) = disagreements({**agree, "events": measured("events", 0.94)})
    assert apart == "simulate: 940.0 ms by events, and 1000.0 ms synchronized"
    (short,) = disagreements({**agree, "host": measured("host", 0.1, wall_s=0.5)})
    assert short.startswith("--timing host: the phases sum to 300.1 ms")
