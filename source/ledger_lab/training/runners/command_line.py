"""Command lines with the flags of Isaac Lab and its launcher."""

from __future__ import annotations

from collections.abc import Sequence

import gymnasium as gym
from isaaclab.app import add_launcher_args
from isaaclab_tasks.utils import setup_preset_cli

from ledger_lab.errors import UserError
from ledger_lab.reports.terminal.request import SimulationRequest
from ledger_lab.tasks.registry import registered_tasks


def parse[R: SimulationRequest](request: type[R], argv: Sequence[str]) -> R:
    """Parse a command line together with Isaac Lab's launcher flags.

    Args:
        request: What to make of the command line. If it has a field ``overrides``, Hydra overrides go there; otherwise
            they are refused.
        argv: Command line without the program's name.

    Returns:
        The request.

    Raises:
        SystemExit: If the command line asks for help.
        UserError: If the command line can't be parsed, or the request refuses what is given.
    """
    parser = request.parser()
    if request.takes_overrides():
        registered_tasks()  # --help lists the presets of the task it is asked with
    add_launcher_args(parser)
    parser.set_defaults(device=None)
    if not request.takes_overrides():
        return request.of(vars(parser.parse_intermixed_args(list(argv))), [])
    try:
        parsed, overrides = setup_preset_cli(parser, list(argv))
    except gym.error.Error as error:
        raise UserError(f"{error} (scripts/list_envs.py lists the tasks)") from error
    return request.of(vars(parsed), overrides)
