"""Command lines with the flags of Isaac Lab and its launcher."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import fields

import gymnasium as gym
from isaaclab.app import add_launcher_args
from isaaclab_tasks.utils import setup_preset_cli

from ledger_lab.errors import UserError
from ledger_lab.tasks.registry import registered_tasks
from ledger_lab.terminal.request import SimulationRequest, as_given, flag_names


def parse[R: SimulationRequest](parser: argparse.ArgumentParser, request: type[R], argv: Sequence[str]) -> R:
    """Parse a command line together with Isaac Lab's launcher flags.

    Args:
        parser: Parser with the flags of the request.
        request: What to make of the command line. If it has a field ``overrides``, Hydra overrides go there; otherwise
            they are refused.
        argv: Command line without the program's name.

    Returns:
        The request.

    Raises:
        SystemExit: If the command line can't be parsed, or asks for help.
        UserError: If the request refuses what is given.
    """
    takes_overrides = "overrides" in {each.name for each in fields(request)}
    if takes_overrides:
        registered_tasks()  # --help lists the presets of the task it is asked with
    add_launcher_args(parser)
    parser.set_defaults(device=None)
    if takes_overrides:
        try:
            parsed, overrides = setup_preset_cli(parser, list(argv))
        except gym.error.Error as error:
            raise UserError(f"{error} (scripts/list_envs.py lists the tasks)") from error
    else:
        parsed, overrides = parser.parse_intermixed_args(list(argv)), []
    values = vars(parsed)
    own = {name: values.pop(name) for name in flag_names(request) if name in values}
    device = values.pop("device")
    given = (*own, *(() if device is None else ("device",)))
    extra = {"overrides": tuple(overrides)} if takes_overrides else {}
    return request(**as_given(own), **extra, device=device, launcher=values, given=given)
