"""Configurations are equal as JSON values exactly if they do the same, in every process."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import types
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field
from typing import Any

import pytest
import torch
import warp as wp

from ledger_lab.training.runners.description import config_sha256, plain_config


def limit_of(env: float, limit: float) -> bool:
    """A term that can be found by its name."""
    return env < limit


def made(limit: float) -> Callable[[float], bool]:
    """Return a term that holds a value."""

    def within(env: float) -> bool:
        return limit_of(env, limit)

    return within


def recursive() -> Callable[[int], int]:
    """Return a term that holds itself."""

    def count(n: int) -> int:
        return 0 if n == 0 else 1 + count(n - 1)

    return count


class Term:
    """A term that is an object."""

    def __init__(self, limit: float) -> None:
        self.limit = limit

    def __call__(self, env: float) -> bool:
        return env < self.limit

    def check(self, env: float) -> bool:
        """A term that is a method."""
        return env < self.limit


class Slotted:
    """An object without a dictionary."""

    __slots__ = ("limit",)

    def __init__(self, limit: float) -> None:
        self.limit = limit


@dataclass
class Settings:
    """A configuration."""

    func: Any = limit_of
    params: dict[str, Any] = field(default_factory=dict)


LARGE = torch.zeros(4000)
OTHER = LARGE.clone()
OTHER[2000] = 1.0

PAIRS: dict[str, tuple[Any, Any, Any]] = {
    "closure": (made(0.2), made(0.2), made(1.2)),
    "lambda": (lambda env: limit_of(env, 0.2), lambda env: limit_of(env, 0.2), lambda env: limit_of(env, 1.2)),
    "lambda's default": (lambda env, x=1: x, lambda env, x=1: x, lambda env, x=2: x),
    "nested code": (
        lambda env: [x < 1 for x in env],
        lambda env: [x < 1 for x in env],
        lambda env: [x > 1 for x in env],
    ),
    "partial": (*(functools.partial(limit_of, limit=x) for x in (0.2, 0.2, 1.2)),),
    "object": (Term(0.2), Term(0.2), Term(1.2)),
    "method": (Term(0.2).check, Term(0.2).check, Term(1.2).check),
    "slots": (Slotted(0.2), Slotted(0.2), Slotted(1.2)),
    "large tensor": (LARGE, LARGE.clone(), OTHER),
    "type of a tensor": (torch.zeros(2), torch.zeros(2), torch.zeros(2, dtype=torch.float64)),
    "shape of a tensor": (torch.zeros(2, 3), torch.zeros(2, 3), torch.zeros(3, 2)),
    "half precision": (torch.ones(2, dtype=torch.bfloat16), torch.ones(2, dtype=torch.bfloat16), torch.ones(2)),
    "scalar tensor": (torch.tensor(0.2), torch.tensor(0.2), torch.tensor(1.2)),
    "large array": (LARGE.numpy(), LARGE.numpy().copy(), OTHER.numpy()),
    "warp array": (*(wp.array(x, dtype=float, device="cpu") for x in ([0.2], [0.2], [1.2])),),
    "set": ({"a", "b", "c"}, {"c", "b", "a"}, {"a", "b"}),
    "frozen set": (frozenset({(1, 2), (3, 4)}), frozenset({(3, 4), (1, 2)}), frozenset({(1, 2)})),
    "functions in a list": ([made(0.2), limit_of], [made(0.2), limit_of], [made(1.2), limit_of]),
    "type": (Term, Term, Slotted),
    "slice": (slice(None), slice(None), slice(1)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_what_does_the_same_is_equal_and_what_does_not_differs(name: str) -> None:
    one, same, other = (config_sha256(Settings(params={"value": value}), without=()) for value in PAIRS[name])
    assert one == same
    assert one != other


def test_what_a_name_tells_wholly_stays_a_name() -> None:
    assert plain_config(Settings()) == {"func": f"{__name__}:limit_of", "params": {}}
    assert plain_config([Term, torch.nn.functional.elu, MISSING, types]) == [
        *(f"{__name__}:Term", "torch.nn.functional:elu", {}, "types")
    ]


def test_a_function_may_hold_itself() -> None:
    assert plain_config(recursive()) == plain_config(recursive())


SCRIPT = """
import torch
from ledger_lab.training.runners.description import config_sha256
class Local:
    pass
names = {"params": {"names": {"FL", "FR", "RL", "RR"}, "held": frozenset({("a", 1), ("b", 2)}), "other": Local(),
         "stream": torch.Generator(), "func": lambda env: env in {"x", "y", "z"}}}
print(config_sha256(names, without=()))
"""


def test_every_process_gives_the_same_hash() -> None:
    found = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
