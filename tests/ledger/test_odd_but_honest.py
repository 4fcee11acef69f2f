"""Ledgers that look odd because of crashes, tools or other users are read right; strange files are named."""

from __future__ import annotations

import gzip
import os
import shutil
import socket
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ledger_lab.ledger import (
    AttemptEnded,
    AttemptStarted,
    Journal,
    Status,
    SupervisionStarted,
    find_journals,
    journal,
    read_ledger,
    reader,
)
from ledger_lab.ledger.anchors import anchors_of
from ledger_lab.ledger.liveness import identify_process, is_alive
from ledger_lab.ledger.telemetry import TelemetryStarted
from tests.fakes.ledgers import SECOND, declared, window, write_run
from tools.excerpt import write_excerpt

NOBODY = 2**22 + 1
"""A process that can't exist."""


def supervised(path: Path, run_id: str, attempt: int, rank: int = 0, status: Status = Status.KILLED) -> None:
    """Write the journal of a supervisor whose process was killed."""
    ended = AttemptEnded(
        status=status, reason=None, wall_ns=7 * SECOND, peak_host_memory_bytes=None, peak_gpu_memory_bytes=None
    )
    with Journal(path) as written:
        written.append(
            SupervisionStarted(
                run_id=run_id, attempt=attempt, rank=rank, pid=NOBODY, host=socket.gethostname(), wall_ns=SECOND
            )
        )
        written.append(ended)


def test_a_run_that_only_its_further_processes_began_is_no_damage(tmp_path: Path) -> None:
    write_run(tmp_path, "sound")
    run_dir = tmp_path / "rsl_rl" / "e" / "aa"
    run_dir.mkdir()
    (run_dir / "journal-1-0.jsonl").touch()  # the first process was killed before it declared the run
    supervised(run_dir / "journal-1-supervisor-1.jsonl", "aa", 1, rank=1)
    ledger = read_ledger(tmp_path, tolerate_damage=True)
    assert not ledger.damage
    assert [run.declared.run_id for run in ledger.runs] == ["sound"]
    supervised(run_dir / "journal-1-supervisor.jsonl", "aa", 1)  # begins only when the declaration is on disk
    (damage,) = read_ledger(tmp_path, tolerate_damage=True).damage
    assert "aa:1: the declaration of its run is missing" in str(damage)


@pytest.mark.parametrize("second", ["supervisor", "empty"])
def test_an_excerpt_keeps_attempts_that_never_wrote_a_row(tmp_path: Path, second: str) -> None:
    run_dir = write_run(tmp_path / "logs", "aa", state=True, status=Status.KILLED)
    if second == "supervisor":
        supervised(run_dir / "journal-2-supervisor.jsonl", "aa", 2)
    else:
        (run_dir / "journal-2-0.jsonl").touch()
    with Journal(run_dir / "journal-3-0.jsonl") as written:
        written.append(AttemptStarted(run_id="aa", attempt=3, rank=0, pid=NOBODY, host="elsewhere", wall_ns=SECOND))
    (run,) = read_ledger(tmp_path / "logs").runs
    (tmp_path / "kept").mkdir()
    write_excerpt(run, tmp_path / "kept", None)
    (kept,) = read_ledger(tmp_path / "kept").runs
    assert [(each.number, each.wall_ns, each.ended) for each in kept.attempts] == [
        (each.number, each.wall_ns, each.ended) for each in run.attempts
    ]


@pytest.mark.parametrize("measured", [True, False])
def test_an_excerpt_sums_the_windows_of_a_run(tmp_path: Path, measured: bool) -> None:
    run_dir = tmp_path / "logs" / "aa"
    run_dir.mkdir(parents=True)
    with Journal(run_dir / "journal-1-0.jsonl") as written:
        written.append(declared("aa"))
        written.append(AttemptStarted(run_id="aa", attempt=1, rank=0, pid=NOBODY, host="elsewhere", wall_ns=SECOND))
        written.append(window(None, 0, {"startup": 5}, 5))
        for done, bound in ((1, {"simulate": 2}), (2, {}), (3, {"simulate": 4, "learn": 1})):
            row = window(done, done, {"simulate": 6, "learn": done}, 10 * done)
            written.append(replace(row, device_bound_ns=bound if measured else None))
    (run,) = read_ledger(tmp_path / "logs").runs
    (tmp_path / "kept").mkdir()
    write_excerpt(run, tmp_path / "kept", None)
    ((_, kept),) = read_ledger(tmp_path / "kept").runs[0].windows
    assert (kept.phase_ns, kept.iteration) == ({"startup": 5, "simulate": 18, "learn": 6}, 3)
    assert kept.device_bound_ns == ({"simulate": 6, "learn": 1} if measured else None)


