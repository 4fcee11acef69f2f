"""All values that change in a tree of objects are found, saved and restored."""

from __future__ import annotations

import io
from collections import deque
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import warp as wp
from isaaclab.utils.warp import ProxyArray

from ledger_lab.panels.capture import Capture


@dataclass
class Term:
    """A term of a user, with every kind of value."""

    level: int = 0
    scale: float = float("nan")
    limits: tuple[float, float] = (-1.0, 1.0)
    recent: deque[float] = field(default_factory=lambda: deque([0.0], maxlen=3))
    pending: set[str] = field(default_factory=set)
    sums: dict[str, torch.Tensor] = field(default_factory=lambda: {"alive": torch.zeros(3)})
    keys: np.ndarray = field(default_factory=lambda: np.zeros(3, dtype=np.uint64))
    share: np.float64 = np.float64(0.5)
    chance: torch.Generator = field(default_factory=torch.Generator)
    parent: Any = None


@dataclass(frozen=True)
class Value:
    """A constant."""

    number: int


class Physics:
    """Keeps its values in its class."""

    time: float = 0.0
    positions: Any = None


def tree() -> dict[str, object]:
    """Build a tree with a cycle in it, and with two ways to the same memory."""
    Physics.time, Physics.positions = 0.0, wp.zeros((3, 2), dtype=wp.vec3f, device="cpu")
    term = Term()
    root = SimpleNamespace(terms=[term, Value(1)], view=ProxyArray(Physics.positions), rows=Physics.positions[:, 1])
    held = Term()
    term.parent = held
    held.parent = term
    return {"root": vars(root), "physics": Physics}


def step(roots: Any) -> None:
    """Change everything."""
    term = roots["root"]["terms"][0]
    term.level, term.scale, term.limits, term.share = 3, 0.1, (-2.0, 2.0), np.float64(0.25)
    term.recent.extend([1.0, 2.0, 3.0])
    term.pending |= {"mass", "friction"}
    term.sums["alive"] = term.sums["alive"] + 1.5
    term.sums["late"] = torch.arange(4)
    term.keys[1] = 2**64 - 1
    torch.rand(1, generator=term.chance)
    term.parent.level = 7
    Physics.time = 1.25
    Physics.positions.fill_(wp.vec3f(1.0, 2.0, 3.0))


def look(roots: Any) -> Any:
    """Return what can be seen of a tree."""
    term = roots["root"]["terms"][0]
    return (
        (term.level, term.scale, term.limits, term.recent, term.pending, term.share, term.parent.level, Physics.time),
        [term.sums[name].tolist() for name in sorted(term.sums)],
        (term.keys.tolist(), term.keys.dtype, type(term.share), term.recent.maxlen),
        torch.rand(2, generator=term.chance).tolist(),
        (Physics.positions.numpy().tolist(), roots["root"]["rows"].numpy().tolist()),
    )


def test_a_rebuilt_tree_gets_the_values_of_the_first_tree() -> None:
    first = tree()
    capture = Capture(first, closed=[])
    step(first)
    file = io.BytesIO()
    torch.save(capture.take(), file)
    seen = look(first)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    assert ("physics", "time") in saved
    assert not any(path.startswith("root.terms.1") for path, _ in saved)

    second = tree()
    address = Physics.positions.ptr
    again = Capture(second)
    assert again.put(saved) == []
    assert look(second) == seen
    assert Physics.positions.ptr == address, "recorded graphs know the address"


def test_a_snapshot_does_not_change_with_the_tree() -> None:
    roots = tree()
    capture = Capture(roots)
    step(roots)
    saved = capture.take()
    before = {place: str(value) for place, value in saved.items()}
    step(roots)
    assert {place: str(value) for place, value in saved.items()} == before


def test_shared_memory_is_saved_once() -> None:
    roots = tree()
    capture = Capture(roots)
    step(roots)
    saved = capture.take()
    assert saved["physics", "positions"] is saved["root", "view"]


def test_rows_that_are_separate_in_memory_are_each_saved() -> None:
    whole = [wp.full((50, 3), float(number), dtype=float, device="cpu") for number in range(8)]
    roots = {str(number): SimpleNamespace(rows=array[:, 1:]) for number, array in enumerate(whole)}
    saved = Capture(roots).take()
    assert [float(saved[name, "rows"].mean()) for name in roots] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]


def test_places_that_cannot_be_restored_are_named() -> None:
    roots = tree()
    capture = Capture(roots)
    gone, other_shape = ("root.elsewhere", "level"), ("physics", "positions")
    assert capture.put({gone: 3, other_shape: torch.zeros(5)}) == [gone, other_shape]


def test_closed_objects_and_attributes_are_skipped() -> None:
    roots: Any = tree()
    term = roots["root"]["terms"][0]
    capture = Capture(roots, closed=[term.parent], only={Term: frozenset({"level", "parent"})})
    step(roots)
    assert {place for place in capture.take() if place[0].startswith("root.terms")} == {("root.terms.0", "level")}
