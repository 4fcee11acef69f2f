"""The private values of a term: numbers, texts and tensors among its attributes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from ledger_lab.panels.memory import PLAIN, refill, walk


class PrivateValues:
    """The private values of a term at one time.

    A tensor with a row per environment counts with the rows of the held-out slots only. Of other objects, such as
    assets and configurations, only the identity counts.
    """

    def __init__(self, term: object, num_envs: int, first: int) -> None:
        """Remember the values. The host does not wait for the device.

        Args:
            term: The term.
            num_envs: Number of environments.
            first: The first held-out slot.
        """
        self._term, self._num_envs, self._first = term, num_envs, first
        self._contents = [(holder, held) for _, holder, held in walk({"": term}, is_leaf=_is_value)]
        self._values = {
            place: (value, self._rows(value).clone() if isinstance(value, torch.Tensor) else None, _version(value))
            for place, value in self._leaves()
        }

    def restore(self) -> None:
        """Set all values to what they were, but for the rows of training slots."""
        for holder, held in self._contents:
            refill(holder, held, held.keys())
        for value, rows, _ in self._values.values():
            if rows is not None:
                self._rows(value).copy_(rows)

    def changed(self) -> list[str]:
        """Set the rows of held-out slots to what they were, and return the names of other values that differ.

        The host waits for the device only if a tensor without a row per environment was written.
        """
        found, now = [], dict(self._leaves())
        for place in {**self._values, **now}:
            before, rows, version = self._values.get(place, (None, None, None))
            value = now.get(place)
            if rows is None or not isinstance(value, torch.Tensor):
                plain = type(value) is type(before) and type(value) in PLAIN
                if value is not before and not (plain and value == before):
                    found.append(place)
            elif value is before and version is not None and version == _version(value):
                continue
            elif self._has_row_each(value) and self._rows(value).shape == rows.shape:
                self._rows(value).copy_(rows)
            elif value.shape != rows.shape or not torch.equal(value, rows):
                found.append(place)
        return found

    def _leaves(self) -> Iterator[tuple[str, Any]]:
        """Yield the values by their places."""
        for path, _, held in walk({"": self._term}, is_leaf=_is_value):
            yield from ((f"{path}.{key}".removeprefix("."), value) for key, value in held.items() if _is_value(value))

    def _has_row_each(self, value: torch.Tensor) -> bool:
        """Tell whether a tensor has a row per environment."""
        return value.shape[:1] == (self._num_envs,)

    def _rows(self, value: torch.Tensor) -> torch.Tensor:
        """Return what counts of a tensor."""
        return value[self._first :] if self._has_row_each(value) else value


def _is_value(value: Any) -> bool:
    """Tell whether a value is not another term, nor a container."""
    from isaaclab.managers import ManagerTermBase

    return not isinstance(value, ManagerTermBase | dict | list | tuple)


def _version(value: Any) -> int | None:
    """Return a number that changes when a tensor is written; ``None`` if torch keeps none."""
    if not isinstance(value, torch.Tensor) or value.is_inference():
        return None
    return value._version
