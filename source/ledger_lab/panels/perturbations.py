"""The perturbations that a cell can apply to its episodes, read from panel files.

The list of kinds is closed. Each kind draws its numbers per seed, uniformly from a range ``[low, high]``; a single
number ``x`` is the range ``[x, x]``. Noise and bias of observations are different: they take one number per observation
term. For noise, it is the standard deviation. For bias, it is the largest absolute value. Bodies and joints are named
by regular expressions, as in Isaac Lab.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ledger_lab.errors import UserError, nearest
from ledger_lab.tasks.recipes.rules import positive

type Range = tuple[float, float]


@dataclass(frozen=True)
class Perturbation:
    """One perturbation of a cell."""

    kind: str
    """One of :data:`KINDS`."""
    params: Mapping[str, Any]
    """All parameters of the kind, ranges as pairs."""

    def plain(self) -> dict[str, Any]:
        """Return the parameters as JSON values."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in self.params.items()}


_NEEDED = object()


def _range(value: Any) -> Range:
    """Read a range of numbers."""
    low, high = value if isinstance(value, list) and len(value) == 2 else (value, value)
    if any(isinstance(end, bool) or not isinstance(end, int | float) for end in (low, high)) or low > high:
        raise ValueError("must be a number, or [low, high]")
    return float(low), float(high)


def _positive(value: Any) -> Range:
    """Read a range of numbers above 0."""
    low, high = _range(value)
    if low <= 0:
        raise ValueError("must be above 0")
    return low, high


def _not_negative(value: Any) -> Range:
    """Read a range of numbers from 0."""
    low, high = _range(value)
    if low < 0:
        raise ValueError("must be at least 0")
    return low, high


def _steps(value: Any) -> tuple[int, int]:
    """Read a range of whole numbers from 0."""
    low, high = _not_negative(value)
    if not low.is_integer() or not high.is_integer():
        raise ValueError("must be whole numbers")
    return int(low), int(high)


def _name(value: Any) -> str:
    """Read a name or a regular expression."""
    if not isinstance(value, str):
        raise ValueError("must be a text")
    return value


def _per_term(value: Any) -> dict[str, float]:
    """Read a number above 0 per observation term."""
    if not isinstance(value, dict) or not value:
        raise ValueError("must name observation terms, like { joint_pos = 0.01 }")
    if wrong := next((term for term, number in value.items() if positive(number)), None):
        raise ValueError(f"{wrong} needs one number above 0; a range is not possible")
    return {str(term): float(number) for term, number in value.items()}


_ROBOT: dict[str, tuple[Callable[[Any], Any], Any]] = {"asset": (_name, "robot")}
_BODIES = {**_ROBOT, "bodies": (_name, ".*")}
_JOINTS = {**_ROBOT, "joints": (_name, ".*")}

KINDS: dict[str, dict[str, tuple[Callable[[Any], Any], Any]]] = {
    "initial_state": {"scale": (_not_negative, _NEEDED)},
    "mass": {**_BODIES, "scale": (_positive, _NEEDED)},
    "center_of_mass": {**_BODIES, "offset_m": (_range, _NEEDED)},
    "friction": {**_BODIES, "scale": (_not_negative, _NEEDED)},
    "joint_friction": {**_JOINTS, "add": (_not_negative, _NEEDED)},
    "actuator_strength": {**_JOINTS, "scale": (_positive, _NEEDED)},
    "actuator_damping": {**_JOINTS, "scale": (_not_negative, _NEEDED)},
    "action_delay": {"steps": (_steps, _NEEDED)},
    "control_latency": {"physics_steps": (_steps, _NEEDED)},
    "observation_noise": {"std": (_per_term, _NEEDED)},
    "observation_bias": {"range": (_per_term, _NEEDED)},
    "push": {**_ROBOT, "joints": (_name, ""), "velocity": (_range, _NEEDED), "interval_s": (_positive, _NEEDED)},
    "gravity_tilt": {"angle_rad": (_not_negative, _NEEDED)},
}
"""Every kind of perturbation with its parameters: the function that reads a parameter, and its default."""


def read_perturbations(where: str, table: Mapping[str, Any]) -> tuple[Perturbation, ...]:
    """Read the perturbations of a cell.

    Args:
        where: Description of the table, for messages.
        table: Kinds and their parameters, as written in the file.

    Raises:
        UserError: If a kind or a parameter is unknown, missing, or has a wrong value.
    """
    found = []
    for kind, given in table.items():
        if kind not in KINDS:
            raise UserError(f"{where}: unknown perturbation {kind!r}: {nearest(kind, KINDS)}")
        if not isinstance(given, dict):
            raise UserError(f"{where}: {kind} must be a table, like {{ scale = [0.8, 1.2] }}")
        known = KINDS[kind]
        for name in given:
            if name not in known:
                raise UserError(f"{where}: {kind} has no {name!r}: {nearest(name, known)}")
        params: dict[str, Any] = {}
        for name, (read, default) in known.items():
            value = given.get(name, default)
            if value is _NEEDED:
                raise UserError(f"{where}: {kind} needs {name!r}")
            try:
                params[name] = read(value)
            except (ValueError, TypeError) as error:
                raise UserError(f"{where}: {kind}.{name} is {value!r}: {error}") from error
        found.append(Perturbation(kind, params))
    return tuple(found)
