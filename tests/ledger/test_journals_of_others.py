"""Removed, copied or changed journals of a run are reported, and change no other run."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ledger_lab.ledger import (
    AttemptEnded,
    AttemptStarted,
    Journal,
    LedgerDamageError,
    ShutdownEnded,
    Status,
    SupervisionStarted,
    TelemetryStarted,
    find_journals,
    read_ledger,
    reader,
)
from ledger_lab.ledger.anchors import anchors_of
from ledger_lab.ledger.liveness import identify_process
from tests.conftest import script
from tests.fakes.ledgers import result, write_further_rank, write_run


def second_attempt(run_dir: Path, number: int = 2, rank: int = 0) -> Path:
    """Write a further attempt, which names the journals that are there."""
    path = run_dir / f"journal-{number}-{rank}.jsonl"
    anchors = anchors_of(run_dir)
    with Journal(path) as journal:
        journal.append(
            AttemptStarted(
                run_id=run_dir.name,
                attempt=number,
                rank=rank,
                pid=2**22 + 1,
                host=socket.gethostname(),
                wall_ns=1,
                anchors=anchors,
            )
        )
    return path


def evaluated(run_dir: Path, name: str = "journal-evaluation-0.jsonl") -> Path:
    with Journal(run_dir / name) as journal:
        journal.append(result(run_dir.name, "model_1.pt", 2))
    return run_dir / name


def cut(path: Path, lines: int) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-lines]))


def copied_attempt(root: Path, run_dir: Path) -> str:
    other = write_run(root.parent / "elsewhere", "other", proof=10, status=Status.TARGET_REACHED)
    source = second_attempt(other)
    shutil.copy(source, run_dir)
    return r"journal-2-0.jsonl:1: it belongs to run other, and journal-1-0.jsonl declares run aa"


def removed_attempt(root: Path, run_dir: Path) -> str:
    second_attempt(run_dir, 3)
    return "aa:1: attempt 2 of 3 is missing"


def removed_declaration(root: Path, run_dir: Path) -> str:
    second_attempt(run_dir)
    (run_dir / "journal-1-0.jsonl").unlink()
    return "aa:1: the declaration of its run is missing"


def removed_rank(root: Path, run_dir: Path) -> str:
    second_attempt(run_dir, 2)
    (run_dir / "journal-1-1.jsonl").unlink()
    return "journal-2-0.jsonl:1: journal-1-1.jsonl is missing: it had 1 rows"


def removed_rank_of_the_last_attempt(root: Path, run_dir: Path) -> str:
    (run_dir / "journal-1-1.jsonl").unlink()
    return "aa:1: the journal of rank 1 of attempt 1 is missing (of 2 processes)"


def removed_first_rank_of_the_last_attempt(root: Path, run_dir: Path) -> str:
    for rank in (1, 0):
        second_attempt(run_dir, 2, rank)
    ended = AttemptEnded(
        status=Status.COMPLETED, reason=None, wall_ns=9, peak_host_memory_bytes=None, peak_gpu_memory_bytes=None
    )
    with Journal(run_dir / "journal-2-supervisor.jsonl") as journal:  # as earlier versions ended it, without anchors
        journal.append(SupervisionStarted(run_id="aa", attempt=2, pid=2**22 + 1, host=socket.gethostname(), wall_ns=1))
        journal.append(ended)
    (run_dir / "journal-2-0.jsonl").unlink()
    return "aa:1: the journal of rank 0 of attempt 2 is missing (of 2 processes)"


def cut_end(root: Path, run_dir: Path) -> str:
    second_attempt(run_dir)
    cut(run_dir / "journal-1-0.jsonl", 2)
    return "journal-1-0.jsonl:10: it was cut: journal-2-0.jsonl names 11 rows of it"


def written_anew(root: Path, run_dir: Path) -> str:
    second_attempt(run_dir)
    anew = write_run(root.parent / "anew", "aa", scores=(1, 2)) / "journal-1-0.jsonl"
    shutil.copy(anew, run_dir)
    return "journal-1-0.jsonl:11: it is not the journal that journal-2-0.jsonl names"


def cut_before_a_supervisors_last_row(root: Path, run_dir: Path) -> str:
    with Journal(run_dir / "journal-1-supervisor.jsonl") as journal:
        journal.append(ShutdownEnded(wall_ns=1, exit_code=0, signal=None, overdue=False, anchors=anchors_of(run_dir)))
    cut(run_dir / "journal-1-0.jsonl", 1)
    return "journal-1-0.jsonl:11: it was cut: journal-1-supervisor.jsonl names 11 rows of it"


def cut_what_is_scored(root: Path, run_dir: Path) -> str:
    evaluated(run_dir)
    cut(run_dir / "journal-1-0.jsonl", 7)
    return "journal-evaluation-0.jsonl:1: it scores model_1.pt (243a580fb373…), which no attempt of the run saved"


def copied_evaluation(root: Path, run_dir: Path) -> str:
    shutil.copy(evaluated(run_dir), run_dir / "journal-evaluation-1.jsonl")
    return "journal-evaluation-1.jsonl:1: it is a copy of journal-evaluation-0.jsonl"


def two_runs_of_one_id(root: Path, run_dir: Path) -> str:
    shutil.copytree(run_dir, root / "rsl_rl" / "e" / "copy")
    return f"copy:1: run aa lies in {run_dir}, too"


@pytest.mark.parametrize(
    "attack",
    [
        copied_attempt,
        removed_attempt,
        removed_declaration,
        removed_rank,
        removed_rank_of_the_last_attempt,
        removed_first_rank_of_the_last_attempt,
        cut_end,
        written_anew,
        cut_before_a_supervisors_last_row,
        cut_what_is_scored,
        copied_evaluation,
        two_runs_of_one_id,
    ],
)
def test_damage_of_one_run_is_named_and_other_runs_stay_readable(
    tmp_path: Path, attack: Callable[[Path, Path], str]
) -> None:
    root = tmp_path / "logs"
    write_run(root, "sound", proof=9, status=Status.TARGET_REACHED)
    run_dir = write_run(root, "aa", world_size=2)
    write_further_rank(run_dir)
    assert not read_ledger(root, tolerate_damage=True).damage
    complaint = attack(root, run_dir)
    ledger = read_ledger(root, tolerate_damage=True)
    assert [run.declared.run_id for run in ledger.runs] == ["sound"]
    (damage,) = ledger.damage
    assert complaint in str(damage)


def test_each_of_several_machines_may_keep_only_the_journals_of_its_own_processes(tmp_path: Path) -> None:
    write_run(tmp_path, "aa", world_size=2, machines=2)
    assert not read_ledger(tmp_path, tolerate_damage=True).damage


def test_scores_outside_of_their_run_are_named(tmp_path: Path) -> None:
    write_run(tmp_path, "sound")
    scores = evaluated(write_run(tmp_path, "aa"))
    (tmp_path / "aside").mkdir()
    scores.rename(tmp_path / "aside" / scores.name)
    ledger = read_ledger(tmp_path, tolerate_damage=True)
    assert sorted(run.run_id for run in ledger.runs) == ["aa", "sound"]
    (damage,) = ledger.damage
    assert "aside:1: the declaration of its run is missing" in str(damage)


def test_a_report_leaves_a_damaged_run_out_and_exits_with_1(tmp_path: Path) -> None:
    write_run(tmp_path, "sound")
    copied_evaluation(tmp_path, write_run(tmp_path, "aa"))
    finished = script("report", "--log_root", tmp_path)
    assert finished.returncode == 1
    assert "sound" in finished.stdout
    assert "\naa" not in finished.stdout
    (line,) = finished.stderr.splitlines()
    assert line.startswith("left out: ")
    assert "journal-evaluation-1.jsonl:1: it is a copy of journal-evaluation-0.jsonl" in line


def test_journals_of_telemetry_need_not_be_kept(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, "aa")
    telemetry = run_dir / "journal-1-telemetry.jsonl"
    with Journal(telemetry) as journal:
        journal.append(TelemetryStarted(run_id="aa", attempt=1, rank=0))
    second_attempt(run_dir)
    telemetry.unlink()
    assert not read_ledger(tmp_path, tolerate_damage=True).damage


def test_rows_written_while_the_ledger_is_read_are_not_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir = write_run(tmp_path, "aa")
    path, late = run_dir / "journal-1-0.jsonl", run_dir / "journal-2-0.jsonl"
    whole = path.read_bytes()
    second_attempt(run_dir)
    cut(path, 1)
    real, read = reader.read_journal, list[str]()

    def read_while_others_write(journal: Path, **how: bool) -> object:
        found = real(journal, **how)
        if not read:
            path.write_bytes(whole)
        read.append(journal.name)
        return found

    monkeypatch.setattr(reader, "read_journal", read_while_others_write)
    (run,) = read_ledger(tmp_path).runs
    assert len(run.attempts) == 2
    assert read == [path.name, late.name] * 2


def test_a_directory_that_cannot_be_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = write_run(tmp_path, "aa")
    scandir = os.scandir

    def refuse(path: str) -> object:
        if Path(path) == hidden:
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)  # root may read everything
    with pytest.raises(LedgerDamageError, match=r"aa:1: cannot be read: Permission denied"):
        find_journals(tmp_path)


def test_symbolic_links_are_followed_once(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "elsewhere", "aa")
    root = tmp_path / "logs"
    root.mkdir()
    (root / "linked").symlink_to(run_dir)
    (root / "again").symlink_to(run_dir)
    (root / "circle").symlink_to(root)
    (run,) = read_ledger(root).runs
    assert run.declared.run_id == "aa"


def test_a_link_out_of_the_ledger_leads_to_no_walk_of_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = tmp_path / "disk"
    write_run(disk / "deep" / "deeper", "aa")
    run_dir = write_run(tmp_path / "logs", "bb")
    (run_dir / "data").symlink_to(disk)
    (run_dir / "within").symlink_to(run_dir.parent)
    seen: list[str] = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: seen.append(str(path)) or scandir(path))
    ledger = read_ledger(tmp_path / "logs", tolerate_damage=True)
    assert [run.run_id for run in ledger.runs] == ["bb"]
    (damage,) = ledger.damage
    assert damage.path == run_dir / "data"
    assert "it is a link to a folder outside of the ledger, whose folders are not searched" in str(damage)
    assert not [path for path in seen if "deep" in path]


def test_a_process_is_identified_by_more_than_pid_and_clock(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    run_dir = write_run(tmp_path, "aa", status=None)
    identity = identify_process(child.pid)
    assert identity is not None
    with Journal(run_dir / "journal-2-0.jsonl") as journal:
        journal.append(
            AttemptStarted(
                run_id="aa",
                attempt=2,
                rank=0,
                pid=child.pid,
                host=socket.gethostname(),
                wall_ns=1,
                process=identity,
            )
        )
    (run,) = read_ledger(tmp_path).runs
    assert run.attempts[1].status is Status.RUNNING
    child.communicate(b"\n")
    assert run.attempts[1].status is Status.LOST


@pytest.mark.parametrize("change", [{"boot_id": "another"}, {"pid_namespace": 1}])
def test_a_process_of_another_namespace_is_judged_by_silence_alone(tmp_path: Path, change: dict[str, object]) -> None:
    run_dir = write_run(tmp_path, "aa", status=None)
    identity = identify_process(os.getpid())
    assert identity is not None
    with Journal(run_dir / "journal-2-0.jsonl") as journal:
        journal.append(
            AttemptStarted(
                run_id="aa",
                attempt=2,
                rank=0,
                pid=2**22 + 1,  # here there is no such process
                host=socket.gethostname(),
                wall_ns=1,
                process=replace(identity, **change),  # type: ignore[arg-type]
            )
        )
    (run,) = read_ledger(tmp_path).runs
    assert run.attempts[1].status is Status.RUNNING
