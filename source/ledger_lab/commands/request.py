"""The command line of ``scripts/list_envs.py``."""

from __future__ import annotations

import argparse

from ledger_lab.terminal.flags import HelpFormatter, examples


def list_envs_parser() -> argparse.ArgumentParser:
    """Return the command line of ``scripts/list_envs.py``."""
    parser = argparse.ArgumentParser(
        prog="list_envs.py",
        description="List the tasks of LedgerLab and of all other installed packages, with their sizes, physics "
        "engines and panels. A panel id is a hash of everything that can change a score. The list shows "
        "the ids for the task's default physics and the installed packages. The column record is about the policy "
        "that comes with the package: its success on fresh episodes, and the time to its confirmed target. If that "
        "training started from another policy, the figure after the + is the time of the earlier trainings. If the "
        "policy did not reach its target, the record is its best score.",
        epilog=examples("list_envs.py", "list_envs.py --all --keyword Velocity"),
        formatter_class=HelpFormatter,
    )
    parser.add_argument("--all", action="store_true", help="Also list the tasks that come with Isaac Lab.")
    parser.add_argument("--keyword", default="", help="List only tasks whose id contains this word.")
    return parser
