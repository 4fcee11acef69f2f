"""Changes of an update of SAC and TD3, each timed in turns with the update as it is."""

from __future__ import annotations

import functools
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.off_policy_learner import Case, Learner, Turns, learner_threads
from ledger_lab.errors import first_line

if TYPE_CHECKING:
    import torch

_REFERENCE = "as it is"


def compare(case: Case, variant: str, turns: Turns) -> dict[str, Any]:
    """Time updates with a change, in turns with updates as they are; compare the numbers after the first turn.

    Args:
        case: The learner.
        variant: Name of the change.
        turns: How much is measured.

    Returns:
        The figures; if the change fails, the reason as ``not_measured``.
    """
    import torch

    with learner_threads(case, turns.device), tempfile.TemporaryDirectory() as folder:
        learners: dict[str, Learner] = {}
        for name in (_REFERENCE, variant):
            path = Path(folder) / str(len(learners))
            path.mkdir()
            learners[name] = Learner.of(case, path, turns.device)
        began = time.perf_counter()
        try:
            learners[variant] = VARIANTS[variant](learners[variant])
            torch.manual_seed(2)
            learners[variant].run(turns.updates)
        except Exception as error:  # compilers fail in many ways, and that is a finding
            return {"not_measured": f"{type(error).__name__}: {first_line(error)}"}
        first_s = time.perf_counter() - began
        torch.manual_seed(2)
        learners[_REFERENCE].run(turns.updates)
        difference = _largest_difference(*(each.agent for each in learners.values()))
        spent_s: dict[str, list[float]] = {name: [] for name in learners}
        for number in range(turns.rounds):
            for name in learners if number % 2 else reversed(learners):
                spent_s[name].append(learners[name].run(turns.updates))
    steps = turns.steps(case)
    ratios = sorted(changed / plain for plain, changed in zip(spent_s[_REFERENCE], spent_s[variant], strict=True))
    return {
        "first_turn_s": first_s,
        "as_it_is_ms": 1e3 * statistics.median(spent_s[_REFERENCE]) / steps,
        "changed_ms": 1e3 * statistics.median(spent_s[variant]) / steps,
        "ratio": [ratios[0], statistics.median(ratios), ratios[-1]],
        "largest_difference": difference,
    }


def _largest_difference(one: Any, other: Any) -> float:  # noqa: ANN401 - the library's own type
    """Return the largest difference between two agents' parameters, relative to the largest parameter of a network."""
    found = []
    for mine, theirs in zip(one.models.values(), other.models.values(), strict=True):
        pairs = list(zip(mine.parameters(), theirs.parameters(), strict=True))
        largest = max(float(left.detach().abs().max()) for left, _ in pairs)
        found += [float((left - right).detach().abs().max()) / largest for left, right in pairs]
    return max(found)


def _with_foreach(learner: Learner) -> Learner:
    """Let all parameters of a target network follow in one call."""
    for role, model in learner.agent.models.items():
        if role.startswith("target_"):
            model.update_parameters = functools.partial(_follow, list(model.parameters()))
    return learner


def _follow(own: list[torch.Tensor], network: torch.nn.Module, *, polyak: float) -> None:
    """Move parameters towards those of a network."""
    import torch

    with torch.no_grad():
        torch._foreach_lerp_(own, list(network.parameters()), polyak)


def _with_compiled_networks(learner: Learner, **options: str) -> Learner:
    """Compile the forward and backward pass of each network."""
    import torch

    for model in learner.agent.models.values():
        model.compute = torch.compile(model.compute, **options)
    return learner


def _with_compiled_update(learner: Learner) -> Learner:
    """Compile the library's update; draws, and figures for TensorBoard, divide what is compiled."""
    import torch

    agent = learner.agent
    for owner, name in ((agent.memory, "sample"), (agent, "track_data")):
        setattr(owner, name, torch.compiler.disable(getattr(owner, name)))
    update = torch.compile(type(agent).update.__get__(agent))
    return replace(learner, update=functools.partial(update, timestep=0, timesteps=1))


def _with_graphs(learner: Learner) -> Learner:
    """Replay the networks' passes as CUDA graphs, which torch's compiler captures."""
    import torch

    _with_compiled_networks(learner, mode="reduce-overhead")
    sample = learner.agent.memory.sample

    def begin(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passes through
        torch.compiler.cudagraph_mark_step_begin()  # results of the last gradient step are no longer needed
        return sample(*args, **kwargs)

    learner.agent.memory.sample = begin
    return learner


VARIANTS: Mapping[str, Callable[[Learner], Learner]] = {
    "torch._foreach_lerp_": _with_foreach,
    "torch.compile of the networks": _with_compiled_networks,
    "torch.compile of the update": _with_compiled_update,
    "CUDA graphs of the networks": _with_graphs,
}
"""Changes of an update."""


def skipped(device: str, *, quick: bool) -> dict[str, str]:
    """Return the variants that are not measured, with the reasons.

    Args:
        device: Where it is measured.
        quick: Whether nothing is compiled.
    """
    compiled = [name for name in VARIANTS if name != "torch._foreach_lerp_"]
    reasons = dict.fromkeys(compiled, "--quick compiles nothing") if quick else {}
    if device == "cpu":
        reasons["CUDA graphs of the networks"] = "the device is a CPU"
    return reasons
