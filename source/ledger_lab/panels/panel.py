"""Panels, read from TOML files."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from ledger_lab.documents import read_toml
from ledger_lab.errors import UserError, nearest
from ledger_lab.panels.perturbations import Perturbation, read_perturbations
from ledger_lab.panels.seeds import PANEL_SEED_LIMIT, comparison_seeds, confirmation_seeds
from ledger_lab.paths import panel_files

type EarlyTimeOut = Literal["failure", "judged"]


@dataclass(frozen=True)
class Cell:
    """One condition of a panel."""

    name: str
    perturbations: tuple[Perturbation, ...] = ()
    """Changes to the task; empty in a nominal cell."""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Held-out episodes, and the condition under which an episode is a success.

    An episode succeeds if no termination ended it before its full length, and the success function was true at every
    step of the last :attr:`hold_s` seconds. For terminations that are time-outs, see :attr:`early_time_out`.
    """

    name: str
    source: str
    """Argument with which :func:`load_panel` finds the panel again: its name, or the absolute path of its file."""
    task: str
    """Gymnasium id of the task."""
    description: str
    seeds: tuple[int, ...]
    """Identities of the episodes, the same for every cell."""
    episode_length_s: float
    """Full length of an episode [s]."""
    target_success: float
    """Share of successful episodes that a working policy reaches, in (0, 1]."""
    success_function: str
    """``module:function``; called like a termination term, it returns a boolean tensor of shape (num_envs,)."""
    success_params: dict[str, Any] = field(default_factory=dict)
    hold_s: float = 0.0
    """How long the success function must be true at the end [s]; 0 requires the last step only."""
    early_time_out: EarlyTimeOut = "failure"
    """What happens if a termination with ``time_out=True`` ends an episode before its full length.

    ``failure``: the episode fails. ``judged``: the success function decides, as at the full length. In the last step,
    such terminations have no effect. Other terminations always mean a failure.
    """
    cells: tuple[Cell, ...] = (Cell("nominal"),)

    fresh: bool = False
    """Whether every episode has a seed of its own, in the order of :attr:`episodes`.

    This is so in a confirmation and in a comparison of two policies, because their episodes must be independent of
    each other. In all other panels, every seed has one episode per cell.
    """

    @property
    def episodes(self) -> tuple[tuple[str, int], ...]:
        """All (cell, seed) pairs, in the order of their slots."""
        if not self.fresh:
            return tuple((cell.name, seed) for cell in self.cells for seed in self.seeds)
        each = len(self.seeds) // len(self.cells)
        names = (cell.name for cell in self.cells for _ in range(each))
        return tuple(zip(names, self.seeds, strict=True))

    def confirmation(self, run_id: str, number: int, extension: int = 0) -> Panel:
        """Return a panel of a run's confirmation: the same panel with fresh seeds.

        Args:
            run_id: The run.
            number: Number of the confirmation in the run, from 1.
            extension: Number of the panel within the confirmation, from 0.
        """
        return replace(self, seeds=confirmation_seeds(run_id, number, len(self.episodes), extension), fresh=True)

    def comparison(self, first: str, second: str) -> Panel:
        """Return the panel on which two policies are compared: the same panel with fresh seeds, common to both.

        Args:
            first: SHA-256 of the checkpoint of one policy.
            second: SHA-256 of the checkpoint of the other policy. The order makes no difference.
        """
        return replace(self, seeds=comparison_seeds(first, second, len(self.episodes)), fresh=True)


_MOST_SEEDS = 1_000_000

_FIELDS: dict[str, type | tuple[type, ...]] = {
    "task": str,
    "description": str,
    "seeds": (dict, list),
    "episode_length_s": (int, float),
    "target_success": (int, float),
    "success": dict,
    "cells": list,
}
_SEED_FIELDS: dict[str, type | tuple[type, ...]] = {"first": int, "count": int}
_SUCCESS_FIELDS: dict[str, type | tuple[type, ...]] = {
    "function": str,
    "hold_s": (int, float),
    "params": dict,
    "early_time_out": str,
}


def find_panels() -> dict[str, Path]:
    """Return the files of the panels that come with the project, by name."""
    return {path.stem: path for path in sorted(panel_files(), key=lambda path: path.stem)}


def is_panel_file(name_or_path: str) -> bool:
    """Tell whether a panel is given by the path of its file, rather than by its name.

    Args:
        name_or_path: Name of a panel, or path of a file.
    """
    return name_or_path.endswith(".toml") or "/" in name_or_path


def require_target(target: float | None) -> None:
    """Refuse a target outside of (0, 1].

    Args:
        target: Value of ``--target``; ``None`` if the flag is not given.

    Raises:
        UserError: If it does not lie in (0, 1].
    """
    if target is not None and not 0 < target <= 1:
        raise UserError(f"--target {target}: must be above 0 and at most 1")


