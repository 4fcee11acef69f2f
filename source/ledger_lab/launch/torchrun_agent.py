"""``python -m ledger_lab.launch.torchrun_agent``: torchrun with the exit status of its processes.

torchrun itself exits with status 1 and a long traceback, however its processes ended. If a signal asks it to end, its
traceback says nothing about them. This module passes signals on, waits, and exits with the status of its processes.

torchrun's store listens at all addresses of the machine, and torchrun unpickles what it finds there: whoever can
connect can run code. Here ``--standalone`` opens no port, and launchers of several machines listen at the address that
they are given.
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
from ledger_lab.terminal.console import tell_error
from ledger_lab.terminal.exit_status import ENDING, EXIT_REQUEUE, asks_to_resume, exit_status_of

_PASSED_ON = tuple(signum for signum in ENDING if signum is not signal.SIGXCPU)
"""Signals that are passed on. Not SIGXCPU: each process has a budget of its own."""


def main(argv: Sequence[str]) -> NoReturn:
    """Run a program in several processes until all of them are gone.

    Args:
        argv: Command line of torchrun.

    Raises:
        SystemExit: Always. The status is that of rank 0 if it failed by itself, else of the process that failed first.
            A process ended by a signal counts as 128 + signal. If a signal comes before any process listens for it,
            the status is that of an attempt that the signal ends. If no process could be started, it is 2.
    """
    resuming = asks_to_resume(argv)
    for signum in _PASSED_ON:
        signal.signal(signum, functools.partial(_pass_on, resuming))
    # Imported only now: the import takes seconds, and a signal may come meanwhile.
    from torch.distributed import DistError
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.rendezvous import RendezvousError
    from torch.distributed.run import parse_args, run

    from ledger_lab.launch.rendezvous import safe_rendezvous

    logging.disable(logging.ERROR)  # the processes report their own errors
    args = parse_args(["--signals-to-handle", "", *argv])
    try:
        with safe_rendezvous(args):
            run(args)
    except ChildFailedError as error:
        first = next(iter(error.failures.values()))  # they stand in the order in which they were seen
        failed = error.failures.get(0, first)
        if failed.exitcode < 0 or failed.exitcode in (EXIT_REQUEUE, exit_status_of(Status.PREEMPTED)):
            failed = first  # torchrun ends the others when one has failed
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


def _pass_on(resuming: bool, signum: int, _: FrameType | None) -> None:
    """Pass a signal on to all processes, which end in their own time.

    Args:
        resuming: Whether they go on with a run.
        signum: The signal.

    Raises:
        SystemExit: If there are none.
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
