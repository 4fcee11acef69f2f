"""``python -m ledger_lab.pipeline.torchrun``: torchrun with an exit status that tells the truth.

torchrun itself ends with 1 and a long traceback, however its processes ended. Here it ends as they did.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import NoReturn

from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.run import parse_args, run


def main(argv: Sequence[str]) -> NoReturn:
    """Run a program in several processes until all of them are gone.

    Args:
        argv: Command line of torchrun.

    Raises:
        SystemExit: Always; with the status of the first rank, where it failed, else of whoever failed first. That of a
            process that a signal ended is 128 + signal.
    """
    logging.disable(logging.ERROR)  # what went wrong is told by the processes
    try:
        run(parse_args(list(argv)))
    except ChildFailedError as error:
        failed = error.failures.get(0) or error.get_first_failure()[1]
        sys.exit(failed.exitcode if failed.exitcode >= 0 else 128 - failed.exitcode)
    except SignalException as ending:
        sys.exit(128 + ending.sigval)
    sys.exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
