"""Arguments of ``train.py`` in a study file, or after ``--``."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ledger_lab.errors import UserError

STUDY_FLAGS = ("--seed", "--cohort", "--cohort_size", "--log_root", "--resume")
"""Flags of ``train.py`` that every study sets itself."""
_HELP = ("-h", "--help")
"""Flags that show a text instead of training."""
_NUM_ENVS = ("--num_envs", "env.scene.num_envs")
"""A flag, and the override that does the same."""


def check_arguments(
    where: str, found: object, taken: Sequence[str] = STUDY_FLAGS, *, setter: str = "study"
) -> tuple[str, ...]:
    """Check arguments for ``scripts/train.py``.

    Args:
        where: Place in the file, for messages.
        found: The arguments.
        taken: Flags that the study or the search sets itself.
        setter: What sets them, for messages: a study or a search.

    Returns:
        The arguments. As in a shell, ``~`` at the start of a value is replaced by the home folder.

    Raises:
        UserError: If they are not a list of strings, or name a flag of ``taken``.
    """
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise UserError(f'{where}: must be a list of texts, like ["--num_envs", "512"]')
    if named := next((each for each in found if _sets(each, taken)), None):
        raise UserError(f"{where}: {named}: leave it out, because the {setter} sets it")
    if helps := next((each for each in found if each in _HELP), None):
        raise UserError(f"{where}: {helps}: leave it out, because it trains nothing")
    return tuple(_at_home(each) for each in found)


def _sets(argument: str, taken: Sequence[str]) -> bool:
    """Tell whether an argument is one of some flags, in full or shortened, or the override that does the same."""
    name = argument.partition("=")[0]
    if _NUM_ENVS[0] in taken and name.lstrip("+") == _NUM_ENVS[1]:
        return True
    return len(name) > len("--") and name.startswith("--") and any(flag.startswith(name) for flag in taken)


def _at_home(argument: str) -> str:
    """Put the home folder in place of a ``~`` at the beginning of an argument, or of its value after ``=``."""
    name, equals, value = argument.rpartition("=")
    return f"{name}{equals}{os.path.expanduser(value)}"
