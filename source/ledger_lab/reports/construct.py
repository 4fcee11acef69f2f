"""Fields that the two sides of a comparison must share, and fields in which they may differ."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ledger_lab.ledger import RunDeclared

_Fields = dict[str, Callable[[RunDeclared], Any]]

_SYNCHRONIZED = "synchronized"

CONSTRUCT: _Fields = {
    "task": lambda declared: declared.task,
    "panel_id": lambda declared: declared.panel_id,
    "target_success": lambda declared: declared.target_success,
    "error_budget": lambda declared: declared.error_budget,
    "cost window: stop_at_target": lambda declared: declared.stop_at_target,
    "cost window: timing": lambda declared: _SYNCHRONIZED if declared.timing == _SYNCHRONIZED else "not synchronized",
}
"""Fields that must be equal on both sides. For example, a run that trains on after its target spends more than a run
that stops there, and a synchronized clock slows down the training. Clocks that do not wait for the device do not."""

PRICE = "price"

MAY_DIFFER: _Fields = {
    "library": lambda declared: declared.rl_library,
    "device": lambda declared: declared.device,
    "hardware": lambda declared: declared.machine,
    PRICE: lambda declared: declared.price,
    "processes": lambda declared: declared.world_size,
    "environments per process": lambda declared: declared.num_envs,
    "horizon": lambda declared: declared.horizon,
    "epochs": lambda declared: declared.epochs,
    "minibatches": lambda declared: declared.minibatches,
    "max_iterations": lambda declared: declared.max_iterations,
    "eval_every": lambda declared: declared.eval_every,
    "overrides": lambda declared: declared.overrides,
    "networks to begin with": lambda declared: (declared.began_from or {}).get("sha256"),
    "configuration": lambda declared: declared.config_sha256,
    "versions": lambda declared: declared.versions,
    "commit": lambda declared: declared.git.get("commit"),
}
"""Fields that may differ, because a comparison may be about them. The finding names those that differ."""

_LONGEST = 160
_ABSENT = "absent"


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A field in which the runs of a comparison do not all agree."""

    field: str
    """Dotted path."""
    a: tuple[str, ...]
    """Different values on side A, as JSON."""
    b: tuple[str, ...]
    """Values on side B."""

    def __str__(self) -> str:
        """Return it as one line."""
        return f"{self.field}: A {' and '.join(self.a)} | B {' and '.join(self.b)}"


def construct_differences(a: Sequence[RunDeclared], b: Sequence[RunDeclared]) -> list[Difference]:
    """Return every field that forbids the comparison, with its values on both sides.

    If panels differ, their ids come first, then the fields of their identities that differ.

    Args:
        a: Declarations of side A, at least one.
        b: Declarations of side B, at least one.

    Returns:
        The differences; empty if the sides can be compared.
    """
    found = _differences(CONSTRUCT, a, b)
    if any(difference.field == "panel_id" for difference in found):
        found += _differences({"panel": lambda declared: declared.panel_fields}, a, b)
    return found


def named_differences(
    a: Sequence[RunDeclared], b: Sequence[RunDeclared], *, priced_alike: bool = False
) -> list[Difference]:
    """Return every field of :data:`MAY_DIFFER` whose values differ between runs.

    Args:
        a: Declarations of side A, at least one.
        b: Declarations of side B, at least one.
        priced_alike: Whether one price replaces the declared prices. If so, differences between declared prices do not
            matter.
    """
    fields = {name: read for name, read in MAY_DIFFER.items() if not (priced_alike and name == PRICE)}
    return _differences(fields, a, b)


def _differences(fields: _Fields, a: Sequence[RunDeclared], b: Sequence[RunDeclared]) -> list[Difference]:
    """Return the innermost fields whose values are not the same in all runs, in the order of the fields."""
    ours, theirs = ([_flat(fields, declared) for declared in side] for side in (a, b))
    found = []
    for path in dict.fromkeys(path for flat in (*ours, *theirs) for path in flat):
        left, right = ([*dict.fromkeys(flat.get(path, _ABSENT) for flat in side)] for side in (ours, theirs))
        if len({*left, *right}) > 1:
            shown = _shorten([*left, *right])
            found.append(Difference(field=path, a=tuple(shown[: len(left)]), b=tuple(shown[len(left) :])))
    return found


def _flat(fields: _Fields, declared: RunDeclared) -> dict[str, str]:
    """Return the innermost values of some fields as JSON, by their dotted paths."""
    flat: dict[str, str] = {}
    stack = [(name, read(declared)) for name, read in reversed(fields.items())]
    while stack:
        path, value = stack.pop()
        if isinstance(value, dict) and value:
            stack += [(f"{path}.{key}", value[key]) for key in sorted(value, reverse=True)]
        else:
            flat[path] = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return flat


def _shorten(texts: Sequence[str]) -> list[str]:
    """Cut long texts to the part in which they begin to differ."""
    if max(map(len, texts)) <= _LONGEST:
        return list(texts)
    same = len(os.path.commonprefix(list(texts)))
    begin = max(0, same - _LONGEST // 4)
    end = begin + _LONGEST
    return [f"{'…' if begin else ''}{text[begin:end]}{'…' if len(text) > end else ''}" for text in texts]
