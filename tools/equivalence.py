"""The tables of each library's settings for the fields of a recipe; the page of recipe fields shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from ledger_lab.tasks.recipes import Dialect

TASK_FIELDS = frozenset({"num_envs"})
"""Fields that belong to the task and not to a library."""


def equivalence_table(dialects: Sequence[Dialect]) -> str:
    """Return the translations of all fields in Markdown.

    Args:
        dialects: Libraries, or algorithms of them, in the order of the columns.

    Returns:
        A table, without a line break at the end.
    """
    recipes = dict.fromkeys(dialect.recipe for dialect in dialects)
    heads = [each.title if len(recipes) == 1 else each.learner for each in dialects]
    known = dict.fromkeys(field.name for recipe in recipes for field in fields(recipe))
    names = [name for name in known if name not in TASK_FIELDS]
    lines = [_row("recipe", *heads), "|" + "---|" * (1 + len(heads))]
    lines += [_row(f"`{name}`", *(_cell(dialect, name) for dialect in dialects)) for name in names]
    return "\n".join(lines)


def _row(*cells: str) -> str:
    """Return a line of the table."""
    return f"| {' | '.join(cells)} |"


def _cell(dialect: Dialect, name: str) -> str:
    """Return the settings of a field; empty if the algorithm has no such field."""
    only, setting = dialect.only.get(name), dialect.settings.get(name)
    words = [] if setting is None else [f"`{setting.override.removeprefix('agent.')}`"]
    if setting is not None and setting.note:
        words.append(setting.note)
    if only is not None:
        words.append(f"always {str(only.value).lower()}")
    return ", ".join(words)
