"""The private values of a term: numbers, texts and tensors among its attributes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

_PLAIN = (bool, int, float, str, type(None))


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
        self._holders: list[tuple[Any, Any]] = []
        self._values: dict[str, tuple[Any, torch.Tensor | None, int | None]] = {}
        for place, value in self._leaves():
            rows = self._rows(value).clone() if isinstance(value, torch.Tensor) else None
            self._values[place] = value, rows, _version(value)

    def restore(self) -> None:
        """Set all values to what they were, but for the rows of training slots."""
        for holder, content in self._holders:
            holder.clear()
            holder.extend(content) if isinstance(holder, list) else holder.update(content)
        for value, rows, _ in self._values.values():
            if rows is not None:
                self._rows(value).copy_(rows)

    def changed(self) -> list[str]:
        """Set the rows of held-out slots to what they were, and return the names of other values that differ.

        The host waits for the device only if a tensor without a row per environment was written.
        """
        found, now = [], dict(self._leaves(keeps=False))
        for place in {**self._values, **now}:
            before, rows, version = self._values.get(place, (None, None, None))
            value = now.get(place)
            if rows is None or not isinstance(value, torch.Tensor):
                plain = type(value) is type(before) and isinstance(value, _PLAIN)
                if value is not before and not (plain and value == before):
                    found.append(place)
            elif value is before and version is not None and version == _version(value):
                continue
            elif self._has_row_each(value) and self._rows(value).shape == rows.shape:
                self._rows(value).copy_(rows)
            elif value.shape != rows.shape or not torch.equal(value, rows):
                found.append(place)
        return found

    def _leaves(self, keeps: bool = True) -> Iterator[tuple[str, Any]]:
        """Yield the values by their places, and keep the contents of what holds them."""
        from isaaclab.managers import ManagerTermBase

        seen: set[int] = set()

        def walk(value: Any, place: str) -> Iterator[tuple[str, Any]]:
            is_term = isinstance(value, ManagerTermBase) or value is self._term
            if not is_term and not isinstance(value, dict | list | tuple):
                yield place, value
                return
            if id(value) in seen:
                return
            seen.add(id(value))
            holder = vars(value) if is_term else value
            if keeps and not isinstance(holder, tuple):
                self._holders.append((holder, holder.copy()))
            for key, child in enumerate(holder) if isinstance(holder, list | tuple) else list(holder.items()):
                within = f"{place}[{key!r}]" if not is_term else f"{place}.{key}" if place else str(key)
                yield from walk(child, within)

        yield from walk(self._term, "")

    def _has_row_each(self, value: torch.Tensor) -> bool:
        """Tell whether a tensor has a row per environment."""
        return value.shape[:1] == (self._num_envs,)

    def _rows(self, value: torch.Tensor) -> torch.Tensor:
        """Return what counts of a tensor."""
        return value[self._first :] if self._has_row_each(value) else value


def _version(value: Any) -> int | None:
    """Return a number that changes when a tensor is written; ``None`` if torch keeps none."""
    if not isinstance(value, torch.Tensor) or value.is_inference():
        return None
    return value._version
