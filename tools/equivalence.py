"""The table of each library's settings for the fields of a recipe; the page of recipe fields shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from ledger_lab.recipes.dialect import Dialect
from ledger_lab.recipes.ppo import PpoRecipe

TASK_FIELDS = frozenset({"num_envs"})
"""Fields that belong to the task and not to a library."""


def equivalence_table(dialects: Sequence[Dialect]) -> str:
    """Return the translations of all fields, and the differences between libraries, in Markdown.

    Args:
        dialects: The libraries, in the order of the columns.

    Returns:
        A table and a list, without a line break at the end.
    """
    lines = [_row("recipe", *(dialect.title for dialect in dialects)), "|" + "---|" * (1 + len(dialects))]
    names = [field.name for field in fields(PpoRecipe) if field.name not in TASK_FIELDS]
    lines += [_row(f"`{name}`", *(_cell(dialect, name) for dialect in dialects)) for name in names]
    matters = dict.fromkeys(matter for dialect in dialects for matter in dialect.differences)
    lines.append("")
    lines += [_difference(dialects, matter, matter in names) for matter in matters]
    return "\n".join(lines)


def _row(*cells: str) -> str:
    """Return a line of the table."""
    return f"| {' | '.join(cells)} |"


def _cell(dialect: Dialect, name: str) -> str:
    """Return a library's name for a field."""
    only, setting = dialect.only.get(name), dialect.settings.get(name)
    words = [] if setting is None else [f"`{setting.override.removeprefix('agent.')}`"]
    if setting is not None and setting.note:
        words.append(setting.note)
    if only is not None:
        words.append(f"always {str(only.value).lower()}")
    return ", ".join(words)


def _difference(dialects: Sequence[Dialect], matter: str, is_field: bool) -> str:
    """Return how the libraries differ in one field or topic."""
    ways = [f"*{each.title}:* {each.differences[matter]}" for each in dialects if matter in each.differences]
    return f"- {f'`{matter}`' if is_field else matter} – {'; '.join(ways)}."
