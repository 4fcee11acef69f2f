"""Names of trainings, and values of recipes, in words."""

from __future__ import annotations

from ledger_lab.studies.search.decisions import Start
from ledger_lab.studies.search.declaration import SearchDeclaration
from ledger_lab.studies.search.space import Values
from ledger_lab.studies.search.trials import STOCK, SearchTraining, generation_of, member_of


def trial_words(declaration: SearchDeclaration, trial: int) -> str:
    """Return the name of a trial.

    Args:
        declaration: The search.
        trial: Its number.
    """
    if trial == STOCK:
        return "the stock recipe"
    if declaration.population is None:
        return f"trial {trial}"
    return f"member {member_of(declaration, trial)} in generation {generation_of(declaration, trial)}"


def training_words(declaration: SearchDeclaration, training: SearchTraining) -> str:
    """Return the name of a training.

    Args:
        declaration: The search.
        training: The training.
    """
    place = training.place
    on = "on sealed" if place.sealed else "again on" if place.repeat else "on"
    return f"{trial_words(declaration, place.trial)} {on} seed {training.seed}"


def copy_words(declaration: SearchDeclaration, start: Start) -> str:
    """Say whose policy a training begins with, if it is that of another member or an earlier training of a schedule.

    Args:
        declaration: The search.
        start: The training.

    Returns:
        The end of a clause; empty if there is nothing to say.
    """
    if start.begins_with is None:
        return ""
    before = start.begins_with.place.trial
    if start.place.sealed:
        return f", after {trial_words(declaration, before)}"
    member = member_of(declaration, before)
    return "" if member == member_of(declaration, start.place.trial) else f", as a copy of member {member}"


def values_words(values: Values) -> str:
    """Return values of a trial in one line.

    Args:
        values: The values.
    """
    return ", ".join(f"{name} {_value_words(value)}" for name, value in values.items())


def _value_words(value: object) -> str:
    """Return a value as a text."""
    if isinstance(value, tuple):
        return "×".join(map(str, value))
    if isinstance(value, float):
        return f"{value:.3g}"
    return str(value).lower() if isinstance(value, bool) else str(value)
