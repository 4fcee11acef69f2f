"""What a tree of Python objects remembers.

Isaac Lab keeps the state of a simulation in hundreds of places: tensors, Warp arrays and plain numbers in managers,
terms, assets, sensors and a user's own terms. None of them can save itself. This module walks through the attributes
and containers of a few root objects. A list of known owners would miss the terms of users, and break silently with each
version of Isaac Lab.
"""

from __future__ import annotations

import functools
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from types import ModuleType
from typing import Any

import numpy as np
import torch
import warp as wp

PLAIN = frozenset({bool, int, float, str, type(None)})
"""Types of plain values."""
_CONTAINERS = (dict, list, tuple, deque, set)
_CLOSED = frozenset(sys.stdlib_module_names) | {
    *("carb", "gymnasium", "isaacsim", "mujoco", "numpy", "omni", "pxr", "rich", "tensorboard", "tensordict", "torch"),
    *("trimesh", "usdrt", "warp"),
}
"""Packages whose objects are skipped: they hold handles, code, or values that no step changes."""


@functools.cache
def _arrays() -> tuple[type, ...]:
    """Return the types of objects that are not walked through; importing them starts Warp, and prints."""
    from isaaclab.utils.warp import ProxyArray

    return (torch.Tensor, np.ndarray, wp.array, ProxyArray, torch.Generator)


def walk(
    roots: Mapping[str, object],
    *,
    closed: Iterable[object] = (),
    only: Mapping[type, Set[str]] | None = None,
    is_leaf: Callable[[Any], bool] = lambda value: False,
) -> Iterator[tuple[str, Any, dict[Any, Any]]]:
    """Yield each object and container of a tree once, by the first path that leads to it, with what it holds.

    The path is the same in every process that builds the same tree. Frozen dataclasses are treated as constants.

    Args:
        roots: The objects to begin with, by name; for a class, its own attributes.
        closed: Objects to skip.
        only: Attributes to look at, by class; of other classes, all attributes.
        is_leaf: Tells which other values are not walked through.

    Yields:
        Path, object, and its values by attribute, key or index.
    """
    seen = {id(each): each for each in closed}  # also keeps the objects alive, so that ids stay unique
    waiting = [*reversed([*roots.items()])]
    while waiting:
        path, holder = waiting.pop()
        if id(holder) in seen:
            continue
        seen[id(holder)] = holder
        held = _held(holder, only or {})
        yield path, holder, held
        named = [(key, value) for key, value in held.items() if type(key) in (str, int)]
        deeper = [(f"{path}.{key}", value) for key, value in named if _is_open(value) and not is_leaf(value)]
        waiting += reversed(deeper)


def _held(holder: Any, only: Mapping[type, Set[str]]) -> dict[Any, Any]:
    """Return an object's values by attribute, key or index."""
    if isinstance(holder, dict):
        return dict(holder)
    if isinstance(holder, _CONTAINERS):
        return dict(enumerate(holder))
    kind = holder if isinstance(holder, type) else type(holder)
    held = dict(getattr(holder, "__dict__", {}))
    for base in kind.__mro__ if kind is not holder else ():
        slots = base.__dict__.get("__slots__", ())
        names = (slots,) if isinstance(slots, str) else slots
        held |= {name: getattr(holder, name) for name in names if hasattr(holder, name)}
    own = only.get(kind, held.keys())
    return {name: each for name, each in held.items() if name in own and not (name[:2] == name[-2:] == "__")}


def _is_open(value: Any) -> bool:
    """Tell whether to visit an object's values."""
    if isinstance(value, _CONTAINERS):
        return True
    kind = type(value)
    if isinstance(value, (type, *_arrays())) or kind.__module__.partition(".")[0] in _CLOSED:
        return False
    frozen = getattr(kind, "__dataclass_params__", None)
    return frozen is None or not frozen.frozen


class Memory:
    """The values of a tree of objects at one time, which can be restored in the same process.

    Functions, and objects that can be called, are no values: they may be hooks.
    """

    def __init__(
        self,
        roots: Mapping[str, object],
        *,
        closed: Iterable[object] = (),
        only: Mapping[type, Set[str]] | None = None,
        modules: Iterable[ModuleType] = (),
    ) -> None:
        """Copy everything.

        Args:
            roots: The objects to begin with, as in :func:`walk`.
            closed: Objects to skip.
            only: Attributes to look at, by class.
            modules: Modules of which plain values are remembered.
        """
        self._contents = [(holder, held) for _, holder, held in walk(roots, closed=closed, only=only)]
        for each in modules:
            self._contents.append((each, {name: held for name, held in vars(each).items() if type(held) in PLAIN}))
        self._names = [set(getattr(holder, "__dict__", ())) for holder, _ in self._contents]
        found = [each for _, held in self._contents for each in held.values() if isinstance(each, _arrays())]
        arrays = {_place(each): each for each in found}
        self._arrays = [(each, _copied(each)) for each in arrays.values()]

    def restore(self) -> None:
        """Restore all values, and remove those that have been added since.

        Arrays are written in place, as recorded graphs hold their addresses.
        """
        for (holder, held), names in zip(self._contents, self._names, strict=True):
            refill(holder, held, names)
        for array, copy in self._arrays:
            _write(array, copy)


