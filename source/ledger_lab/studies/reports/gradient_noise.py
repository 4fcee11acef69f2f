"""The noise of a run's gradients, from the norms that its processes recorded."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from ledger_lab.ledger import Attempt, GradientNorms, Run, StateRestored
from ledger_lab.units import quantity

_PARTS = ("at the beginning", "in the middle", "at the end")


@dataclass(frozen=True, kw_only=True)
class NoisePart:
    """Noise of the gradient in a part of a training."""

    first_iteration: int
    """Iterations completed at the end of its first recorded stretch."""
    last_iteration: int
    """Iterations completed at its end."""
    steps: int
    """Gradient steps that were measured."""
    scale: float | None
    """Gradient noise scale [samples]; ``None`` if the noise hides the gradient."""
    interval: tuple[float, float | None] | None
    """95 % interval [samples]; its upper end is ``None`` if it is open. ``None`` with fewer than 8 stretches."""
    step_samples: int
    """Samples that all processes together average a gradient over."""


def summarize_noise(run: Run) -> list[NoisePart]:
    """Estimate the noise of the gradients of a run.

    Args:
        run: The run.

    Returns:
        The thirds of its recorded stretches, in order; the whole if there are fewer than three stretches; nothing for a
        run of one process, or whose gradients were not measured.
    """
    processes = run.declared.world_size
    if processes == 1:
        return []
    stretches: dict[int, list[GradientNorms]] = {}
    for attempt in run.attempts:
        for state in attempt.of(StateRestored):  # what was trained after it is lost
            stretches = {iteration: rows for iteration, rows in stretches.items() if iteration <= state.iteration}
        stretches.update(_stretches(attempt, processes))
    ordered = [stretches[iteration] for iteration in sorted(stretches)]
    parts = len(_PARTS) if len(ordered) >= len(_PARTS) else min(1, len(ordered))
    bounds = [round(part * len(ordered) / parts) for part in range(parts + 1)] if parts else []
    return [_part(run, ordered[begin:end]) for begin, end in pairwise(bounds)]


def _stretches(attempt: Attempt, processes: int) -> Iterator[tuple[int, list[GradientNorms]]]:
    """Yield the rows of all processes, by rank, of each stretch in which all processes measured equally many steps.

    Their averages may differ in the last digits, if their machines add up in another order.
    """
    by_rank = [{row.iteration: row for row in journal.of(GradientNorms)} for journal in attempt.ranks]
    if len(by_rank) != processes:
        return
    for iteration in by_rank[0].keys() & set.intersection(*(set(rows) for rows in by_rank)):
        rows = [of_rank[iteration] for of_rank in by_rank]
        if len({row.steps for row in rows}) == 1:
            yield iteration, rows


def _part(run: Run, stretches: list[list[GradientNorms]]) -> NoisePart:
    """Estimate the noise over some stretches; each counts by its number of steps."""
    import numpy as np  # takes longer to load than the report of runs with one process

    from ledger_lab.studies.scaling import gradient_noise_scale

    declared = run.declared
    minibatch = max(1, declared.num_envs * declared.horizon // declared.minibatches)
    steps = np.array([rows[0].steps for rows in stretches], dtype=float)
    own = np.array([[row.own_square for row in rows] for rows in stretches]) * steps[:, None]
    average = np.array([rows[0].average_square for rows in stretches]) * steps
    found = gradient_noise_scale(own, average, minibatch, block=1)
    interval = found.interval
    return NoisePart(
        first_iteration=stretches[0][0].iteration,
        last_iteration=stretches[-1][0].iteration,
        steps=sum(rows[0].steps for rows in stretches),
        scale=_finite(found.value),
        interval=None if interval is None or _finite(interval[0]) is None else (interval[0], _finite(interval[1])),
        step_samples=minibatch * declared.world_size,
    )


def noise_line(run_id: str, parts: list[NoisePart]) -> list[str]:
    """Return in words how noisy the gradients of a run were.

    Args:
        run_id: The run.
        parts: The result of :func:`summarize_noise`.
    """
    if not parts:
        return []
    told = [_words(part) for part in parts]
    if len(parts) == len(_PARTS):
        told = [f"{words} {when}" for words, when in zip(told, _PARTS, strict=True)]
    samples = quantity(parts[-1].step_samples)
    return [f"{run_id} has a gradient noise scale of {', '.join(told)}; a gradient step averages {samples} samples"]


def _words(part: NoisePart) -> str:
    """Return a noise scale with its interval."""
    value = "an unlimited number of samples" if part.scale is None else f"{quantity(part.scale)} samples"
    if part.interval is None:
        return value
    low, high = part.interval
    return f"{value} (95 %: {quantity(low)} to {'unlimited' if high is None else quantity(high)})"


def _finite(value: float) -> float | None:
    """Return a value; ``None`` if it is infinite."""
    return value if math.isfinite(value) else None
