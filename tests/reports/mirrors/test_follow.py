"""A run is followed row by row while it writes, and its rows become points for dashboards."""

from __future__ import annotations

import dataclasses
import gzip
import os
import socket
from datetime import timedelta
from pathlib import Path

import pytest

from ledger_lab.ledger import AttemptEnded, AttemptStarted, Journal, LedgerDamageError, Status, SupervisionStarted
from ledger_lab.ledger.telemetry import DeviceSample, HostSample, Telemetry
from ledger_lab.reports.mirrors.follow import RunFollower
from ledger_lab.reports.mirrors.translate import Translator
from tests.fakes.ledgers import SECOND, declared, window, write_run


def started(pid: int) -> AttemptStarted:
    return AttemptStarted(run_id="aa", attempt=1, rank=0, pid=pid, host=socket.gethostname(), wall_ns=SECOND)


def ended(status: Status) -> AttemptEnded:
    return AttemptEnded(
        status=status, reason="so", wall_ns=9 * SECOND, peak_host_memory_bytes=None, peak_gpu_memory_bytes=None
    )


def test_rows_are_returned_once_and_an_incomplete_row_is_left(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal-1-0.jsonl") as journal:
        follower = RunFollower(tmp_path)
        assert follower.poll() == []
        journal.append(declared("aa"))
        journal.append(started(os.getpid()))
        assert [type(event.row).__name__ for event in follower.poll()] == ["RunDeclared", "AttemptStarted"]
        assert follower.poll() == []
        journal.append(window(1, 40, {"learn": SECOND}, 3 * SECOND))
        whole = journal.path.read_bytes()
        os.truncate(journal.path, len(whole) - 10)
        assert follower.poll() == []
        journal.path.write_bytes(whole)
        (event,) = follower.poll()
        assert (event.sequence, event.row.env_steps) == (2, 40)  # type: ignore[attr-defined]
        assert follower.status is Status.RUNNING


def test_all_rows_of_an_attempt_come_before_the_next_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledger_lab.reports.mirrors.follow._CHUNK_BYTES", 300)
    for attempt in (1, 2):
        with Journal(tmp_path / f"journal-{attempt}-0.jsonl") as journal:
            if attempt == 1:
                journal.append(declared("aa"))
            journal.append(dataclasses.replace(started(2**22 + 1), attempt=attempt))
            for iteration in range(3 * attempt - 2, 3 * attempt + 1):
                journal.append(window(iteration, 40 * iteration, {"learn": SECOND}, iteration * SECOND))
    follower, translator, points = RunFollower(tmp_path), Translator(), []
    while events := follower.poll():
        points += translator.translate(events, {}).points
    assert [point.step for point in points] == [1, 2, 3, 4, 5, 6]
    assert {point.values["train/env_steps_per_s"] for point in points} == {40.0}


def test_only_the_first_process_and_the_supervisor_are_followed(tmp_path: Path) -> None:
    for name in ("journal-1-1", "journal-evaluation-ab12-0"):
        Journal(tmp_path / f"{name}.jsonl").close()
    with Journal(tmp_path / "journal-1-0.jsonl") as rank, Journal(tmp_path / "journal-1-supervisor.jsonl") as other:
        rank.append(declared("aa"))
        host = socket.gethostname()
        other.append(SupervisionStarted(run_id="aa", attempt=1, pid=os.getpid(), host=host, wall_ns=0))
        rank.append(started(2**22 + 1))
        follower = RunFollower(tmp_path)
        assert {event.journal for event in follower.poll()} == {"journal-1-0.jsonl", "journal-1-supervisor.jsonl"}
        assert follower.status is Status.RUNNING  # its supervisor is alive
        other.append(ended(Status.KILLED))
        follower.poll()
        assert follower.status is Status.KILLED


def test_a_run_whose_process_is_gone_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledger_lab.reports.mirrors.follow._QUIET", timedelta(0))
    follower = RunFollower(write_run(tmp_path, "aa", status=None))
    follower.poll()
    assert follower.status is Status.LOST


def test_damage_is_located(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, "aa")
    path = run_dir / "journal-1-0.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(
        "".join([*lines[:3], lines[3].replace("startup", "shutdown").replace("simulate", "manage"), *lines[4:]])
    )
    with pytest.raises(LedgerDamageError, match=":4:"):
        RunFollower(run_dir).poll()


