"""Journals are read once, on all cores: every line is verified, sums are those of the rows, and no change is missed."""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections import Counter
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.synthetic_ledger import checkpoint, write_ledger
from ledger_lab.ledger import (
    CheckpointSaved,
    DeviceSample,
    HostSample,
    Journal,
    LedgerDamageError,
    PhaseWindow,
    Row,
    Telemetry,
    WindowSums,
    find_journals,
    read_journal,
    read_ledger,
    reader,
)
from ledger_lab.ledger import cores as cores_module
from ledger_lab.ledger.encoding import GENESIS, encode_fields, encode_line, hash_of
from ledger_lab.ledger.sums import TelemetrySums
from tests.fakes.ledgers import result, window

TIME = "2026-01-01T00:00:00.000+00:00"


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A small ledger."""
    root = tmp_path / "logs"
    root.mkdir()
    write_ledger(root, runs=3, rows=300)
    return root


def chained(rows: list[tuple[int, str, bytes]]) -> list[bytes]:
    """Return lines with right hashes, of sequence numbers, kinds and fields."""
    lines: list[bytes] = []
    for number, kind, fields in rows:
        lines.append(encode_line(number, TIME, kind, fields, hash_of(lines[-1]) if lines else GENESIS))
    return lines


def summed_up_by_hand(path: Path) -> tuple[list[str], WindowSums, TelemetrySums]:
    """Read a journal line by line, without our reader: its kinds, and what windows and telemetry come to."""
    previous = sha256(b"ledger_lab/journal/v2").hexdigest()
    kinds, windows, samples = [], [], []
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1]):
        record = json.loads(line)
        assert (record["seq"], record["prev"]) == (number, previous)
        previous = sha256(line[: line.rindex(b',"hash":')]).hexdigest()
        assert record["hash"] == previous
        kinds.append(record["kind"])
        if record["kind"] == "PhaseWindow":
            windows.append(record["data"])
        elif record["kind"] == "Telemetry":
            samples.append((Telemetry.from_data(record["data"]), datetime.fromisoformat(record["time"])))
    phase_ns: Counter[str] = Counter()
    for each in windows:
        phase_ns.update(each["phase_ns"])
    sums = WindowSums(
        count=len(windows),
        phase_ns=dict(phase_ns),
        env_steps=max([0, *(each["env_steps"] for each in windows)]),
        iterations=max([0, *(each["iteration"] or 0 for each in windows)]),
        wall_ns=max([0, *(each["wall_ns"] for each in windows)]),
    )
    return kinds, sums, TelemetrySums.of(samples)


counts, shares = st.integers(0, 2**40), st.floats(0, 1e6, allow_subnormal=False)
windows = st.builds(
    PhaseWindow,
    iteration=st.none() | counts,
    env_steps=counts,
    phase_ns=st.dictionaries(st.sampled_from(["simulate", "learn", "log"]), counts),
    wall_ns=counts,
    figures=st.dictionaries(st.sampled_from(["kl", "entropy"]), shares),
    non_finite=st.lists(st.just("kl"), max_size=1),
)
devices = st.builds(
    DeviceSample,
    uuid=st.sampled_from(["GPU-a", "GPU-b"]),
    utilization=st.none() | st.floats(0, 1, allow_subnormal=False),
    memory_used_bytes=st.none() | counts,
    power_w=st.none() | shares,
    energy_mj=st.none() | counts,
    temperature_c=st.none() | shares,
    sm_clock_mhz=st.none() | counts,
)
hosts = st.builds(
    HostSample, cpu_s=shares, busiest_thread=st.none() | shares, memory_bytes=counts, available_bytes=counts
)
samples = st.builds(Telemetry, wall_ns=counts, host=st.none() | hosts, devices=st.lists(devices, max_size=3))


@settings(max_examples=50)
@given(
    rows=st.lists(windows | samples | counts.map(lambda count: checkpoint(count, count)), max_size=60),
    torn=st.integers(0, 2000),
    chunk=st.sampled_from([64, 1 << 17]),
)
def test_sums_are_those_of_the_rows(rows: list[Row], torn: int, chunk: int) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(os, "fsync"),
        mock.patch("ledger_lab.ledger.content._CHUNK", chunk),
    ):
        path = Path(folder, "journal-1-0.jsonl")
        with Journal(path) as journal:
            for row in rows:
                journal.append(row)
        os.truncate(path, max(0, path.stat().st_size - torn))
        kinds, window_sums, telemetry_sums = summed_up_by_hand(path)
        read = read_journal(path)
        assert (read.windows, read.telemetry, read.count) == (window_sums, telemetry_sums, len(kinds))
        assert len(read.of(CheckpointSaved)) == kinds.count("CheckpointSaved")
        assert list(read.rows) == rows[: len(kinds)]


def spoiled(line: bytes, at: int) -> bytes:
    changed = bytearray(line)
    changed[at] ^= 1
    return bytes(changed)


def test_a_changed_row_is_detected_at_any_position(tmp_path: Path) -> None:
    window_fields = encode_fields(window(1, 40, {"learn": 1}, 1))
    lines, path = (
        chained([(number, "PhaseWindow", window_fields) for number in range(6)]),
        tmp_path / "journal-1-0.jsonl",
    )
    for number, line in enumerate(lines):
        for at in (line.index(b'"time"') + 9, line.index(b'"data"') + 9, -100, -30, -2):
            path.write_bytes(b"".join([*lines[:number], spoiled(line, at), *lines[number + 1 :]]))
            with pytest.raises(LedgerDamageError) as raised:
                read_journal(path)
            assert (raised.value.path, raised.value.line) == (path, number + 1)
        path.write_bytes(b"".join([*lines[:number], *lines[number + 1 :]]))
        if line is not lines[-1]:
            with pytest.raises(LedgerDamageError, match=f":{number + 1}: the row does not follow"):
                read_journal(path)


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([(0, "Health", b"{}")], ":1: not a valid row: Object missing required field"),
        ([(1, "Health", b"{}")], ":1: the row does not follow the row before it"),
        ([(0, "Rumour", b"{}")], ":1: not a valid row: Invalid value 'Rumour'"),
    ],
)
def test_an_invalid_row_is_reported_before_later_damage(
    tmp_path: Path, rows: list[tuple[int, str, bytes]], complaint: str
) -> None:
    path = tmp_path / "journal-1-0.jsonl"
    path.write_bytes(b"".join([*chained(rows), b"no row\n"]))
    with pytest.raises(LedgerDamageError, match=complaint):
        read_journal(path)


def test_tallies_of_earlier_versions_change_no_sum(tmp_path: Path) -> None:
    fields = encode_fields(window(1, 8, {"learn": 5}, 5))
    path = tmp_path / "journal-1-0.jsonl"
    path.write_bytes(
        b"".join(chained([(0, "PhaseWindow", fields), (1, "Tally", b'{"windows":{"count":9},"telemetry":{}}')]))
    )
    read = read_journal(path)
    assert (read.count, read.windows.count, read.windows.phase_ns, read.others) == (2, 1, {"learn": 5}, {})


def tamper(path: Path, old: bytes, new: bytes) -> int:
    """Change a journal without changing its size or its modification time, and return the line."""
    status, content = path.stat(), path.read_bytes()
    assert len(old) == len(new) and old in content
    path.write_bytes(content.replace(old, new, 1))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    return content[: content.index(old)].count(b"\n") + 1


@pytest.mark.parametrize("batch", [1, 1 << 20], ids=["journal by journal", "directory by directory"])
def test_several_processes_read_the_same_as_one(ledger: Path, monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    alone = read_ledger(ledger)
    seen: list[tuple[int, int]] = []
    monkeypatch.setattr(reader, "_PARALLEL_FROM", 0)
    monkeypatch.setattr(reader, "_BATCH", batch)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2})
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    pools: list[int] = []
    real = cores_module.ProcessPoolExecutor
    monkeypatch.setattr(
        cores_module,
        "ProcessPoolExecutor",
        lambda size, *how, **more: (pools.append(size), real(size, *how, **more))[1],
    )
    if batch > 1:
        monkeypatch.setattr(
            reader,
            "_jobs",
            lambda directories, **_: [(sum(each.values()), [path], None) for path, each in directories.items()],
        )
    together = read_ledger(ledger, on_progress=lambda *each: seen.append(each))
    assert ("attempts" in vars(together.runs[0])) == (batch == 1), "what is not asked for is not transferred"
    assert [(run.run_id, run.rows) for run in together.runs] == [(run.run_id, run.rows) for run in alone.runs]
    assert [each.path for each in together.journals] == [each.path for each in alone.journals]
    assert together == alone
    total = sum(path.stat().st_size for path in find_journals(ledger))
    assert len(seen) == (6 if batch == 1 else 3) and seen[-1] == (total, total)
    assert pools == [3]
    path = find_journals(ledger)[2]
    line = tamper(path, b'"learn":', b'"Learn":')
    with pytest.raises(LedgerDamageError) as raised:
        read_ledger(ledger)
    assert (raised.value.path, raised.value.line) == (path, line)


def test_rows_that_change_between_two_reads_are_damage(ledger: Path) -> None:
    run = read_ledger(ledger).runs[0]
    journal = run.attempts[0].ranks[0]
    assert len(run.results) == 4
    line = tamper(journal.path, b'"needed":231', b'"needed":230')
    with pytest.raises(LedgerDamageError, match=f":{line}: the row was changed while the ledger was read"):
        _ = run.results
    with pytest.raises(LedgerDamageError, match=f":{line}: the row does not match its hash"):
        _ = journal.rows
    journal.path.unlink()
    with pytest.raises(LedgerDamageError, match="it can.t be read any more: No such file"):
        _ = run.results


def test_a_view_does_not_change_while_its_journal_grows(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal-1-0.jsonl") as journal:
        journal.append(window(1, 1, {}, 1))
        view = read_journal(tmp_path / "journal-1-0.jsonl")
        journal.append(window(2, 2, {}, 2))
        journal.append(result("aa", "m", 3))
    assert [row.iteration for row in view.of(PhaseWindow)] == [1]
    assert view.count == 1
    assert view.has_grown()
