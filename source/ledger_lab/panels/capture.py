"""Copies and restores the values in a tree of Python objects.

Isaac Lab keeps the state of a simulation in hundreds of places: tensors, Warp arrays and plain numbers in managers,
terms, assets, sensors and a user's own terms. None of them can save itself. This module walks through the attributes
and containers of a few root objects. A list of known owners would miss the terms of users, and break silently with each
version of Isaac Lab. Pickle cannot store Warp's handles, and would replace arrays whose addresses recorded graphs hold.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Any, NamedTuple

import numpy as np
import torch
import warp as wp
from isaaclab.utils.warp import ProxyArray

_PLAIN = frozenset({bool, int, float, str, type(None)})
_SEQUENCES = (list, tuple, deque, set)
_HANDLES = (wp.array, ProxyArray, torch.Generator)
"""Types whose objects are kept: their content is overwritten."""
_ARRAYS = (torch.Tensor, np.ndarray, *_HANDLES)
_CLOSED = frozenset(sys.stdlib_module_names) | {
    *("carb", "gymnasium", "isaacsim", "mujoco", "numpy", "omni", "pxr", "rich", "tensorboard", "tensordict", "torch"),
    *("trimesh", "usdrt", "warp"),
}
"""Packages whose objects are skipped: they hold handles, code, or values that no step changes."""

type Place = tuple[str, str | int]
"""Path of an object, and the attribute, key or index inside it."""

type Snapshot = dict[Place, Any]
"""Values by place: plain values, sequences of them, and tensors on the CPU."""


class _Leaf(NamedTuple):
    """A value, and the object or container that holds it."""

    holder: Any
    value: Any


class Capture:
    """Reads and writes the values of a tree of objects.

    Each object is visited once, by the first path that leads to it. This path is the same in every process that builds
    the same tree. Frozen dataclasses are treated as constants.
    """

    def __init__(
        self,
        roots: Mapping[str, object],
        *,
        closed: Iterable[object] = (),
        only: Mapping[type, Set[str]] | None = None,
    ) -> None:
        """Choose the tree.

        Args:
            roots: The objects to begin with, by name; for a class, its own attributes.
            closed: Objects to skip.
            only: Attributes to look at, by class; of other classes, all attributes.
        """
        self._roots, self._closed, self._only = dict(roots), {id(each): each for each in closed}, only or {}

    def take(self, wants: Callable[[Place, Any], bool] = lambda place, value: True) -> Snapshot:
        """Copy values; arrays that share memory also share it in the copy.

        Args:
            wants: Selects places by their values.
        """
        # Keep each source alive: if it were freed, another array could get its address and look like the same one.
        memory: dict[object, tuple[torch.Tensor, torch.Tensor]] = {}
        snapshot: Snapshot = {}
        for place, (_, value) in self._leaves().items():
            if not wants(place, value):
                continue
            tensor = _tensor(value)
            if tensor is not None:
                key = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
                snapshot[place] = memory.setdefault(key, (tensor, tensor.clone()))[1]
            else:
                snapshot[place] = _plain(value)
        return snapshot

    def put(self, wanted: Snapshot) -> list[Place]:
        """Restore values.

        Arrays that fit are written in place, as recorded graphs hold their addresses.

        Args:
            wanted: The values to restore, by place.

        Returns:
            Places that could not be restored.
        """
        holders: dict[str, Any] = {}
        leaves, missed = self._leaves(holders), []
        for place, value in wanted.items():
            leaf = leaves.get(place)
            if leaf is None:
                stored = place[0] in holders and _assign(holders[place[0]], place[1], value)
            else:
                stored = _equal(leaf.value, value) or _write(leaf.value, value)
                if not stored and not isinstance(leaf.value, _HANDLES):
                    stored = _assign(leaf.holder, place[1], _like(leaf.value, value))
            if not stored:
                missed.append(place)
        return missed

    def _leaves(self, holders: dict[str, Any] | None = None) -> dict[Place, _Leaf]:
        """Find every value.

        Args:
            holders: Filled with all objects and containers, by their paths.
        """
        leaves: dict[Place, _Leaf] = {}
        holders = {} if holders is None else holders
        seen = dict(self._closed)  # also keeps the objects alive, so that ids stay unique
        waiting = list(reversed(self._roots.items()))
        while waiting:
            path, holder = waiting.pop()
            if id(holder) in seen:
                continue
            seen[id(holder)] = holder
            holders[path] = holder
            deeper = []
            for key, value in self._children(holder):
                if _is_leaf(value):
                    leaves[path, key] = _Leaf(holder, value)
                elif self._is_open(value):
                    deeper.append((f"{path}.{key}", value))
            waiting += reversed(deeper)
        return leaves

    def _children(self, holder: Any) -> Iterator[tuple[str | int, Any]]:
        """Return an object's values by attribute, key or index."""
        if isinstance(holder, dict):
            yield from ((key, value) for key, value in holder.items() if type(key) in (str, int))
        elif isinstance(holder, _SEQUENCES):
            yield from enumerate(holder)
        else:
            kind = holder if isinstance(holder, type) else type(holder)
            only = self._only.get(kind)
            own = dict(getattr(holder, "__dict__", {}))
            for base in kind.__mro__ if kind is not holder else ():
                slots = base.__dict__.get("__slots__", ())
                names = (slots,) if isinstance(slots, str) else slots
                own |= {name: getattr(holder, name) for name in names if hasattr(holder, name)}
            yield from (
                (name, value)
                for name, value in own.items()
                if not (name.startswith("__") and name.endswith("__")) and (only is None or name in only)
            )

    def _is_open(self, value: Any) -> bool:
        """Tell whether to visit an object's values."""
        if isinstance(value, (dict, list, tuple, deque)):
            return True
        kind = type(value)
        if kind.__module__.partition(".")[0] in _CLOSED or isinstance(value, type):
            return False
        frozen = getattr(kind, "__dataclass_params__", None)
        return frozen is None or not frozen.frozen


