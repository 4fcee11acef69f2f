"""Play a checkpoint, and record it with --video."""

import sys
from collections.abc import Sequence

from ledger_lab.checkpoints.request import play_parser
from ledger_lab.supervision.supervisor import run_watched
from ledger_lab.terminal.flags import answer_help


def main(argv: Sequence[str]) -> int | None:
    """Work in the watched process, which alone imports what is heavy."""
    from ledger_lab.checkpoints.play import play_run

    return play_run(argv)


if __name__ == "__main__":
    answer_help(play_parser, sys.argv[1:], launcher=True)  # before anything heavy is imported
    run_watched(main)
