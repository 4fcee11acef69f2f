"""The processes of an attempt learn from each other's journals how one of them ended."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from ledger_lab.ledger import AttemptEnded, Journal, Status, SupervisionStarted
from ledger_lab.ledger.liveness import identify_process
from ledger_lab.ledger.runs import telemetry_path
from ledger_lab.training.supervision.peers import Peers

HERE = socket.gethostname()


def end(status: Status, reason: str | None = None) -> AttemptEnded:
    """Return an end without figures."""
    return AttemptEnded(
        status=status, reason=reason, wall_ns=1, peak_host_memory_bytes=None, peak_gpu_memory_bytes=None
    )


def supervisor(folder: Path, rank: int, *, attempt: int = 1, host: str = HERE, pid: int | None = None) -> Journal:
    """Begin the journal of a supervisor, which is this process unless a pid is given."""
    journal = Journal(folder / f"journal-{attempt}-supervisor{f'-{rank}' if rank else ''}.jsonl")
    pid = os.getpid() if pid is None else pid
    journal.append(
        SupervisionStarted(
            run_id="aaaaaaaa",
            attempt=attempt,
            rank=rank,
            pid=pid,
            host=host,
            wall_ns=1,
            process=identify_process(pid),
        )
    )
    telemetry_path(journal.path).touch()
    return journal


def cause(peers: Peers, patience_s: float = 0.0) -> str | None:
    """Look once, and return the end that is known."""
    peers.look(patience_s)
    return None if peers.first is None else peers.first.in_words


def test_the_first_end_is_the_end_of_all_ranks(tmp_path: Path) -> None:
    journals = [supervisor(tmp_path, rank) for rank in range(3)]
    peers = [Peers(journal.path, 1) for journal in journals]
    failed = end(Status.CRASHED, "CollectiveError: closed")
    for each in peers:
        assert cause(each) is None
    killed = end(Status.KILLED, "SIGKILL")
    assert peers[1].settle(killed) is killed, "its own end is its own"
    journals[1].append(killed)
    for rank in (0, 2):
        row = peers[rank].settle(failed)
        assert (row.status, row.reason) == (Status.KILLED, f"rank 1 on {HERE}: SIGKILL")
        journals[rank].append(row)
    assert cause(Peers(journals[2].path, 1)) == f"rank 1 on {HERE}: SIGKILL"


def test_an_agreed_end_is_no_cause_and_has_none(tmp_path: Path) -> None:
    first, second, third = (supervisor(tmp_path, rank) for rank in range(3))
    second.append(end(Status.TARGET_REACHED))
    peers, row = Peers(first.path, 1), end(Status.CRASHED, "in shutdown")
    assert peers.settle(row) is row
    third.append(end(Status.NON_FINITE))
    reached = end(Status.TARGET_REACHED)
    assert peers.settle(reached) is reached
    assert peers.settle(row).reason == f"rank 2 on {HERE}: non finite"


def test_a_supervisor_that_vanished_is_the_cause(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as killed:
        supervisor(tmp_path, 1, pid=killed.pid)
        peers = Peers(supervisor(tmp_path, 0).path, 1)
        assert cause(peers) is None
        killed.kill()
    assert cause(peers) == f"rank 1 on {HERE}: gone, with its supervisor, and without a word"


def test_a_machine_without_heartbeats_is_lost_only_while_this_one_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, other = supervisor(tmp_path, 0), supervisor(tmp_path, 1, host="node-7")
    monkeypatch.setattr("ledger_lab.training.supervision.peers._SILENCE_EVERY_S", 0.0)
    peers = Peers(own.path, 1)
    for silent in (own, other):
        os.utime(telemetry_path(silent.path), (0, 0))
    assert cause(peers, 0.5) is None, "all were suspended, or the disk is full"
    telemetry_path(own.path).touch()
    assert cause(peers) is None, "the other may just have been continued"
    assert cause(peers) == "rank 1 on node-7: gone, with its supervisor, and without a word"


def test_a_refusal_is_removed_when_all_others_have_seen_it(tmp_path: Path) -> None:
    own, other = supervisor(tmp_path, 0), supervisor(tmp_path, 1)
    own.append(refused := end(Status.REFUSED, "UserError: no room"))
    peers, theirs = Peers(own.path, 1), Peers(other.path, 1)
    peers.wait_for_all(0.0)
    settled = theirs.settle(end(Status.PREEMPTED, "SIGTERM"))
    assert theirs.first is not None and theirs.first.refused
    assert (settled.status, settled.reason) == (Status.REFUSED, f"rank 0 on {HERE}: {refused.reason}")
    other.append(settled)
    peers.wait_for_all(60.0)
    other.path.unlink()
    peers.wait_for_all(60.0)
