"""``python -m ledger_lab.training.launch.torchrun_agent``: torchrun with the exit status of its processes.

torchrun itself exits with status 1 and a long traceback, whatever the status of its processes. After a signal, its
traceback does not describe them. This module forwards signals, waits, and exits with the status of its processes.

torchrun's store listens at all addresses of the machine, and torchrun unpickles its content. Every program that can
connect can therefore run code. Here ``--standalone`` opens no port, and launchers of several machines listen at the
address that they are given.
"""

from __future__ import annotations

import errno
import functools
import logging
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

import psutil

from ledger_lab.errors import UserError, first_line
from ledger_lab.ledger import Status
from ledger_lab.reports.terminal.console import tell_error
from ledger_lab.reports.terminal.exit_status import ENDING, EXIT_REQUEUE, asks_to_resume, exit_status_of

_FORWARDED = tuple(signum for signum in ENDING if signum is not signal.SIGXCPU)
"""Signals that are forwarded. SIGXCPU is not: each process has its own limit of processor time."""


def main(argv: Sequence[str]) -> NoReturn:
    """Run a program in several processes until all of them are gone.

    Args:
        argv: Command line of torchrun.

    Raises:
        SystemExit: Always. The status is that of rank 0 if it failed by itself, else that of the first failed process.
            A process ended by a signal counts as 128 + signal. If a signal comes before there are processes, the status
            is that of an attempt ended by this signal. If the processes can't be started, the status is 2.
    """
    resuming = asks_to_resume(argv)
    for signum in _FORWARDED:
        signal.signal(signum, functools.partial(_forward, resuming))
    # Imported only now: the import takes seconds, and a signal may come meanwhile.
    from torch.distributed import DistError
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.rendezvous import RendezvousError
    from torch.distributed.run import parse_args, run

    from ledger_lab.training.launch.rendezvous import safe_rendezvous

    logging.disable(logging.ERROR)  # the processes report their own errors
    args = parse_args(["--signals-to-handle", "", *argv])
    try:
        with safe_rendezvous(args):
            run(args)
    except ChildFailedError as error:
        first = next(iter(error.failures.values()))  # in the order in which torchrun found them
        failed = error.failures.get(0, first)
        if failed.exitcode < 0 or failed.exitcode in (EXIT_REQUEUE, exit_status_of(Status.PREEMPTED)):
            failed = first  # torchrun ended rank 0 after another process had failed
        if -failed.exitcode in ENDING:
            sys.exit(exit_status_of(ENDING[signal.Signals(-failed.exitcode)], resuming))
        sys.exit(failed.exitcode if failed.exitcode >= 0 else 128 - failed.exitcode)
    except (DistError, RendezvousError, OSError) as error:
        why = first_line(error)
        if os.strerror(errno.EADDRINUSE).lower() in why.lower():
            why += ": end the process that uses the port, or choose another port (--master-port, --rdzv-endpoint)"
        sys.exit(tell_error(UserError(f"the processes cannot be started: {why}")))
    except UserError as error:
        sys.exit(tell_error(error))
    sys.exit(0)


def _forward(resuming: bool, signum: int, _: FrameType | None) -> None:
    """Forward a signal to all processes, without waiting for their end.

    Args:
        resuming: Whether the processes resume a run.
        signum: The signal.

    Raises:
        SystemExit: If there are no processes.
    """
    processes = psutil.Process().children()
    if not processes:
        sys.exit(exit_status_of(ENDING[signal.Signals(signum)], resuming))
    for process in processes:
        try:
            process.send_signal(signum)
        except psutil.NoSuchProcess:
            continue  # it has ended by itself


if __name__ == "__main__":
    main(sys.argv[1:])
