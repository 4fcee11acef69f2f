"""What a difference between the declarations of two runs means for their comparison, field by field."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from ledger_lab.ledger.declarations import RunDeclared
from ledger_lab.ledger.encoding import canonical_json

_SYNCHRONIZED = "synchronized"
_MEMORY = ("memory_bytes", "accelerator_memory_bytes")
"""Facts of the hardware that differ between equal machines by what the system reserves."""
_FLAGS = ("limit_s", "save_replay")
"""Flags that no other field of a declaration tells."""


@dataclass(frozen=True)
class Rule:
    """What a difference in one field means."""

    field: str
    """Name of a field of :class:`~ledger_lab.ledger.RunDeclared`."""
    why: str
    read: Callable[[RunDeclared], Any] | None = None
    """Returns what is compared; ``None`` for the field as it is."""

    def value(self, declared: RunDeclared) -> Any:  # noqa: ANN401 - any JSON value
        """Return what is compared."""
        return getattr(declared, self.field) if self.read is None else self.read(declared)


def _synchronized(declared: RunDeclared) -> str:
    return _SYNCHRONIZED if declared.timing == _SYNCHRONIZED else f"not {_SYNCHRONIZED}"


def _machine(declared: RunDeclared) -> dict[str, Any]:
    facts = {name: value for name, value in declared.hardware.items() if name not in _MEMORY}
    return {"machine": declared.machine, **facts}


def _flags(declared: RunDeclared) -> dict[str, Any]:
    return {name: (declared.request or {}).get(name) for name in _FLAGS}


FORBIDDING = (
    Rule("task", "another task is learned"),
    Rule("panel_id", "success is judged on other episodes, in another simulation or by other code"),
    Rule("target_success", "a higher target takes longer to reach"),
    Rule("verdict_rule", "another rule proves the target at another time"),
    Rule("stop_at_target", "a run that trains on after its target costs more"),
    Rule("timing", "a synchronized clock slows the training down", _synchronized),
)
"""Fields whose differences mean that the runs measure different things: nothing is compared or pooled."""

NAMED = (
    Rule("timing", "clocks of the host and of the device divide the time in other phases"),
    Rule("rl_library", "a comparison may be about it"),
    Rule("agent", "a comparison may be about it"),
    Rule("symmetry", "a comparison may be about it", lambda of: bool(of.symmetry)),
    Rule("recipe", "a comparison may be about it"),
    Rule("overrides", "a comparison may be about them"),
    Rule("physics", "the panel id tells the engine of a run of LedgerLab; other trainers name any"),
    Rule("device", "devices differ in speed"),
    Rule("hardware", "machines differ in speed", _machine),
    Rule("price", "the cost follows from it"),
    Rule("world_size", "the size of the batch and the speed follow from it"),
    Rule("machines", "processes on several machines wait for the network"),
    Rule("num_envs", "the size of the batch and the speed follow from it"),
    Rule("horizon", "the size of the batch follows from it"),
    Rule("epochs", "a comparison may be about them"),
    Rule("minibatches", "a comparison may be about them"),
    Rule("max_iterations", "it may end a run short of its target"),
    Rule("request", "a limit of time may end a run short of its target", _flags),
    Rule("stop_on", "it may end a run short of its target"),
    Rule("held_out_slots", "they take a part of each step"),
    Rule("eval_every", "rare scores find the target later"),
    Rule("save_state_every", "saving takes time"),
    Rule("error_budget", "a stricter proof takes longer; with a checkpoint, a run has what was left"),
    Rule("began_from", "a trained network needs less", lambda of: (of.began_from or {}).get("sha256")),
    Rule("config_sha256", "a comparison may be about it"),
    Rule("versions", "packages that can change an episode are in the panel id; others differ in speed"),
    Rule("code_sha256", "code that scores is in the panel id; other code may learn or run differently"),
    Rule("scoring_code", "code that scores is in the panel id; the rest is that of the policy"),
    Rule("git", "it leads to the code", lambda of: of.git.get("commit")),
)
"""Fields whose differences are named, because they may be the reason of what is found."""

IGNORED = (
    Rule("run_id", "names the run"),
    Rule("cohort", "names the runs that are pooled"),
    Rule("panel_fields", "the id is their hash"),
    Rule("seed", "runs are repetitions with other seeds; a comparison tells how it pairs them"),
    Rule("panel", "the id tells what the panel is, wherever its file is"),
    Rule("experiment", "names a folder"),
    Rule("command", "what it asks for is in the other fields"),
)
"""Fields whose differences do not matter."""

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


def yardstick(declared: RunDeclared) -> str:
    """Return what a run is measured with: the fields that forbid a comparison, as JSON. It must be equal in a pool."""
    return canonical_json({rule.field: rule.value(declared) for rule in FORBIDDING}).decode()


def settings(declared: RunDeclared) -> dict[str, str]:
    """Return the fields whose differences are named, each as a hash, to tell whether two are equal."""
    return {rule.field: sha256(canonical_json(rule.value(declared))).hexdigest()[:16] for rule in NAMED}


def differing(found: Sequence[Mapping[str, str]], *, without: Sequence[str] = ()) -> list[str]:
    """Return the names of the fields in which pooled runs differ.

    Args:
        found: The :func:`settings` of each run.
        without: Fields that may differ.
    """
    names = found[0] if found else {}
    return [name for name in names if name not in without and len({each.get(name) for each in found}) > 1]


def refused_differences(a: Sequence[RunDeclared], b: Sequence[RunDeclared]) -> list[Difference]:
    """Return every field that forbids the comparison of two sides, with its values.

    If panels differ, their ids come first, then the fields of their identities that differ.

    Args:
        a: Declarations of side A, at least one.
        b: Declarations of side B, at least one.

    Returns:
        The differences; empty if the sides can be compared.
    """
    found = _differences(FORBIDDING, a, b)
    if any(difference.field == "panel_id" for difference in found):
        found += _differences([Rule("panel_fields", "")], a, b)
    return found


def named_differences(
    a: Sequence[RunDeclared], b: Sequence[RunDeclared], *, priced_alike: bool = False
) -> list[Difference]:
    """Return every other field that may explain a difference between two sides, with its values.

    Args:
        a: Declarations of side A, at least one.
        b: Declarations of side B, at least one.
        priced_alike: Whether one price replaces the declared prices. If so, differences between declared prices do not
            matter.
    """
    rules = [rule for rule in NAMED if not (priced_alike and rule.field == "price")]
    return _differences(rules, a, b)


def _differences(rules: Sequence[Rule], a: Sequence[RunDeclared], b: Sequence[RunDeclared]) -> list[Difference]:
    """Return the innermost fields whose values are not the same in all runs, in the order of the rules."""
    ours, theirs = ([_flat(rules, declared) for declared in side] for side in (a, b))
    found = []
    for path in dict.fromkeys(path for flat in (*ours, *theirs) for path in flat):
        left, right = ([*dict.fromkeys(flat.get(path, _ABSENT) for flat in side)] for side in (ours, theirs))
        if len({*left, *right}) > 1:
            shown = _shorten([*left, *right])
            found.append(Difference(field=path, a=tuple(shown[: len(left)]), b=tuple(shown[len(left) :])))
    return found


def _flat(rules: Sequence[Rule], declared: RunDeclared) -> dict[str, str]:
    """Return the innermost values of some fields as JSON, by their dotted paths."""
    flat: dict[str, str] = {}
    stack = [(rule.field, rule.value(declared)) for rule in reversed(rules)]
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
