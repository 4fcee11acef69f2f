"""Play a checkpoint, and record it with --video."""

import sys
from collections.abc import Sequence

from ledger_lab.checkpoints.request import PlayRequest, play_parser
from ledger_lab.checkpoints.viewer import require_viewer
from ledger_lab.commands.first_look import first_look
from ledger_lab.supervision.supervisor import run_watched


def main(argv: Sequence[str]) -> int | None:
    """Run in the watched process; only this process imports torch and Isaac Lab."""
    from ledger_lab.checkpoints.play import play_run

    return play_run(argv)


if __name__ == "__main__":
    first_look(play_parser, sys.argv[1:], PlayRequest, require_viewer)  # before anything heavy is imported
    run_watched(main)