def refill(holder: Any, held: Mapping[Any, Any], names: Set[str]) -> None:
    """Give an object or a container back what it held.

    Args:
        holder: The object.
        held: What it held, as :func:`walk` yields it.
        names: Names of its attributes; those that have been added since are removed.
    """
    match holder:
        case dict():
            holder.clear()
            holder.update(held)
        case list() | deque():
            holder.clear()
            holder.extend(held.values())
        case set():
            holder.clear()
            holder.update(held.values())
        case _ if not isinstance(holder, tuple):
            own = getattr(holder, "__dict__", {})
            for name in [] if isinstance(holder, type) else own.keys() - names:
                if not callable(own[name]):
                    del own[name]
            for name, value in held.items():
                is_value = not callable(value) and not hasattr(type(value), "__get__")
                if is_value and (own[name] if name in own else getattr(holder, name, None)) is not value:
                    setattr(holder, name, value)


def _place(array: Any) -> object:
    """Return what is equal for arrays that are copied once: tensors that share all of their memory, or one object."""
    if not isinstance(array, torch.Tensor):
        return id(array)
    memory = array.untyped_storage()
    return memory.data_ptr(), memory.nbytes()


def _copied(array: Any) -> Any:
    """Return a copy of what an array or a random generator holds."""
    match array:
        case torch.Tensor():
            return array.untyped_storage().clone()
        case torch.Generator():
            return array.get_state()
        case np.ndarray():
            return array.copy()
        case _:
            return wp.clone(array if isinstance(array, wp.array) else array.warp)


def _write(array: Any, copy: Any) -> None:
    """Write a copy into its array or random generator."""
    match array:
        case torch.Tensor():
            array.untyped_storage().copy_(copy)
        case torch.Generator():
            array.set_state(copy)
        case np.ndarray():
            if array.flags.writeable:
                array[...] = copy
        case _:
            wp.copy(array if isinstance(array, wp.array) else array.warp, copy)


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


def is_whole(value: Any) -> bool:
    """Tell whether a value is saved as a whole: a plain value, a sequence of them, or an array."""
    if isinstance(value, list | tuple | deque | set):
        return all(type(each) in PLAIN for each in value)
    return type(value) in PLAIN or isinstance(value, np.generic | np.ndarray | torch.Tensor)


def saved(value: Any) -> Any:
    """Return a whole value as a file of torch holds it without code: plain, a list of them, or a tensor on the CPU."""
    if isinstance(value, np.ndarray | torch.Tensor):
        return torch.as_tensor(value).detach().cpu().clone()
    if isinstance(value, set):
        return sorted(value, key=repr)
    return value.item() if isinstance(value, np.generic) else [*value] if isinstance(value, tuple | deque) else value


def put_saved(holder: Any, held: Mapping[Any, Any], name: str | int, value: Any) -> bool:
    """Restore a saved value in an object, perhaps in another process, and tell whether this is possible.

    Args:
        holder: The object.
        held: What it holds, as :func:`walk` yields it.
        name: Attribute, key or index of the value.
        value: A result of :func:`saved`.
    """
    now = held.get(name)
    if isinstance(value, torch.Tensor) and isinstance(now, np.ndarray | torch.Tensor):
        if now.shape == value.shape:
            torch.as_tensor(now).copy_(value)
            return True
        value = value.numpy() if isinstance(now, np.ndarray) else value.to(now.device)
    elif isinstance(value, list) and isinstance(now, list | deque | set):
        now.clear()
        now.update(value) if isinstance(now, set) else now.extend(value)
        return True
    elif isinstance(value, list) and isinstance(now, tuple):
        value = tuple(value)
    elif isinstance(now, np.generic):
        value = type(now)(value)
    if isinstance(holder, tuple | deque | set) or (isinstance(holder, list) and name not in held):
        return repr(now) == repr(value)
    if issubclass(type(holder), dict | list):
        holder[name] = value
    else:
        setattr(holder, str(name), value)
    return True
