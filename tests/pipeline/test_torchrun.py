"""The launcher of several processes exits as they do."""

from __future__ import annotations

import signal
from argparse import Namespace

import pytest


def exit_status_after(ending: BaseException, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how the launcher exits when torchrun ends so."""
    from ledger_lab.pipeline import torchrun

    def run(args: Namespace) -> None:
        assert args.signals_to_handle == "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1,SIGUSR2"
        raise ending

    monkeypatch.setattr(torchrun, "run", run)
    monkeypatch.setattr(torchrun.logging, "disable", lambda _: None)
    with pytest.raises(SystemExit) as ended:
        torchrun.main(["--nproc-per-node", "2", "train.py"])
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.parametrize(
    ("signum", "exit_status"),
    [(signal.SIGTERM, 143), (signal.SIGUSR1, 143), (signal.SIGHUP, 130), (signal.SIGINT, 130)],
)
def test_asked_to_end_it_exits_as_a_run_does(
    signum: signal.Signals, exit_status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch.distributed.elastic.multiprocessing.api import SignalException

    assert exit_status_after(SignalException("asked", sigval=signum), monkeypatch) == exit_status


@pytest.mark.parametrize(
    ("failures", "exit_status"),
    [
        ({1: 2, 0: 143}, 2),
        ({1: -9, 0: -15}, 137),
        ({1: -9, 0: 1}, 1),
        ({0: 143, 1: 143}, 143),
        ({1: 137, 0: 137}, 137),
        ({3: 1}, 1),
    ],
    ids=["refused", "killed early", "the first rank knows", "preempted", "killed", "elsewhere"],
)
def test_it_exits_as_its_processes_do(
    failures: dict[int, int], exit_status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

    seen = {rank: ProcessFailure(rank, 2**22 + 1 + rank, code, "") for rank, code in failures.items()}
    assert exit_status_after(ChildFailedError("train.py", seen), monkeypatch) == exit_status


def test_processes_that_cannot_be_started_are_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from torch.distributed.elastic.rendezvous import RendezvousConnectionError

    assert exit_status_after(RendezvousConnectionError("no port is free\nand more"), monkeypatch) == 2
    assert capsys.readouterr().err == "error: the processes cannot be started: no port is free\n"
