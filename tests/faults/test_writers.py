"""Programs that write on a disk that begins to fail."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from ledger_lab.files import whole_file
from ledger_lab.ledger import Journal, PhaseWindow, Status, read_journal, read_ledger
from ledger_lab.training.recording import RecordedPanel, RecordedRun, record_run
from tests.fakes.ledgers import declared, window
from tests.fakes.supervised import attempt_of, worker
from tests.faults.conftest import Disk

ERRORS = ("ENOSPC", "EDQUOT", "EROFS", "EIO", "ESTALE")
PANEL = RecordedPanel("panel", seeds=range(100), definition={})


@contextmanager
def working(disk: Disk, how: str = "wait") -> Iterator[tuple[list[str], Path]]:
    """Start work on the disk; on exit, ask it to end, and add its exit status and its output to the list."""
    run_dir, said = disk.path / "run", list[str]()
    run_dir.mkdir()
    with worker(run_dir, how) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "working\n"
        yield said, run_dir
        os.kill(process.pid, signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        said += [str(process.returncode), *out.splitlines(), *err.splitlines()]


def begin(log_root: Path) -> AbstractContextManager[RecordedRun]:
    fields = {"seed": 3, "device": "cpu", "num_envs": 4, "horizon": 5, "max_iterations": 2}
    return record_run(task="T", library="l", panel=PANEL, target_success=0.9, log_root=log_root, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("error", ERRORS)
def test_a_row_that_must_be_on_disk_names_file_and_cause(disk: Disk, error: str) -> None:
    path = disk.path / "journal-1-0.jsonl"
    with Journal(path) as journal:
        disk.fail(error)
        with pytest.raises(OSError) as caught:
            journal.append(declared("aa"))
        assert (caught.value.errno, caught.value.filename) == (getattr(errno, error), str(path))
        disk.heal()
    assert [type(row).__name__ for row in read_journal(disk.behind / "journal-1-0.jsonl").rows] == ["RunDeclared"]


@pytest.mark.parametrize("error", ERRORS)
def test_no_heartbeat_is_lost_to_a_fault_that_passes(disk: Disk, error: str) -> None:
    with begin(disk.path) as run:
        run.iteration(1, env_steps=20)
        disk.fail(error)
        for number in range(2, 202):  # a tally is due meanwhile
            run.iteration(number, env_steps=20 * number)
        disk.heal()
    (read,) = read_ledger(disk.behind).runs
    assert read.attempts[0].status is Status.COMPLETED
    iterations = [each.iteration for each in read.attempts[0].of(PhaseWindow)]
    assert [each for each in iterations if each is not None] == list(range(1, 202))


def test_tallies_that_cannot_be_read_end_nothing(disk: Disk) -> None:
    path = disk.path / "journal-1-0.jsonl"
    with Journal(path) as journal:
        disk.fail("EIO", operations=["read"])
        for number in range(300):
            journal.append(window(number, number, {}, number))
        disk.heal()
    assert len(read_journal(path).rows) >= 300


def test_a_recorded_run_whose_end_cannot_be_written_is_not_completed(disk: Disk) -> None:
    with pytest.raises(OSError, match="journal-1-0.jsonl") as caught, begin(disk.path) as run:
        run.iteration(1, env_steps=20)
        disk.fail("EROFS")
    assert caught.value.errno == errno.EROFS
    disk.heal()
    (read,) = read_ledger(disk.path).runs
    assert read.attempts[0].status in (Status.RUNNING, Status.LOST)


@pytest.mark.parametrize(("error", "status"), [("EDQUOT", Status.DISK_FULL), ("EIO", Status.CRASHED)])
def test_a_checkpoint_that_cannot_be_written_ends_the_run_with_the_cause(
    disk: Disk, error: str, status: Status
) -> None:
    with pytest.raises(OSError) as caught, begin(disk.path) as run:
        disk.fail(error, names="model*")
        with whole_file(run.directory / "model.pt") as unfinished:
            try:
                unfinished.write_bytes(b"policy")
            except OSError:
                raise RuntimeError("[enforce fail at inline_container.cc:668] . unexpected pos 64") from None
    assert caught.value.errno == getattr(errno, error)
    (read,) = read_ledger(disk.behind).runs
    ended = read.attempts[0].ended
    assert ended is not None and ended.status is status
    assert str(ended.reason).endswith(f"{os.strerror(caught.value.errno or 0)}: '{run.directory / 'model.pt'}'")


def test_cleaning_up_on_a_broken_disk_does_not_hide_the_cause(disk: Disk) -> None:
    with pytest.raises(KeyboardInterrupt), whole_file(disk.path / "model.pt") as unfinished:
        unfinished.write_bytes(b"half")
        disk.fail("EROFS")
        raise KeyboardInterrupt


def test_an_end_that_the_supervisor_cannot_write_is_in_the_journal_of_the_worker(disk: Disk) -> None:
    with working(disk) as (said, _):
        disk.fail("EIO", names="journal-1-supervisor*")
    assert attempt_of(disk.behind).status is Status.PREEMPTED
    assert not any("Traceback" in line for line in said)
    (line,) = [line for line in said if line.startswith("supervisor: the end")]
    assert "Input/output error" in line and "journal-1-supervisor.jsonl" in line


def test_rows_of_the_worker_that_are_lost_are_told(disk: Disk) -> None:
    with working(disk) as (said, run_dir):
        disk.fail("ESTALE", names="journal-1-0*")
    waits, lost = (line for line in said if line.startswith("trouble: "))
    assert "Stale file handle" in waits and str(run_dir / "journal-1-0.jsonl") in waits
    assert "rows are lost" in lost
    assert said[0] == "143" and attempt_of(disk.behind).status is Status.PREEMPTED


def test_a_read_only_disk_ends_a_supervised_program_in_time_and_without_a_traceback(disk: Disk) -> None:
    with working(disk) as (said, _):
        disk.fail("EROFS")
    assert said[0] == "1"
    assert not any("Traceback" in line for line in said)
    assert any("Read-only file system" in line and "supervisor.jsonl" in line for line in said)
