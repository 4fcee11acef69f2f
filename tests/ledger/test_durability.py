"""Committed rows are kept, and changed rows are never accepted."""

from __future__ import annotations

import errno
import functools
import itertools
import json
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledger_lab.ledger import (
    Journal,
    LedgerDamageError,
    Row,
    read_journal,
    read_ledger,
)
from ledger_lab.ledger import journal as journal_module
from tests.fakes.ledgers import result, window, write_run
from tests.fakes.limits import tiny_disk


@functools.cache
def sample() -> bytes:
    """Return a journal with durable rows, telemetry, and text that is no ASCII."""
    with tempfile.TemporaryDirectory() as name:
        return (write_run(Path(name), "aa", cohort="größer") / "journal-1-0.jsonl").read_bytes()


def rows_in(path: Path, content: bytes) -> tuple[Row, ...]:
    path.write_bytes(content)
    return list(read_journal(path).rows)


def test_a_line_may_be_torn_at_any_byte(tmp_path: Path) -> None:
    path = tmp_path / "journal-1-0.jsonl"
    with Journal(path) as journal:
        for iteration in range(3):
            journal.append(window(iteration, iteration, {"learn": 1}, iteration))
    whole = path.read_bytes()
    rows = read_journal(path).rows
    for cut in reversed(range(len(whole))):
        os.truncate(path, cut)
        content = read_journal(path)
        assert content.rows == rows[: whole[:cut].count(b"\n")]
        assert content.torn_bytes == cut - (whole[:cut].rfind(b"\n") + 1)


def test_zeros_after_a_power_failure_are_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "journal-1-0.jsonl"
    whole = sample()
    rows = rows_in(path, whole)
    assert rows_in(path, whole + b"\0" * 4096) == rows
    assert rows_in(path, whole[:-100] + b"\0" * 4096) == rows[:-1]


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_every_flipped_bit_is_detected_and_located(tmp_path: Path, data: st.DataObject) -> None:
    whole = sample()
    position = data.draw(st.integers(0, len(whole) - 1))
    flipped = bytearray(whole)
    flipped[position] ^= 1 << data.draw(st.integers(0, 7))
    path = tmp_path / "journal-1-0.jsonl"
    with pytest.raises(LedgerDamageError) as raised:
        rows_in(path, bytes(flipped))
    assert (raised.value.path, raised.value.line) == (path, whole[:position].count(b"\n") + 1)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_happens_to_a_file_no_wrong_row_is_accepted(tmp_path: Path, data: st.DataObject) -> None:
    whole = sample()
    rows = rows_in(tmp_path / "journal-0-0.jsonl", whole)
    begin, end = sorted(data.draw(st.tuples(*[st.integers(0, len(whole))] * 2)))
    lines = whole.splitlines(keepends=True)
    filling = data.draw(st.one_of(st.binary(max_size=300), st.sampled_from(lines)))
    path = tmp_path / "journal-1-0.jsonl"
    try:
        accepted = rows_in(path, whole[:begin] + filling + whole[end:])
    except LedgerDamageError as error:
        assert error.path == path
        assert 1 <= error.line <= len(lines) + filling.count(b"\n") + 1
    else:
        assert accepted == rows[: len(accepted)]


PROGRAM = """
import errno, json, sys
from pathlib import Path
from ledger_lab.ledger import AttemptEnded, Journal, PhaseWindow, Status, read_journal

folder = Path(sys.argv[1])
(folder / "ballast").write_bytes(bytes(65536))
path = folder / "journal-1-0.jsonl"
end = AttemptEnded(
    status=Status.CRASHED, reason="r" * 300, wall_ns=1, peak_host_memory_bytes=None, peak_gpu_memory_bytes=None
)
troubles, appended, committed, refused = [], [], 0, []


def in_file():
    return list(read_journal(path).rows)


with Journal(path, troubles.append) as journal:
    while len(refused) < 3:
        for number in range(7):
            appended.append(
                PhaseWindow(iteration=1, env_steps=len(appended), phase_ns={}, wall_ns=1, figures={}, non_finite=[])
            )
            journal.append(appended[-1])
        appended.append(end)
        try:
            journal.append(end)
        except OSError as error:
            refused.append(error.errno)
        else:
            committed = len(appended)
    while_full, torn = in_file(), read_journal(path).torn_bytes
    (folder / "ballast").unlink()
    journal.append(end)
    appended.append(end)
print(json.dumps({
    "refused": [errno.errorcode[number] for number in refused],
    "troubles": [errno.errorcode[trouble.errno] for trouble in troubles],
    "committed": committed,
    "while_full": while_full == appended[: len(while_full)] and len(while_full),
    "torn_while_full": torn,
    "in_the_end": in_file() == appended,
}))
"""


def test_a_full_disk_loses_no_committed_row_and_is_reported(tmp_path: Path) -> None:
    program = [sys.executable, "-c", PROGRAM, str(tmp_path / "tiny")]
    finished = subprocess.run(
        [*tiny_disk(tmp_path / "tiny", "256k"), *program], capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    found = json.loads(finished.stdout)
    assert found["refused"] == ["ENOSPC"] * 3
    assert set(found["troubles"]) == {"ENOSPC"}
    assert found["while_full"] >= found["committed"] > 10
    assert found["in_the_end"], "whatever found no room came later, in its order"


def test_rows_that_wait_for_disk_space_are_written_in_small_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, offered = os.pwrite, []

    def full(descriptor: int, data: bytes, offset: int) -> int:
        offered.append(len(data))
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "journal-1-0.jsonl"
    rows = tuple(window(number, number, {"learn": 1}, number) for number in range(3000))
    with Journal(path) as journal:
        monkeypatch.setattr(os, "pwrite", full)
        for row in rows:
            journal.append(row)
        monkeypatch.setattr(os, "pwrite", write)
    assert read_journal(path).rows == rows
    assert max(offered) < path.stat().st_size / 2, "all of them each time would hold the training up ever longer"


def test_a_clock_that_jumps_back_changes_neither_order_nor_durations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = itertools.count()

    class JumpingClock:
        @staticmethod
        def now(zone: object) -> datetime:
            return datetime(2026, 11, 21, 12, tzinfo=UTC) - timedelta(minutes=10 * next(moments))

    monkeypatch.setattr(journal_module, "datetime", JumpingClock)
    run_dir = write_run(tmp_path, "aa", scores=(5, 9), proof=9)
    with Journal(run_dir / "journal-evaluation-0.jsonl") as journal:
        journal.append(result("aa", "model_1.pt", 2))
    (run,) = read_ledger(tmp_path).runs
    (attempt,) = run.attempts
    times = attempt.ranks[0].times
    assert list(times) == sorted(times), "no row is older than the row before"
    assert [row.outcomes.successes for row in run.results] == [5, 9, 9, 2]
    assert [row.wall_ns for row in attempt.windows] == sorted(row.wall_ns for row in attempt.windows)
    assert attempt.wall_ns == attempt.sums.wall_ns == 9_000_000_000
    assert [row.iteration for row in run.checkpoints] == [1, 2]
