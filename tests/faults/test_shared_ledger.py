"""A ledger on a shared file system, written on one host and read on another."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ledger_lab.errors import UserError
from ledger_lab.ledger import (
    AttemptEnded,
    AttemptStarted,
    CohortDeclared,
    Journal,
    LedgerDamageError,
    PhaseWindow,
    ShutdownEnded,
    Status,
    SupervisionStarted,
    declare_cohort,
    read_journal,
    read_ledger,
)
from ledger_lab.ledger import journal as journal_module
from ledger_lab.ledger.anchors import anchors_of
from ledger_lab.ledger.liveness import may_still_write
from ledger_lab.ledger.runs import Run
from ledger_lab.ledger.storage import require_storage
from ledger_lab.training.recording import RecordedPanel, record_run
from tests.conftest import script
from tests.fakes.ledgers import SECOND, declared, window, write_run
from tests.faults.conftest import CACHE_S, SharedFileSystem
from tests.faults.shared_disk import WRITTEN_BACK_S

OTHER_HOST = "node-a"


def begin(run_dir: Path) -> Journal:
    """Begin an attempt on the other host."""
    run_dir.mkdir(parents=True)
    journal = Journal(run_dir / "journal-1-0.jsonl")
    journal.append(declared(run_dir.name))
    journal.append(AttemptStarted(run_id=run_dir.name, attempt=1, rank=0, pid=1, host=OTHER_HOST, wall_ns=SECOND))
    return journal


def append(journal: Journal, first: int, last: int) -> None:
    """Append the windows of some iterations."""
    for iteration in range(first, last + 1):
        journal.append(window(iteration, 40 * iteration, {"learn": SECOND}, iteration * SECOND))


def until[T](look: Callable[[], T], wanted: Callable[[T], bool]) -> T:
    """Look again and again until it is as wanted, for a while."""
    deadline_s = time.monotonic() + 60
    while not wanted(found := look()) and time.monotonic() < deadline_s:
        time.sleep(CACHE_S / 5)
    assert wanted(found)
    return found


def one_run(root: Path) -> Run:
    """Return the only run of a ledger, which must not be damaged."""
    (run,) = read_ledger(root).runs
    return run


def iterations(journal: Path) -> list[int | None]:
    """Return the iterations of a journal."""
    return [row.iteration for row in read_journal(journal).of(PhaseWindow)]


def test_rows_of_another_host_appear_late_and_in_order_and_never_as_damage(shared: SharedFileSystem) -> None:
    shared.a.switch(hold=True)
    at_b = shared.b.path / "aa" / "journal-1-0.jsonl"
    with begin(shared.a.path / "aa") as journal:
        until(lambda: read_ledger(shared.b.path).runs, bool)
        seen, zeros, last = [0], False, 0
        while last < 400 or not zeros:
            append(journal, last + 1, last + 10)
            last += 10
            assert last < 10_000, "no hole has been seen"
            assert one_run(shared.b.path).attempts[0].status is Status.RUNNING
            zeros = zeros or b"\0" in (shared.server / "aa" / "journal-1-0.jsonl").read_bytes()
            found = iterations(at_b)
            assert found == list(range(1, len(found) + 1))
            seen.append(len(found))
            time.sleep(WRITTEN_BACK_S / 10)
        assert seen == sorted(seen)
    until(lambda: iterations(at_b), lambda found: found == list(range(1, last + 1)))


def test_a_host_that_goes_down_leaves_a_lost_run_billed_to_its_last_sign_of_life(
    shared: SharedFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_clock(monkeypatch, -timedelta(minutes=30))
    shared.a.switch(hold=True)
    journal = begin(shared.a.path / "aa")
    append(journal, 1, 40)
    journal.settle()
    append(journal, 41, 100)
    behind = shared.server / "aa" / "journal-1-0.jsonl"
    until(behind.read_bytes, lambda found: b"\0" in found)
    shared.a.lose_power()
    os.utime(behind, (0, 0))  # long ago
    attempt = until(lambda: one_run(shared.b.path), lambda run: run.attempts[0].wall_ns >= 40 * SECOND).attempts[0]
    assert attempt.status is Status.LOST
    assert attempt.wall_ns == len(iterations(behind)) * SECOND < 100 * SECOND
    checked = script("verify_ledger", "--log_root", shared.b.path)
    assert checked.returncode == 0 and "1 torn, 0 damaged" in checked.stdout


def test_zeros_before_rows_that_were_durable_are_damage_when_all_have_had_time_to_arrive(tmp_path: Path) -> None:
    path = write_run(tmp_path, "aa") / "journal-1-0.jsonl"
    content = bytearray(path.read_bytes())
    content[4000:4096] = bytes(96)
    path.write_bytes(content)
    assert read_journal(path).torn_bytes > 0
    os.utime(path, (0, 0))
    with pytest.MonkeyPatch.context() as patch:  # no program can set the time of the change itself
        patch.setattr("ledger_lab.ledger.content.ARRIVES_WITHIN_NS", 0)
        with pytest.raises(LedgerDamageError, match="zeros are in place of rows"):
            read_journal(path)


def test_zeros_that_no_page_ends_after_are_damage(tmp_path: Path) -> None:
    path = write_run(tmp_path, "aa") / "journal-1-0.jsonl"
    content = bytearray(path.read_bytes())
    content[3000:3010] = bytes(10)
    path.write_bytes(content)
    with pytest.raises(LedgerDamageError):
        read_journal(path)


def test_a_journal_whose_name_is_not_visible_yet_is_not_missing(shared: SharedFileSystem) -> None:
    run_dir = shared.a.path / "aa"
    run_dir.mkdir()
    with Journal(run_dir / "journal-1-supervisor.jsonl") as supervisor:
        supervisor.append(SupervisionStarted(run_id="aa", attempt=1, pid=1, host=OTHER_HOST, wall_ns=0))
        until(lambda: os.listdir(shared.b.path), lambda names: names == ["aa"])
        shared.b.switch(freeze=True)
        assert read_ledger(shared.b.path).runs == ()  # from here on, this host knows the folder with one file
        with Journal(run_dir / "journal-1-0.jsonl") as journal:
            journal.append(declared("aa"))
            journal.append(AttemptStarted(run_id="aa", attempt=1, rank=0, pid=1, host=OTHER_HOST, wall_ns=1))
        ended = {"peak_host_memory_bytes": None, "peak_gpu_memory_bytes": None}
        supervisor.append(AttemptEnded(status=Status.CRASHED, reason="no", wall_ns=SECOND, **ended))
        anchors = anchors_of(run_dir, but=[supervisor.path])
        supervisor.append(ShutdownEnded(wall_ns=SECOND, exit_code=1, signal=None, overdue=False, anchors=anchors))
    assert os.listdir(shared.b.path / "aa") == ["journal-1-supervisor.jsonl"]
    assert read_ledger(shared.b.path).damage == ()
    shared.b.switch()
    run = until(lambda: read_ledger(shared.b.path).runs, bool)[0]
    assert run.attempts[0].status is Status.CRASHED


def test_a_journal_that_is_missing_for_long_is_damage_on_every_host(
    shared: SharedFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_clock(monkeypatch, -timedelta(minutes=30))
    with begin(shared.a.path / "aa") as journal:
        append(journal, 1, 3)
    with Journal(shared.a.path / "aa" / "journal-2-0.jsonl") as journal:
        anchors = anchors_of(shared.a.path / "aa", but=[journal.path])
        start = {"run_id": "aa", "attempt": 2, "rank": 0, "pid": 1, "host": OTHER_HOST, "wall_ns": 1}
        journal.append(AttemptStarted(**start, anchors=anchors))  # type: ignore[arg-type]
    os.unlink(shared.a.path / "aa" / "journal-1-0.jsonl")
    (damage,) = read_ledger(shared.b.path, tolerate_damage=True).damage
    assert "missing" in str(damage)


def test_a_folder_that_another_host_removes_while_it_is_read_is_left_out(shared: SharedFileSystem) -> None:
    write_run(shared.a.path, "aa")
    gone = write_run(shared.a.path, "bb")
    assert len(read_ledger(shared.b.path).runs) == 2
    for path in gone.iterdir():
        path.unlink()
    gone.rmdir()
    assert read_ledger(shared.b.path, tolerate_damage=True).damage == ()
    until(lambda: len(read_ledger(shared.b.path).runs), lambda runs: runs == 1)


def set_clock(monkeypatch: pytest.MonkeyPatch, ahead: timedelta) -> None:
    """Set the clock of the writing host."""

    class Clock:
        @staticmethod
        def now(zone: object) -> datetime:
            return datetime.now(UTC) + ahead

    monkeypatch.setattr(journal_module, "datetime", Clock)


def test_a_live_attempt_of_a_host_with_a_wrong_clock_is_not_resumed(
    shared: SharedFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_clock(monkeypatch, -timedelta(hours=1))
    for host in (shared.a, shared.b):
        host.switch(clock_ahead_s=-7200)  # that of the server is wrong, too
    with begin(shared.a.path / "aa") as journal:
        append(journal, 1, 3)
    attempt = until(lambda: read_ledger(shared.b.path).runs, bool)[0].attempts[0]
    assert attempt.status is Status.LOST  # by the times in its rows
    assert may_still_write(attempt, shared.b.path / "aa")
    long_ago_s = time.time() - 3600
    os.utime(shared.server / "aa" / "journal-1-0.jsonl", (long_ago_s, long_ago_s))
    until(lambda: may_still_write(attempt, shared.b.path / "aa"), lambda lives: not lives)


def test_of_two_hosts_that_resume_a_run_one_begins(shared: SharedFileSystem) -> None:
    (shared.a.path / "aa").mkdir()
    until(lambda: os.path.isdir(shared.b.path / "aa"), bool)
    at_a, at_b = (host.path / "aa" / "journal-2-0.jsonl" for host in (shared.a, shared.b))
    assert not at_b.exists()  # this host remembers that for a while
    with Journal(at_a), pytest.raises(FileExistsError):
        Journal(at_b)


def test_two_hosts_declare_a_cohort_once(shared: SharedFileSystem) -> None:
    path = shared.b.path / "cohorts" / "c" / "journal-declaration.jsonl"
    path.parent.mkdir(parents=True)
    assert not path.exists()  # this host remembers that for a while
    declare_cohort(shared.a.path, "c", 3)
    declare_cohort(shared.b.path, "c", 3)
    with pytest.raises(UserError, match="was declared with 3 runs"):
        declare_cohort(shared.b.path, "c", 4)
    assert [row for row in read_journal(path).rows if isinstance(row, CohortDeclared)] == [
        CohortDeclared(cohort="c", size=3)
    ]


@pytest.mark.parametrize(
    ("refuse", "complaint"),
    [
        ({"write": "ENOTSUP"}, "it can't append to a file: Operation not supported"),
        ({"fsync": "EIO"}, "it can't append to a file: Input/output error"),
        ({"rename": "ENOSYS"}, "it can't replace a file: Function not implemented"),
        ({"create": "EROFS"}, "it can't create a file: Read-only file system"),
    ],
)
def test_a_file_system_that_cannot_hold_a_ledger_is_refused_in_one_line(
    shared: SharedFileSystem, refuse: dict[str, str], complaint: str
) -> None:
    shared.a.switch(refuse=refuse)
    fields = {"seed": 3, "device": "cpu", "num_envs": 4, "horizon": 5, "max_iterations": 2}
    panel = RecordedPanel("panel", seeds=range(100), definition={})
    run = record_run(task="T", library="l", panel=panel, target_success=0.9, log_root=shared.a.path, **fields)  # type: ignore[arg-type]
    with pytest.raises(UserError) as refused, run:
        pass
    assert str(refused.value) == (
        f"log_root {shared.a.path} can't hold a ledger: {complaint}: name a folder on another disk"
    )
    assert list(shared.server.rglob("*-*")) == []


def test_a_file_system_that_cannot_synchronize_folders_holds_a_ledger(shared: SharedFileSystem) -> None:
    shared.a.switch(refuse={"fsyncdir": "EINVAL"})
    require_storage(shared.a.path, "here")
    write_run(shared.a.path, "aa")
    assert socket.gethostname() in str(read_journal(shared.a.path / "rsl_rl" / "e" / "aa" / "journal-1-0.jsonl").rows)


def test_a_study_on_another_host_resumes_a_run_that_vanished(
    shared: SharedFileSystem, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "one.toml").write_text('version = 1\nseeds = [1, 2]\n[factors.arm]\na = ["--num_envs", "64"]\n')
    set_clock(monkeypatch, -timedelta(minutes=30))
    for run_id, seed in (("aa", 1), ("bb", 2)):
        vanished = {"scores": (), "status": None, "host": OTHER_HOST, "state": True}
        write_run(shared.a.path, run_id, cohort="one-a", seed=seed, **vanished)
        set_clock(monkeypatch, timedelta())  # the second run has just written
    until(lambda: len(read_ledger(shared.b.path).runs), lambda runs: runs == 2)
    assert [run.attempts[0].wall_ns for run in read_ledger(shared.b.path).runs] == [5 * SECOND, 5 * SECOND]
    asked = script("study", tmp_path / "one.toml", "--dry_run", "--log_root", shared.b.path)
    (command,) = [line for line in asked.stdout.splitlines() if "train.py" in line]
    assert "--resume aa" in command