def test_rows_become_figures_at_their_iterations(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, "aa", scores=(5, 9), confirmation=9, status=Status.TARGET_REACHED)
    batch = Translator().translate(RunFollower(run_dir).poll(), {})
    figures = {(name, point.step): value for point in batch.points for name, value in point.values.items()}
    assert figures["train/env_steps", 2] == 80.0
    assert figures["train/env_steps_per_s", 2] == pytest.approx(40 / 3)
    assert figures["phase/simulate_s", 1] == 1.0
    assert figures["heldout/screening_success", 1] == 0.5
    assert figures["heldout/screening_success", 2] == 0.9
    assert figures["heldout/confirmation_success", 2] == 0.9
    assert figures["total/startup_s", 2] == 2.0
    assert figures["total/wall_s", 2] == 9.0
    assert "total/peak_gpu_memory_gb" not in {name for name, _ in figures}
    assert batch.notes["heldout/confirmation"] == "model_2.pt: 9 of 10, 9 needed"
    assert set(batch.cursor) == {"journal-1-0.jsonl"}


def test_rows_that_a_destination_has_are_not_sent_again(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, "aa")
    events = RunFollower(run_dir).poll()
    all_of_it = Translator().translate(events, {})
    translator = Translator()
    first = translator.translate(events[:3], {"journal-1-0.jsonl": 4})
    assert (first.points, first.cursor) == ((), {"journal-1-0.jsonl": 4})
    rest = translator.translate(events[3:], first.cursor)
    # Nothing of the first iteration; the speed of the second one is taken over what came before, which was not sent.
    assert rest.points == all_of_it.points[1:]
    assert rest.points[0].values["train/env_steps_per_s"] == pytest.approx(40 / 3)
    assert rest.cursor == all_of_it.cursor


def test_time_after_the_last_iteration_is_not_an_iteration(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal-1-0.jsonl") as journal:
        journal.append(window(1, 40, {"learn": SECOND}, SECOND))
        journal.append(window(1, 40, {"log": SECOND}, 2 * SECOND))
        journal.append(ended(Status.COMPLETED))
    first, last = Translator().translate(RunFollower(tmp_path).poll(), {}).points
    assert first.values["phase/learn_s"] == 1.0
    assert last.values["total/log_s"] == 1.0
    assert "phase/log_s" not in last.values


def test_telemetry_leaves_out_unmeasured_figures(tmp_path: Path) -> None:
    device = DeviceSample(
        uuid="GPU-1",
        utilization=0.5,
        memory_used_bytes=2_000_000_000,
        power_w=None,
        energy_mj=None,
        temperature_c=None,
        sm_clock_mhz=None,
    )
    with Journal(tmp_path / "journal-1-0.jsonl") as journal:
        journal.append(Telemetry(wall_ns=7 * SECOND, host=None, devices=[device]))
    (point,) = Translator().translate(RunFollower(tmp_path).poll(), {}).points
    assert (point.axis, point.step) == ("wall_s", 7)
    assert point.values == {"telemetry/gpu0_utilization": 0.5, "telemetry/gpu0_memory_gb": 2.0}


def test_times_of_a_resumed_run_go_on(tmp_path: Path) -> None:
    host = HostSample(cpu_s=1.0, busiest_thread=None, memory_bytes=1, available_bytes=1)
    for number in (1, 2):
        with Journal(tmp_path / f"journal-{number}-0.jsonl") as journal:
            journal.append(window(number, 40 * number, {"learn": SECOND}, 3 * SECOND))
            journal.append(Telemetry(wall_ns=4 * SECOND, host=host, devices=[]))
            journal.append(dataclasses.replace(ended(Status.PREEMPTED), wall_ns=5 * SECOND))
    figures = [
        (name, point.step, value)
        for point in Translator().translate(RunFollower(tmp_path).poll(), {}).points
        for name, value in point.values.items()
    ]
    assert [(step, value) for name, step, value in figures if name == "train/wall_s"] == [(1, 3.0), (2, 8.0)]
    assert [step for name, step, _ in figures if name == "telemetry/host_cpu_s"] == [4, 9]
    assert [value for name, _, value in figures if name == "total/wall_s"] == [5.0, 10.0]
    assert [value for name, _, value in figures if name == "total/learn_s"] == [1.0, 2.0]


def test_compressed_journals_are_followed_under_their_names(tmp_path: Path) -> None:
    plain, packed = (write_run(tmp_path / name, "aa") for name in ("plain", "packed"))
    for path in packed.glob("journal-*.jsonl"):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    expected, found = (RunFollower(each) for each in (plain, packed))
    rows = [[(entry.journal, entry.sequence, type(entry.row)) for entry in each.poll()] for each in (expected, found)]
    assert rows[0] and rows[0] == rows[1]
    assert found.poll() == [] and found.status is expected.status
