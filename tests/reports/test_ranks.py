"""Runs of several processes, from rows alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ledger_lab.ledger import (
    AttemptEnded,
    AttemptStarted,
    HostSample,
    Journal,
    LearnerHashed,
    LedgerDamageError,
    Status,
    SupervisionStarted,
    Telemetry,
    read_ledger,
)
from ledger_lab.reports import summarize_run
from ledger_lab.reports.ranks import rank_words
from tests.fakes.ledgers import SECOND, declared, window, write_run


def second_rank(run_dir: Path, synchronize_s: int = 2, compared: Sequence[LearnerHashed] = ()) -> None:
    """Add a second process, which trains for 6 s, on another machine."""
    with Journal(run_dir / "journal-1-1.jsonl") as journal:
        journal.append(AttemptStarted(run_id="aa", attempt=1, rank=1, pid=2, host="b", wall_ns=SECOND, seed=2))
        journal.append(window(None, 0, {"startup": 2 * SECOND}, 2 * SECOND))
        waited, learned = synchronize_s * SECOND, (6 - synchronize_s) * SECOND
        journal.append(window(2, 80, {"synchronize": waited, "learn": learned}, 8 * SECOND))
        for row in compared:
            journal.append(row)


def supervisor(run_dir: Path, rank: int, end: AttemptEnded | None, name: str = "") -> None:
    """Add the supervisor of a rank, which sees 1 GB and one core busy."""
    path = run_dir / f"journal-1-supervisor{name or (f'-{rank}' if rank else '')}.jsonl"
    with Journal(path) as journal:
        pid = 4 if name else 3  # within a millisecond, the same content would be a copy
        journal.append(SupervisionStarted(run_id="aa", attempt=1, rank=rank, pid=pid, host="b", wall_ns=SECOND))
        seen = HostSample(cpu_s=8.0, busiest_thread=0.5, memory_bytes=10**9, available_bytes=10**10)
        journal.append(Telemetry(wall_ns=8 * SECOND, host=seen, devices=[]))
        if end is not None:
            journal.append(end)


def ended(status: Status, reason: str | None, wall_s: int, peak_bytes: int = 10**9) -> AttemptEnded:
    """Return an end."""
    return AttemptEnded(
        status=status,
        reason=reason,
        wall_ns=wall_s * SECOND,
        peak_host_memory_bytes=peak_bytes,
        peak_gpu_memory_bytes=None,
    )


def test_each_process_counts_and_the_slowest_is_named(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, "aa", world_size=2, status=None)
    second_rank(run_dir)
    supervisor(run_dir, 0, ended(Status.COMPLETED, None, 9))
    supervisor(run_dir, 1, ended(Status.COMPLETED, None, 9, peak_bytes=3 * 10**9))
    (run,) = read_ledger(tmp_path).runs
    summary = summarize_run(run)
    assert (summary.status, summary.world_size) == ("completed", 2)
    assert [(rank.rank, rank.host, rank.seed, rank.train_s) for rank in summary.ranks][1] == (1, "b", 2, 6.0)
    assert [rank.synchronize_share for rank in summary.ranks] == [0.0, pytest.approx(1 / 3)]
    assert sum(summary.phases.values()) == pytest.approx(summary.wall_s)
    assert summary.peak_host_memory_gb == 3.0, "of the process that took most"
    assert summary.host is not None
    assert (summary.host.peak_memory_gb, summary.host.cpu_s_per_s) == (2.0, 2.0), "all processes together"
    line = rank_words(summary.ranks)
    assert "synchronize takes 0 % of the training loop on rank 0" in line and "to 33 % on rank 1 (b)" in line


def test_learners_are_compared_by_each_processs_journal(tmp_path: Path) -> None:
    def compared(*hashes: str) -> list[LearnerHashed]:
        return [LearnerHashed(sha256=each * 32, iteration=n, wall_ns=n) for n, each in enumerate(hashes, start=1)]

    said = []
    for name, theirs in (("same", ("ab", "cd")), ("other", ("ab", "ce")), ("short", ("ab",)), ("none", ())):
        run_dir = write_run(tmp_path / name, "aa", world_size=2, compared=compared("ab", "cd"))
        second_rank(run_dir, compared=compared(*theirs))
        (run,) = read_ledger(tmp_path / name).runs
        line = rank_words(summarize_run(run).ranks)
        said.append(line.partition("; their learners ")[2])
    assert said == [
        "were equal to the last bit whenever compared (2 ×), after iteration 2 with SHA-256 cdcdcdcdcdcd…",
        "differ after iteration 2",
        "were equal to the last bit whenever compared (1 ×), after iteration 1 with SHA-256 abababababab…",
        "",
    ]


def test_another_process_records_the_end_if_the_first_vanished(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, "aa", scores=(), world_size=2, status=None)
    second_rank(run_dir)
    supervisor(run_dir, 0, None)
    supervisor(run_dir, 1, ended(Status.CRASHED, "rank 0 on a: gone", 4))
    (run,) = read_ledger(tmp_path).runs
    summary = summarize_run(run)
    assert (summary.status, summary.reason) == ("crashed", "rank 0 on a: gone")
    assert sum(summary.phases.values()) == pytest.approx(summary.wall_s), "clocks of two processes differ"
    assert min(summary.phases.values()) >= 0


def test_two_supervisors_of_one_rank_are_damage(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, "aa", world_size=2, status=None)
    supervisor(run_dir, 1, None)
    supervisor(run_dir, 1, None, name="-2")
    with pytest.raises(LedgerDamageError, match="claims to be the supervisor of rank 1 of attempt 1, too"):
        read_ledger(tmp_path)


def test_a_run_pays_per_accelerator_or_per_cpu_machine() -> None:
    of_one = declared("aa", world_size=4, device="cpu")
    assert of_one.devices == 1
    assert replace(of_one, machines=2).devices == 2
    assert replace(of_one, device="cuda:0").devices == 4
