"""``python -m ledger_lab.pipeline.torchrun``: torchrun with an exit status that tells the truth.

torchrun itself ends with 1 and a long traceback, however its processes ended, and dies of the signals by which
schedulers announce the end. Here it passes these on, and ends as its processes did.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import NoReturn

from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.elastic.rendezvous import RendezvousError
from torch.distributed.run import parse_args, run

from ledger_lab.errors import UserError, first_line
from ledger_lab.ledger import Status
from ledger_lab.pipeline.console import tell_error
from ledger_lab.pipeline.verdict_of_exit import ENDING, exit_status_of

_SIGNALS = "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1,SIGUSR2"
"""Signals that are passed on. Not SIGXCPU: each process has a budget of its own."""


def main(argv: Sequence[str]) -> NoReturn:
    """Run a program in several processes until all of them are gone.

    Args:
        argv: Command line of torchrun.

    Raises:
        SystemExit: Always; with the status of the first rank, where it failed by itself, else of whoever failed first.
            That of a process that a signal ended is 128 + signal. Where this process itself was asked to end: with the
            status of an attempt that ends so. 2 where no process could be started.
    """
    logging.disable(logging.ERROR)  # what went wrong is told by the processes
    try:
        run(parse_args(["--signals-to-handle", _SIGNALS, *argv]))
    except ChildFailedError as error:
        first = next(iter(error.failures.values()))  # they stand in the order in which they were seen
        failed = error.failures.get(0, first)
        if failed.exitcode < 0 or failed.exitcode == exit_status_of(Status.PREEMPTED):
            failed = first  # torchrun ends the others when one has failed
        sys.exit(failed.exitcode if failed.exitcode >= 0 else 128 - failed.exitcode)
    except SignalException as asked:
        ended = ENDING.get(asked.sigval)
        sys.exit(128 + asked.sigval if ended is None else exit_status_of(ended))
    except (RendezvousError, OSError) as error:
        sys.exit(tell_error(UserError(f"the processes cannot be started: {first_line(error)}")))
    sys.exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