def test_the_telemetry_of_two_evaluations_may_begin_in_the_same_millisecond(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Clock(datetime):
        @classmethod
        def now(cls, tz: object = None) -> Clock:
            return cls(2026, 1, 1, tzinfo=UTC)

    run_dir = write_run(tmp_path, "aa")
    monkeypatch.setattr(journal, "datetime", Clock)
    for number in (1, 2):
        with Journal(run_dir / f"journal-evaluation-{number}-telemetry.jsonl") as written:
            written.append(TelemetryStarted(run_id="aa", attempt=None, rank=0))
    assert not read_ledger(tmp_path, tolerate_damage=True).damage


@pytest.mark.parametrize("written", [100, None], ids=["while it writes", "before it removes the other one"])
def test_gzip_at_work_is_no_damage(tmp_path: Path, written: int | None) -> None:
    path = write_run(tmp_path, "aa") / "journal-1-0.jsonl"
    path.with_name("journal-1-0.jsonl.gz").write_bytes(gzip.compress(path.read_bytes())[:written])
    ledger = read_ledger(tmp_path, tolerate_damage=True)
    assert not ledger.damage
    assert len(ledger.runs) == 1


def deleted(run_dir: Path) -> None:
    shutil.rmtree(run_dir)


def compressed(run_dir: Path) -> None:
    path = run_dir / "journal-1-0.jsonl"
    path.with_name("journal-1-0.jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()


@pytest.mark.parametrize("change", [deleted, compressed])
def test_what_is_deleted_or_compressed_while_the_ledger_is_read_disturbs_no_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None]
) -> None:
    write_run(tmp_path, "sound")
    run_dir = write_run(tmp_path, "aa")
    real = reader.read_journal

    def read_after_the_change(path: Path, **how: bool) -> object:
        if path.parent == run_dir and path.suffix == ".jsonl":
            change(run_dir)
        return real(path, **how)

    monkeypatch.setattr(reader, "read_journal", read_after_the_change)
    expected = ["sound"] if change is deleted else ["aa", "sound"]
    assert sorted(run.declared.run_id for run in read_ledger(tmp_path).runs) == expected


def test_what_has_the_name_of_a_journal_and_is_no_file_is_named(tmp_path: Path) -> None:
    write_run(tmp_path, "sound")
    made: dict[str, Callable[[Path], None]] = {
        "pipe": os.mkfifo,
        "nowhere": lambda path: path.symlink_to("/nonexistent/journal-1-0.jsonl"),
        "circle": lambda path: path.symlink_to(path),
    }
    for name, make in made.items():
        make(write_run(tmp_path, name) / "journal-1-0-telemetry.jsonl")
    ledger = read_ledger(tmp_path, tolerate_damage=True)
    assert [run.declared.run_id for run in ledger.runs] == ["sound"]
    assert sorted(damage.path.parent.name for damage in ledger.damage) == sorted(made)
    assert not anchors_of(tmp_path / "rsl_rl" / "e" / "pipe").keys() - {"journal-1-0.jsonl"}


def test_links_that_lead_nowhere_are_passed_over(tmp_path: Path) -> None:
    write_run(tmp_path, "aa")
    (tmp_path / "gone").symlink_to("/nonexistent")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    assert len(find_journals(tmp_path)) == 1


def test_what_an_anchor_names_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_run(tmp_path, "aa", status=None) / "journal-1-0.jsonl"
    synchronized = []
    fsync = os.fsync

    def note(descriptor: int) -> None:
        synchronized.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    assert anchors_of(path.parent).keys() == {path.name}
    assert path.stat().st_ino in synchronized


def test_a_process_that_the_system_hides_is_judged_by_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    here = identify_process(os.getpid())
    assert here is not None
    assert is_alive(NOBODY, here) is False
    assert is_alive(NOBODY, None) is False
    assert is_alive(os.getpid(), here) is True
    assert is_alive(os.getpid(), replace(here, start_ticks=here.start_ticks + 1)) is False

    def refuse(pid: int, signum: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "kill", refuse)  # as in a system whose /proc is mounted with hidepid
    assert is_alive(NOBODY, here) is None
    assert is_alive(NOBODY, None) is None


def test_damage_shows_control_characters_of_file_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from ledger_lab.ledger.find import read_runs

    run_dir = write_run(tmp_path, "aa")
    path = run_dir.rename(run_dir.with_name("\x1b]0;owned\x07")) / "journal-1-0.jsonl"
    path.write_bytes(path.read_bytes()[:300] + b"x\n")
    assert read_runs(tmp_path) == ()
    said = capsys.readouterr().err
    assert "\\x1b]0;owned\\x07" in said
    assert "\x1b" not in said
