"""The command line of ``scripts/list_envs.py``."""

from __future__ import annotations

import argparse


def list_envs_parser() -> argparse.ArgumentParser:
    """Return the command line of ``scripts/list_envs.py``."""
    parser = argparse.ArgumentParser(
        prog="list_envs.py",
        description="List the tasks of LedgerLab and of every other package installed, with their sizes, their "
        "physics engines and the panels that come with them. The id of a panel is the one it has on the task's default "
        "physics, here, with the packages installed now. Observations, actions and record are those of the policy that "
        "comes with the package (--pretrained): the record is its success on fresh episodes and the time until "
        "that proved its target and, behind a +, what the policy that it began with had taken; of one that fell short, "
        "its best score.",
    )
    parser.add_argument("--all", action="store_true", help="List the tasks that come with Isaac Lab, too.")
    parser.add_argument("--keyword", default="", help="List only tasks whose id contains this.")
    return parser
