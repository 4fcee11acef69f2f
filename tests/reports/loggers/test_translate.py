"""The rows of a run become points for dashboards, each sent once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ledger_lab.ledger import AttemptEnded, AttemptStarted, Journal, Row, Status, SupervisionStarted
from ledger_lab.ledger.reader import read_run
from ledger_lab.ledger.telemetry import DeviceSample, HostSample, Telemetry
from ledger_lab.reports.loggers.sink import Batch
from ledger_lab.reports.loggers.translate import Translator, entries_of
from tests.fakes.ledgers import SECOND, declared, window, write_run


def started(attempt: int = 1) -> AttemptStarted:
    return AttemptStarted(run_id="aa", attempt=attempt, rank=0, pid=1, host="elsewhere", wall_ns=SECOND)


def ended(status: Status, wall_s: int = 9) -> AttemptEnded:
    peaks = {"peak_host_memory_bytes": None, "peak_gpu_memory_bytes": None}
    return AttemptEnded(status=status, reason="so", wall_ns=wall_s * SECOND, **peaks)  # type: ignore[arg-type]


def write(run_dir: Path, name: str, *rows: Row) -> None:
    run_dir.mkdir(exist_ok=True)
    with Journal(run_dir / f"journal-{name}.jsonl") as journal:
        for row in rows:
            journal.append(row)


def translated(run_dir: Path) -> Batch:
    return Translator().translate([*entries_of(read_run(run_dir))], {})


def figures(batch: Batch, name: str) -> list[tuple[int, float]]:
    return [(point.step, point.values[name]) for point in batch.points if name in point.values]


def test_only_the_first_process_and_its_supervisor_are_sent(tmp_path: Path) -> None:
    write(tmp_path, "1-0", declared("aa", world_size=2), started())
    write(tmp_path, "1-1", AttemptStarted(run_id="aa", attempt=1, rank=1, pid=1, host="elsewhere", wall_ns=SECOND))
    supervised = SupervisionStarted(run_id="aa", attempt=1, pid=1, host="elsewhere", wall_ns=0)
    write(tmp_path, "1-supervisor", supervised, ended(Status.KILLED))
    found = [(entry.journal, type(entry.row)) for entry in entries_of(read_run(tmp_path))]
    assert {name for name, _ in found} == {"journal-1-0.jsonl", "journal-1-supervisor.jsonl"}
    assert found[-1] == ("journal-1-supervisor.jsonl", AttemptEnded)


def test_rows_become_figures_at_their_iterations(tmp_path: Path) -> None:
    batch = translated(write_run(tmp_path, "aa", scores=(5, 9), proof=9, status=Status.TARGET_REACHED))
    assert figures(batch, "train/env_steps") == [(1, 40.0), (2, 80.0)]
    assert figures(batch, "train/env_steps_per_s")[1] == (2, pytest.approx(40 / 3))
    assert figures(batch, "phase/simulate_s")[0] == (1, 1.0)
    assert figures(batch, "heldout/check_success") == [(1, 0.5), (2, 0.9)]
    assert figures(batch, "heldout/proof_success") == [(2, 0.9)]
    assert figures(batch, "total/startup_s") == [(2, 2.0)]
    assert figures(batch, "total/wall_s") == [(2, 9.0)]
    assert figures(batch, "total/peak_gpu_memory_gb") == []
    assert batch.notes["heldout/proof"] == "model_2.pt: 9 of 10, 9 needed"
    assert set(batch.cursor) == {"journal-1-0.jsonl"}


def test_rows_that_a_destination_has_are_not_sent_again(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, "aa")
    entries, whole = [*entries_of(read_run(run_dir))], translated(run_dir)
    translator = Translator()
    first = translator.translate(entries[:3], {"journal-1-0.jsonl": 4})
    assert (first.points, first.cursor) == ((), {"journal-1-0.jsonl": 4})
    rest = translator.translate(entries[3:], first.cursor)
    missing = [point for point in whole.points if point.values]
    # Nothing of the first iteration; the speed of the second one is taken over what came before, which was not sent.
    assert [point for point in rest.points if point.values] == missing[1:]
    assert figures(rest, "train/env_steps_per_s") == [(2, pytest.approx(40 / 3))]
    assert rest.cursor == whole.cursor


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
    write(tmp_path, "1-0", declared("aa"), started(), Telemetry(wall_ns=7 * SECOND, host=None, devices=[device]))
    point = translated(tmp_path).points[-1]
    assert (point.axis, point.step) == ("wall_s", 7)
    assert point.values == {"telemetry/gpu0_utilization": 0.5, "telemetry/gpu0_memory_gb": 2.0}


def test_a_resumed_run_goes_on_after_the_last_attempt(tmp_path: Path) -> None:
    host = HostSample(cpu_s=1.0, busiest_thread=None, memory_bytes=1, available_bytes=1)
    for number in (1, 2):
        begun: Sequence[Row] = [declared("aa"), started()] if number == 1 else [started(2)]
        learned = window(number, 40 * number, {"learn": SECOND}, 3 * SECOND)
        sample = Telemetry(wall_ns=4 * SECOND, host=host, devices=[])
        write(tmp_path, f"{number}-0", *begun, learned, sample, ended(Status.PREEMPTED, 5))
    batch = translated(tmp_path)
    assert figures(batch, "train/wall_s") == [(1, 3.0), (2, 8.0)]
    assert figures(batch, "train/env_steps_per_s") == [(1, 40.0), (2, 40.0)]
    assert [step for step, _ in figures(batch, "telemetry/host_cpu_s")] == [4, 9]
    assert figures(batch, "total/wall_s") == [(1, 5.0), (2, 10.0)]
    assert figures(batch, "total/learn_s") == [(1, 1.0), (2, 2.0)]
