"""Panels: the held-out exams, read from TOML files."""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ledger_lab.errors import UserError, nearest
from ledger_lab.paths import config_root


@dataclass(frozen=True)
class Cell:
    """One condition of a panel."""

    name: str


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A held-out exam: which episodes, and when one counts as a success.

    An episode succeeds when no failing termination fired before its horizon and the success function held at every step
    of the last :attr:`hold_s` seconds.
    """

    name: str
    source: str
    """What :func:`load_panel` finds it again by: its name, or the absolute path of its file."""
    task: str
    """Gymnasium id of the task."""
    description: str
    seeds: tuple[int, ...]
    """Identities of the episodes, the same for every cell."""
    episode_length_s: float
    """Horizon [s]."""
    target_success: float
    """Share of successful episodes that a working policy reaches, in (0, 1]."""
    success_function: str
    """``module:function``; called like a termination term, it returns a boolean tensor of shape (num_envs,)."""
    success_version: int
    """Raised by hand whenever the function's meaning changes."""
    success_params: dict[str, Any] = field(default_factory=dict)
    hold_s: float = 0.0
    """How long the function must hold at the end [s]; 0 asks for the last step only."""
    cells: tuple[Cell, ...] = (Cell("nominal"),)

    @property
    def episodes(self) -> tuple[tuple[str, int], ...]:
        """All (cell, seed) pairs, in the order of their slots."""
        return tuple((cell.name, seed) for cell in self.cells for seed in self.seeds)


_FIELDS: dict[str, type | tuple[type, ...]] = {
    "task": str,
    "description": str,
    "seeds": dict,
    "episode_length_s": (int, float),
    "target_success": (int, float),
    "success": dict,
}
_SEED_FIELDS: dict[str, type | tuple[type, ...]] = {"first": int, "count": int}
_SUCCESS_FIELDS: dict[str, type | tuple[type, ...]] = {
    "function": str,
    "version": int,
    "hold_s": (int, float),
    "params": dict,
}


def find_panels() -> dict[str, Path]:
    """Return the files of the panels that come with the project, by name."""
    return {path.stem: path for path in sorted((config_root() / "panels").glob("*.toml"))}


def load_panel(name_or_path: str) -> Panel:
    """Load a panel by its name, or from a file.

    Args:
        name_or_path: Name of a panel of the project, or path of a TOML file.

    Returns:
        The panel.

    Raises:
        UserError: If there is no such panel, or its file is not one.
    """
    if name_or_path.endswith(".toml") or "/" in name_or_path:
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
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read panel file {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"panel file {path} is not valid TOML: {error}") from error
    return _panel(path, source, content)


def _panel(path: Path, source: str, content: dict[str, Any]) -> Panel:
    """Build a panel from the content of its file, refusing what it doesn't understand."""
    _check(path, "", content, _FIELDS)
    seeds, success = content["seeds"], content["success"]
    _check(path, "seeds.", seeds, _SEED_FIELDS)
    _check(path, "success.", {"params": {}, "hold_s": 0.0, **success}, _SUCCESS_FIELDS)
    panel = Panel(
        name=path.stem,
        source=source,
        task=content["task"],
        description=content["description"],
        seeds=tuple(range(seeds["first"], seeds["first"] + seeds["count"])),
        episode_length_s=float(content["episode_length_s"]),
        target_success=float(content["target_success"]),
        success_function=success["function"],
        success_version=success["version"],
        success_params=dict(success.get("params", {})),
        hold_s=float(success.get("hold_s", 0.0)),
    )
    for valid, complaint in (
        (_finite(content), "numbers must be finite, and dates are none"),
        (seeds["first"] >= 0 and seeds["count"] >= 1, "seeds.first must be at least 0 and seeds.count at least 1"),
        (panel.episode_length_s > 0, "episode_length_s must be positive"),
        (0 < panel.target_success <= 1, "target_success must lie in (0, 1]"),
        (0 <= panel.hold_s <= panel.episode_length_s, "success.hold_s must lie between 0 and episode_length_s"),
        (panel.success_function.count(":") == 1, "success.function must read 'module:function'"),
    ):
        if not valid:
            raise UserError(f"panel file {path}: {complaint}")
    return panel


def _finite(value: Any) -> bool:
    """Tell whether a value of a TOML file can stand in JSON."""
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