def load_panel(name_or_path: str) -> Panel:
    """Load a panel by its name, or from a file.

    Args:
        name_or_path: Name of a panel of the project, or path of a TOML file.

    Returns:
        The panel.

    Raises:
        UserError: If the panel does not exist, or its file is not a valid panel.
    """
    if is_panel_file(name_or_path):
        path = Path(name_or_path)
    else:
        known = find_panels()
        if name_or_path not in known:
            raise UserError(
                f"unknown panel {name_or_path!r}: {nearest(name_or_path, known)}, or a path to a .toml file"
            )
        path = known[name_or_path]
    source = name_or_path if path != Path(name_or_path) else str(path.resolve())
    try:
        content = read_toml(path)
    except OSError as error:
        raise UserError(f"cannot read panel file {path}: {error.strerror}") from error
    except ValueError as error:
        raise UserError(f"panel file {path} is not valid TOML: {error}") from error
    return _panel(path, source, content)


def _panel(path: Path, source: str, content: dict[str, Any]) -> Panel:
    """Build a panel from the content of its file; refuse unknown fields and wrong values."""
    content = {"cells": [{"name": "nominal"}], **content}
    _check(path, "", content, _FIELDS)
    ranges, success = content["seeds"], content["success"]
    ranges = ranges if isinstance(ranges, list) else [ranges]
    for each in ranges:
        if not isinstance(each, dict):
            raise UserError(f"panel file {path}: seeds must read {{ first = 0, count = 256 }}, or be a list of such")
        _check(path, "seeds.", each, _SEED_FIELDS)
    success = {"params": {}, "hold_s": 0.0, "early_time_out": "failure", **success}
    _check(path, "success.", success, _SUCCESS_FIELDS)
    panel = Panel(
        name=path.stem,
        source=source,
        task=content["task"],
        description=content["description"],
        seeds=_seeds(path, ranges),
        episode_length_s=float(content["episode_length_s"]),
        target_success=float(content["target_success"]),
        success_function=success["function"],
        success_params=dict(success["params"]),
        hold_s=float(success["hold_s"]),
        early_time_out=success["early_time_out"],
        cells=_cells(path, content["cells"]),
    )
    for valid, complaint in (
        (_finite(content), "numbers must be finite, and dates are none"),
        (panel.episode_length_s > 0, "episode_length_s must be positive"),
        (0 < panel.target_success <= 1, "target_success must lie in (0, 1]"),
        (0 <= panel.hold_s <= panel.episode_length_s, "success.hold_s must lie between 0 and episode_length_s"),
        (panel.success_function.count(":") == 1, "success.function must read 'module:function'"),
        (
            panel.early_time_out in get_args(EarlyTimeOut.__value__),
            f"success.early_time_out is {panel.early_time_out!r}: it must be 'failure' or 'judged'",
        ),
    ):
        if not valid:
            raise UserError(f"panel file {path}: {complaint}")
    return panel


def _seeds(path: Path, ranges: list[dict[str, int]]) -> tuple[int, ...]:
    """Return the seeds of one or more ranges."""
    seeds: dict[int, None] = {}
    for each in ranges:
        first, count = each["first"], each["count"]
        if count > _MOST_SEEDS:
            raise UserError(f"panel file {path}: {count} seeds do not fit into memory: use at most {_MOST_SEEDS}")
        if first < 0 or count < 1 or first + count > PANEL_SEED_LIMIT:
            raise UserError(f"panel file {path}: seeds must lie between 0 and {PANEL_SEED_LIMIT - 1}, at least one")
        twice = next((seed for seed in range(first, first + count) if seed in seeds), None)
        if twice is not None:
            raise UserError(f"panel file {path}: the ranges of seeds overlap: {twice} is in more than one")
        seeds.update(dict.fromkeys(range(first, first + count)))
    if not seeds:
        raise UserError(f"panel file {path}: no seeds: add seeds = {{ first = 0, count = 256 }}")
    return tuple(seeds)


def _cells(path: Path, tables: list[Any]) -> tuple[Cell, ...]:
    """Return the cells of a panel."""
    cells: dict[str, Cell] = {}
    for table in tables:
        if not isinstance(table, dict) or not isinstance(table.get("name"), str) or not table["name"]:
            raise UserError(f"panel file {path}: give each cell a name")
        name = table["name"]
        if name in cells:
            raise UserError(f"panel file {path}: two cells have the name {name!r}: rename one of them")
        perturbations = {kind: given for kind, given in table.items() if kind != "name"}
        cells[name] = Cell(name, read_perturbations(f"panel file {path}: cell {name!r}", perturbations))
    if not cells:
        raise UserError(f"panel file {path}: no cells: add a cell with a name")
    return tuple(cells.values())


def _finite(value: Any) -> bool:
    """Tell whether a value of a TOML file can be written as JSON."""
    if isinstance(value, dict | list):
        return all(_finite(item) for item in (value.values() if isinstance(value, dict) else value))
    return isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value))


def _check(path: Path, prefix: str, content: dict[str, Any], allowed: dict[str, type | tuple[type, ...]]) -> None:
    """Refuse unknown, missing and mistyped fields."""
    for key, value in content.items():
        if key not in allowed:
            raise UserError(f"panel file {path}: unknown field {prefix + key!r}: {nearest(key, allowed)}")
        if not isinstance(value, allowed[key]) or isinstance(value, bool):
            raise UserError(f"panel file {path}: field {prefix + key!r} has the wrong type ({type(value).__name__})")
    for key in allowed:
        if key not in content:
            raise UserError(f"panel file {path}: field {prefix + key!r} is missing")
