"""Score any number of checkpoints on every episode of a held-out panel, in one simulation pass."""

import sys
from collections.abc import Sequence

from ledger_lab.commands.first_look import first_look
from ledger_lab.evaluation.request import EvaluateRequest, evaluate_parser
from ledger_lab.supervision.link import Link
from ledger_lab.supervision.supervisor import run_supervised


def main(argv: Sequence[str], started_ns: int, link: Link) -> None:
    """Run in the supervised process; only this process imports torch and Isaac Lab."""
    from ledger_lab.evaluation.run import evaluate_run

    evaluate_run(argv, started_ns, link)


if __name__ == "__main__":
    # before anything heavy is imported
    first_look(evaluate_parser, sys.argv[1:], EvaluateRequest)
    run_supervised(main)