def _is_leaf(value: Any) -> bool:
    """Tell whether a value is written and read as a whole."""
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        return False
    if type(value) in _PLAIN or isinstance(value, (np.generic, *_ARRAYS)):
        return True
    return type(value) in _SEQUENCES and all(type(each) in _PLAIN for each in value)


def _tensor(value: Any) -> torch.Tensor | None:
    """Return an array as a tensor on the CPU, or as bytes if torch lacks its type; ``None`` for other values."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    if isinstance(value, torch.Generator):
        return value.get_state()
    if isinstance(value, (wp.array, ProxyArray)):
        value = (value.warp if isinstance(value, ProxyArray) else value).numpy()
    if not isinstance(value, np.ndarray):
        return None
    array = np.ascontiguousarray(value)
    try:
        return torch.as_tensor(array)
    except TypeError:
        return torch.as_tensor(array.view(np.uint8))


def _equal(current: Any, wanted: Any) -> bool:
    """Tell whether two values are equal in every bit."""
    now = _tensor(current)
    if now is None or not isinstance(wanted, torch.Tensor):
        return now is None and not isinstance(wanted, torch.Tensor) and repr(_plain(current)) == repr(wanted)
    if now.shape != wanted.shape or now.dtype != wanted.dtype:
        return False
    whole = (each.clone(memory_format=torch.contiguous_format) for each in (now, wanted))  # removes strides
    return torch.equal(*(each.view(-1).view(torch.uint8) for each in whole))


def _plain(value: Any) -> Any:
    """Return a plain value; a set becomes a sorted list, any other sequence a list."""
    if isinstance(value, np.generic):
        return value.item()
    return value if type(value) in _PLAIN else sorted(value, key=repr) if isinstance(value, set) else [*value]


def _write(current: Any, wanted: Any) -> bool:
    """Write a value in place if type and size allow it; return whether it was written."""
    if isinstance(wanted, torch.Tensor):
        now = _tensor(current)
        if now is None or now.shape != wanted.shape or now.dtype != wanted.dtype:
            return False
        if isinstance(current, torch.Tensor):
            if any(stride == 0 < size - 1 for stride, size in zip(current.stride(), current.shape, strict=True)):
                return False  # its rows are one
            current.copy_(wanted)
        elif isinstance(current, torch.Generator):
            current.set_state(wanted)
        elif isinstance(current, np.ndarray):
            current[...] = wanted.numpy().view(current.dtype).reshape(current.shape)
        else:
            array = current.warp if isinstance(current, ProxyArray) else current
            like = array.numpy()
            array.assign(wanted.numpy().view(like.dtype).reshape(like.shape))
        return True
    if isinstance(current, list):
        current[:] = wanted
    elif isinstance(current, (deque, set)):
        current.clear()
        current.extend(wanted) if isinstance(current, deque) else current.update(wanted)
    else:
        return False
    return True


def _like(current: Any, wanted: Any) -> Any:
    """Convert a value to the type in its place: a tuple, a numpy array, a tensor on the same device."""
    if isinstance(wanted, torch.Tensor):
        if isinstance(current, np.ndarray):
            return wanted.numpy().copy()
        return wanted.to(current.device, copy=True) if isinstance(current, torch.Tensor) else wanted.clone()
    if isinstance(current, np.generic):
        return type(current)(wanted)
    return tuple(wanted) if isinstance(current, tuple) else wanted


def _assign(holder: Any, key: str | int, value: Any) -> bool:
    """Store a value in its holder, and tell whether the holder allows it."""
    if isinstance(holder, dict):
        holder[key] = value
    elif isinstance(holder, (list, deque)):
        if not isinstance(key, int) or key >= len(holder):
            return False
        holder[key] = value
    elif isinstance(holder, tuple):
        return False
    else:
        setattr(holder, str(key), value)
    return True
