"""Command lines with the flags of Isaac Lab and its launcher."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
from isaaclab.app import add_launcher_args
from isaaclab_tasks.utils import setup_preset_cli

from ledger_lab.errors import UserError
from ledger_lab.tasks.registry import registered_tasks


def parse(parser: argparse.ArgumentParser, argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Parse a command line together with Isaac Lab's launcher flags.

    Args:
        parser: Parser with the program's own arguments.
        argv: Command line without the program's name.

    Returns:
        The arguments, and the Hydra overrides among them.
    """
    registered_tasks()  # --help lists the presets of the task it is asked with
    add_launcher_args(parser)
    parser.set_defaults(device=None)
    try:
        args, overrides = setup_preset_cli(parser, list(argv))
    except gym.error.Error as error:
        raise UserError(f"{error} (scripts/list_envs.py lists the tasks)") from error
    return args, overrides


def parse_plain(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    """Parse a command line that takes no Hydra overrides.

    Args:
        parser: Parser with the program's own arguments.
        argv: Command line without the program's name.
    """
    add_launcher_args(parser)
    parser.set_defaults(device=None)
    return parser.parse_intermixed_args(list(argv))


def launcher_args(args: argparse.Namespace, device: str) -> dict[str, Any]:
    """Return what Isaac Lab's launcher reads, with the device settled."""
    return {**vars(args), "device": device}
