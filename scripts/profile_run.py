"""Time the parts of a task's training iteration."""

import sys
from collections.abc import Sequence

from ledger_lab.commands.first_look import first_look
from ledger_lab.profiling.request import ProfileRequest, profile_parser
from ledger_lab.supervision.supervisor import run_watched
from ledger_lab.terminal.script import run_script


def main(argv: Sequence[str]) -> int | None:
    """Run in the watched process; only this process imports torch and Isaac Lab."""
    from ledger_lab.profiling.run import profile_run

    return profile_run(argv)


if __name__ == "__main__":
    first_look(profile_parser, sys.argv[1:], ProfileRequest)  # before anything heavy is imported
    if "--into" in sys.argv:  # Nsight Systems runs this, and does not follow processes that are forked
        run_script(main)
    run_watched(main)
