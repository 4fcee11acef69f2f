"""All values that change in a tree of objects are found and restored."""

from __future__ import annotations

import io
from collections import deque
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import warp as wp
from isaaclab.utils.warp import ProxyArray

from ledger_lab.panels.memory import Memory, put_saved, saved


@dataclass
class Term:
    """A term of a user, with every kind of value."""

    level: int = 0
    limits: tuple[float, float] = (-1.0, 1.0)
    recent: deque[float] = field(default_factory=lambda: deque([0.0], maxlen=3))
    pending: set[str] = field(default_factory=set)
    stages: list[str] = field(default_factory=list)
    sums: dict[str, torch.Tensor] = field(default_factory=lambda: {"alive": torch.zeros(3)})
    rows: torch.Tensor = field(default_factory=lambda: torch.zeros(1).expand(3))
    keys: np.ndarray = field(default_factory=lambda: np.zeros(3, dtype=np.uint64))
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


def tree() -> dict[str, Any]:
    """Build a tree with a cycle in it, and with two ways to the same memory."""
    Physics.time, Physics.positions = 0.0, wp.zeros((3, 2), dtype=wp.vec3f, device="cpu")
    term = Term()
    root = SimpleNamespace(terms=[term, Value(1)], view=ProxyArray(Physics.positions), rows=Physics.positions[:, 1])
    term.parent = Term(parent=term)
    return {"root": vars(root), "physics": Physics}


def look(roots: Any, module: ModuleType) -> Any:
    """Return what can be seen of a tree."""
    term = roots["root"]["terms"][0]
    return str(
        (
            (vars(term) | {"parent": term.parent.level, "chance": term.chance.get_state().tolist()}, Physics.time),
            (Physics.positions.numpy().tolist(), roots["root"]["rows"].numpy().tolist(), vars(module)["calls"]),
        )
    )


def test_everything_that_changes_is_restored_and_arrays_keep_their_addresses() -> None:
    roots, module = tree(), ModuleType("terms")
    vars(module)["calls"] = 0
    term, address = roots["root"]["terms"][0], Physics.positions.ptr
    hook = lambda: None  # noqa: E731
    before, memory = look(roots, module), Memory(roots, modules=[module])
    for _ in range(2):
        term.level, term.limits, term.late = 3, (-2.0, 2.0), 1.0
        term.recent.extend([1.0, 2.0, 3.0])
        term.pending |= {"mass", "friction"}
        term.stages.append("second")
        term.sums["alive"].add_(1.5)
        term.sums["late"] = torch.arange(4)
        term.sums, term.hook = {}, hook
        term.keys[1] = 2**64 - 1
        torch.rand(1, generator=term.chance)
        term.parent.level = 7
        Physics.time = 1.25
        Physics.positions.fill_(wp.vec3f(1.0, 2.0, 3.0))
        vars(module)["calls"] += 1
        assert look(roots, module) != before
        memory.restore()
        assert vars(term).pop("hook") is hook, "functions may be hooks"
        assert look(roots, module) == before
        assert Physics.positions.ptr == address, "recorded graphs know the address"


def test_tensors_that_share_memory_are_copied_once_and_all_of_it_is_restored() -> None:
    whole = torch.zeros(6, 2)
    memory = Memory({"root": {"rows": whole[2:4], "columns": whole[:, 1], "own": torch.zeros(6, 2)}})
    assert len(memory._arrays) == 2
    whole += 1.0
    memory.restore()
    assert not whole.any()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (1, 2),
        (None, 0.5),
        ((1, 2), (3, 4)),
        ([1], [2, 3]),
        (deque([1.0], maxlen=2), deque([2.0, 3.0], maxlen=2)),
        ({"mass"}, {"mass", "friction"}),
        (np.float64(0.5), np.float64(0.25)),
        (np.zeros(3, dtype=np.uint64), np.full(3, 2**64 - 1, dtype=np.uint64)),
        (torch.zeros(3), torch.ones(3)),
        (torch.zeros(3), torch.ones(2)),
        (None, torch.ones(2)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_of_any_kind_is_read_from_a_file_without_code(before: Any, after: Any) -> None:
    file = io.BytesIO()
    torch.save(saved(after), file)
    file.seek(0)
    holder = {"value": before}
    assert put_saved(holder, dict(holder), "value", torch.load(file, weights_only=True))
    found = holder["value"]
    same = found == after
    assert type(found) is type(after) and (same if isinstance(same, bool) else same.all())
    if isinstance(before, torch.Tensor | np.ndarray | list | deque | set) and len(before) == len(after):
        assert found is before, "others refer to it"
