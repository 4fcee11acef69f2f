"""Tallies replace the rows before them exactly, and hide no change."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger_lab.ledger import (
    CheckpointSaved,
    DeviceSample,
    HostSample,
    Journal,
    LedgerDamageError,
    PhaseWindow,
    Row,
    Tally,
    Telemetry,
    WindowSums,
    read_journal,
)
from ledger_lab.ledger import tally as tally_module
from ledger_lab.ledger.digest import Digest, digest_journal
from ledger_lab.ledger.encoding import GENESIS, encode_fields, encode_line, hash_of
from ledger_lab.ledger.telemetry_sums import TelemetrySums
from tests.conftest import script
from tests.fakes.ledgers import window

TIME = "2026-01-01T00:00:00.000+00:00"


@contextmanager
def tallies_after(rows: int, ratio: int = 0) -> Iterator[None]:
    """Let journals hold tallies after so many rows, and so many times as many bytes as the last one took."""
    with mock.patch.multiple(tally_module, _LEAST_ROWS=rows, _LEAST_RATIO=ratio):
        yield


def written(path: Path, rows: list[Row]) -> Path:
    with Journal(path) as journal:
        for row in rows:
            journal.append(row)
    return path


def sample(number: int, energy_mj: int | None = 0) -> Telemetry:
    """Return what was seen in a second, with figures whose sums depend on the order in which they are added."""
    device = DeviceSample(
        uuid="GPU-a",
        utilization=number / 7 % 1.0,
        memory_used_bytes=number,
        power_w=0.1 * number,
        energy_mj=None if energy_mj is None else energy_mj + 300_000 * number,
        temperature_c=None,
        sm_clock_mhz=1980,
    )
    host = HostSample(
        cpu_s=number / 3, busiest_thread=number % 10 / 9, memory_bytes=number, available_bytes=1_000_000 - number
    )
    return Telemetry(wall_ns=number * 1_000_000_000, host=host, devices=[device])


def checkpoint(number: int) -> CheckpointSaved:
    return CheckpointSaved(
        path=f"model_{number}.pt", sha256="00", size_bytes=1, iteration=number, env_steps=number, wall_ns=number
    )


def mixed(count: int) -> list[Row]:
    """Return rows of all sorts."""
    rows: list[Row] = []
    for number in range(1, count + 1):
        rows += [window(number, 8 * number, {"learn": number, "infer": 1}, number), sample(number)]
        rows += [checkpoint(number)] if number % 5 == 0 else []
    return rows


def digested(path: Path) -> Digest:
    """Return the digest of a reader that believes tallies."""
    return digest_journal(path, thorough=False)


def summed_up_by_hand(path: Path) -> tuple[list[str], WindowSums, TelemetrySums]:
    """Read a journal line by line, without any of our reader: its kinds, and what windows and telemetry come to."""
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


@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(windows | samples | counts.map(checkpoint), max_size=60),
    least=st.integers(1, 20),
    ratio=st.sampled_from([0, 0, 3]),
    torn=st.integers(0, 2000),
)
def test_reading_with_tallies_gives_the_sums_of_all_rows(rows: list[Row], least: int, ratio: int, torn: int) -> None:
    with tempfile.TemporaryDirectory() as folder, tallies_after(least, ratio), mock.patch.object(os, "fsync"):
        path = written(Path(folder, "journal-1-0.jsonl"), rows)
        os.truncate(path, max(0, path.stat().st_size - torn))
        kinds, window_sums, telemetry_sums = summed_up_by_hand(path)
        believing, thorough = digested(path), digest_journal(path)
        content = path.read_bytes()
    assert believing == thorough
    assert (believing.sums.windows, believing.sums.telemetry) == (window_sums, telemetry_sums)
    assert believing.rows == len(kinds)
    assert [place.kind for place in believing.places] == [kind for kind in kinds if kind == "CheckpointSaved"]
    lines = content.splitlines(keepends=True)
    for place in believing.places:
        assert content[place.offset : place.offset + place.length] == lines[place.sequence]


def test_rows_before_a_tally_are_not_added_again(tmp_path: Path) -> None:
    path = written(tmp_path / "journal-1-0.jsonl", mixed(1000))
    real, added = WindowSums.add, []
    with mock.patch.object(WindowSums, "add", lambda self, fields: (added.append(1), real(self, fields))[1]):
        digest = digested(path)
    assert digest.sums.windows.count == digest.sums.telemetry.count == 1000
    assert len(added) <= 64 < 1000
    assert digest.sums == digest_journal(path).sums
    assert digest.rows > 2200, "all have been counted, and verified"


def test_tallies_are_written_as_often_as_their_size_allows(tmp_path: Path) -> None:
    with tallies_after(10):
        journal = read_journal(written(tmp_path / "journal-1-0.jsonl", mixed(50)))
        kinds = [type(row) for row in journal.rows]
        assert [index for index, kind in enumerate(kinds) if kind is Tally][:3] == [10, 21, 32]
        assert journal.of(Tally)[0].windows["phase_ns"] == {"learn": 15, "infer": 5}
    with tallies_after(10, ratio=16):
        path = written(tmp_path / "journal-2-0.jsonl", mixed(200))
    lines = path.read_bytes().splitlines()
    tallied = sum(len(line) for line in lines if b'"kind":"Tally"' in line)
    assert 0.02 < tallied / path.stat().st_size < 1 / 16
    assert not read_journal(written(tmp_path / "journal-3-0.jsonl", mixed(40))).of(Tally), "few rows need none"


def spoiled(line: bytes, at: int) -> bytes:
    changed = bytearray(line)
    changed[at] ^= 1
    return bytes(changed)


@pytest.mark.parametrize("thorough", [False, True])
def test_a_changed_row_is_detected_at_any_position(tmp_path: Path, thorough: bool) -> None:
    with tallies_after(6):
        lines = written(tmp_path / "journal-1-0.jsonl", mixed(25)).read_bytes().splitlines(keepends=True)
    assert sum(b'"kind":"Tally"' in line for line in lines) >= 8
    path = tmp_path / "journal-2-0.jsonl"
    for number, line in enumerate(lines):
        for at in (line.index(b'"time"') + 9, line.index(b'"data"') + 9, -100, -30, -2):
            path.write_bytes(b"".join([*lines[:number], spoiled(line, at), *lines[number + 1 :]]))
            with pytest.raises(LedgerDamageError) as raised:
                digest_journal(path, thorough=thorough)
            assert (raised.value.path, raised.value.line) == (path, number + 1)
        path.write_bytes(b"".join([*lines[:number], *lines[number + 1 :]]))
        if line is not lines[-1]:
            with pytest.raises(LedgerDamageError, match=f":{number + 1}: the row does not follow"):
                digest_journal(path, thorough=thorough)


def test_a_line_may_be_torn_within_a_tally(tmp_path: Path) -> None:
    with tallies_after(6):
        path = written(tmp_path / "journal-1-0.jsonl", mixed(3))
    whole = path.read_bytes()
    begin = whole.rindex(b"\n", 0, -1) + 1
    assert b'"kind":"Tally"' in whole[begin:]
    expected = digested(path).sums
    for cut in range(begin, len(whole)):
        os.truncate(path, cut)
        digest = digested(path)
        assert (digest.sums, digest.rows, digest.torn_bytes) == (expected, 6, cut - begin)
        path.write_bytes(whole)


def rechained(lines: list[bytes], number: int, data: bytes) -> bytes:
    """Return a journal whose writer wrote other fields in one place, and hashed them, and all rows after it."""
    previous, forged = GENESIS, []
    for place, line in enumerate(lines):
        record = json.loads(line)
        fields = data if place == number else line[line.index(b'"data":') + 7 : line.rindex(b',"prev":')]
        forged.append(encode_line(place, record["time"], record["kind"], fields, previous))
        previous = hash_of(forged[-1])
    return b"".join(forged)


def test_verification_detects_a_wrong_tally(tmp_path: Path) -> None:
    with tallies_after(6):
        path = written(tmp_path / "journal-1-0.jsonl", mixed(20))
    lines = path.read_bytes().splitlines(keepends=True)
    number = next(number for number, line in enumerate(lines) if b'"kind":"Tally"' in line)
    data = json.loads(lines[number])["data"]
    assert rechained(lines, number, json.dumps(data, separators=(",", ":")).encode()) == path.read_bytes()
    data["windows"]["phase_ns"]["learn"] += 1
    path.write_bytes(rechained(lines, number, json.dumps(data, separators=(",", ":")).encode()))
    finished = script("verify_ledger", "--log_root", tmp_path)
    complaint = f"damaged: {path}:{number + 1}: the tally is not what the rows before it come to"
    assert (finished.returncode, finished.stdout.splitlines()[0]) == (1, complaint)
    path.write_bytes(rechained(lines, number, b'{"windows":{"luck":7},"telemetry":{}}'))
    with pytest.raises(LedgerDamageError, match=f":{number + 1}: not a valid row"):
        digest_journal(path)


def test_an_invalid_row_after_the_last_tally_is_reported_before_later_damage(tmp_path: Path) -> None:
    lines: list[bytes] = []
    for number in range(2000):  # more than wait for a tally
        fields = encode_fields(window(number, number, {"learn": 1}, number)) if number != 3 else b'{"luck":7}'
        lines.append(encode_line(number, TIME, "PhaseWindow", fields, hash_of(lines[-1]) if lines else GENESIS))
    path = tmp_path / "journal-1-0.jsonl"
    path.write_bytes(b"".join([*lines[:-1], spoiled(lines[-1], 100)]))
    for thorough in (False, True):
        with pytest.raises(LedgerDamageError, match=r":4: not a valid row: Object contains unknown field `luck`"):
            digest_journal(path, thorough=thorough)


@pytest.mark.parametrize("interrupted", ["adding", "appending"])
def test_a_signal_while_a_tally_is_made_leaves_no_wrong_tally(tmp_path: Path, interrupted: str) -> None:
    path, rows = tmp_path / "journal-1-0.jsonl", mixed(30)
    owner, name = (TelemetrySums, "add") if interrupted == "adding" else (Journal, "_append")
    real, calls = getattr(owner, name), Counter[str]()

    def once(self: object, *arguments: object, **more: object) -> object:
        found = real(self, *arguments, **more)
        if interrupted == "adding" or isinstance(arguments[0], Tally):
            calls["interrupted"] += 1
            if calls["interrupted"] == 3:
                raise KeyboardInterrupt
        return found

    with tallies_after(6), Journal(path) as journal, mock.patch.object(owner, name, once):
        for row in rows:
            try:
                journal.append(row)
            except KeyboardInterrupt:
                calls["told"] += 1
    journal_read = read_journal(path)  # verifies every tally
    assert calls["told"] == 1
    assert [row for row in journal_read.rows if not isinstance(row, Tally)] == rows
    assert len(journal_read.of(Tally)) >= 8


def test_no_tally_covers_rows_that_wait_for_disk_space(tmp_path: Path) -> None:
    path, full = tmp_path / "journal-1-0.jsonl", OSError(28, "No space left on device")
    with tallies_after(6), Journal(path) as journal:
        for number in range(6):
            journal.append(checkpoint(number))  # no row that a tally stands for
        with mock.patch.object(os, "pwrite", side_effect=full):
            for number in range(1, 10):
                journal.append(sample(number))
        assert digested(path).rows == 6
        journal.append(sample(10))
        journal.append(sample(11))
    content = read_journal(path)
    assert [type(row) for row in content.rows] == [*[CheckpointSaved] * 6, *[Telemetry] * 10, Tally, Telemetry]
    assert content.of(Telemetry) == [sample(number) for number in range(1, 12)]


def test_a_row_with_a_wrong_sequence_number_is_detected(tmp_path: Path) -> None:
    lines: list[bytes] = []
    for number in (0, 1, 2, 7, 4):
        fields = encode_fields(window(number, number, {"learn": 1}, number))
        lines.append(encode_line(number, TIME, "PhaseWindow", fields, hash_of(lines[-1]) if lines else GENESIS))
    path = tmp_path / "journal-1-0.jsonl"
    path.write_bytes(b"".join(lines))
    for thorough in (False, True):
        with pytest.raises(LedgerDamageError, match=":4: the row does not follow the row before it"):
            digest_journal(path, thorough=thorough)


def test_a_journal_without_tallies_reads_the_same(tmp_path: Path) -> None:
    without, with_them = tmp_path / "journal-1-0.jsonl", tmp_path / "journal-2-0.jsonl"
    moments = [datetime.fromisoformat(TIME)] * 2_000
    for path, rows in ((with_them, 7), (without, 10**9)):
        with (
            tallies_after(rows),
            mock.patch("ledger_lab.ledger.journal.datetime", **{"now.side_effect": moments}),
            mock.patch("time.clock_gettime_ns", return_value=0),  # no time passes by any clock
        ):
            written(path, mixed(300))
    assert digested(without).sums == digested(with_them).sums == digest_journal(without).sums
    assert digested(without).rows < digested(with_them).rows
