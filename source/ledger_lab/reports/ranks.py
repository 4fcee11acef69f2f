"""A run of several processes: how long they waited for each other, whether their learners were equal, and their noise.

The gradient noise scale is the batch at which the noise of a gradient is as large as the gradient itself. Processes
that average their gradients give it nearly for free: the norm of one process's gradient has the noise of its own
samples, and the norm of the average has that of all samples (McCandlish et al. 2018, *An Empirical Model of Large-Batch
Training*, appendix A.1). Below this batch, more samples make a step better; far above it, they are wasted. It predicts
the critical batch only roughly.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from ledger_lab.ledger import Attempt, AttemptStarted, GradientNorms, JournalContent, LearnerHashed, Run, StateRestored
from ledger_lab.ledger.meters.phases import TRAINING_PHASES, Phase
from ledger_lab.units import percent

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class LearnerHash:
    """Hash of one process's learner at a comparison of all processes."""

    attempt: int
    iteration: int
    """Iterations completed."""
    sha256: str
    """Hash of its parameters, normalizers and optimizer."""


@dataclass(frozen=True, kw_only=True)
class RankSummary:
    """Figures of one process of a run, over all attempts."""

    rank: int
    host: str
    """Its machine in the last attempt."""
    seed: int | None
    """Seed of its training; ``None`` if not recorded."""
    train_s: float
    """Seconds in its training loop."""
    synchronize_s: float
    """Seconds of ``train_s`` spent in collectives; smallest on the process that the others wait for."""
    synchronize_share: float | None
    """``synchronize_s`` ÷ ``train_s``; ``None`` before any training."""
    learner: list[LearnerHash]
    """Hashes of its learner, one per comparison with the other processes."""


def summarize_ranks(run: Run) -> list[RankSummary]:
    """Summarize each process of a run.

    Args:
        run: The run.

    Returns:
        One summary per process, by rank; none for a run of one process.
    """
    if run.declared.world_size == 1:
        return []
    journals: dict[int, list[tuple[int, JournalContent]]] = {}
    starts: dict[int, AttemptStarted] = {}
    for attempt in run.attempts:
        for journal in attempt.ranks:
            for start in journal.of(AttemptStarted):
                starts[start.rank] = start
                journals.setdefault(start.rank, []).append((attempt.number, journal))
    return [_summary(starts[rank], journals[rank]) for rank in sorted(starts)]


def _summary(start: AttemptStarted, journals: list[tuple[int, JournalContent]]) -> RankSummary:
    """Summarize a process by its journals, with the numbers of their attempts."""
    spent_ns: Counter[str] = Counter()
    for _, journal in journals:
        spent_ns.update(journal.windows.phase_ns)
    train_s = sum(spent_ns[phase] for phase in TRAINING_PHASES) / 1e9
    synchronize_s = spent_ns[Phase.SYNCHRONIZE] / 1e9
    return RankSummary(
        rank=start.rank,
        host=start.host,
        seed=start.seed,
        train_s=train_s,
        synchronize_s=synchronize_s,
        synchronize_share=synchronize_s / train_s if train_s else None,
        learner=[
            LearnerHash(attempt=attempt, iteration=row.iteration, sha256=row.sha256)
            for attempt, journal in journals
            for row in journal.of(LearnerHashed)
        ],
    )


def rank_words(ranks: list[RankSummary]) -> str:
    """Return how long the processes of a run waited for each other, and whether their learners were equal.

    Args:
        ranks: Its processes.

    Returns:
        The words; empty for a run of one process, or before any training.
    """
    trained = [(rank.synchronize_share, rank) for rank in ranks if rank.synchronize_share is not None]
    if not trained:
        return ""
    least, slowest = min(trained, key=lambda pair: pair[0])
    most, fastest = max(trained, key=lambda pair: pair[0])
    return (
        f"{len(ranks)}; synchronize takes {percent(least, 0)} of the training loop on rank {slowest.rank} "
        f"({slowest.host}), which the others wait for, to {percent(most, 0)} on rank {fastest.rank} ({fastest.host})"
        + _equality(ranks)
    )


def _equality(ranks: list[RankSummary]) -> str:
    """Return the result of comparing the processes' learners, at iterations that all processes recorded."""
    learners = [{(each.attempt, each.iteration): each.sha256 for each in rank.learner} for rank in ranks]
    moments = sorted(set.intersection(*map(set, learners)))
    if not moments:
        return ""
    for moment in moments:
        if len({learner[moment] for learner in learners}) > 1:
            return f"; their learners differ after iteration {moment[1]}"
    return (
        f"; their learners were equal to the last bit whenever compared ({len(moments)} ×), after iteration "
        f"{moments[-1][1]} with SHA-256 {learners[0][moments[-1]][:12]}…"
    )


FEWEST_BLOCKS = 8
"""Fewest blocks of consecutive steps for an interval."""

_MOST_BLOCKS = 1000
"""Most blocks that are resampled. With more, successive blocks are joined, so that a long training takes no more
memory."""
_DRAWS = 2000
_PARTS = 3
"""Parts of a training whose noise is estimated separately."""


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
    parts = _PARTS if len(ordered) >= _PARTS else min(1, len(ordered))
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

    declared = run.declared
    minibatch = max(1, declared.num_envs * declared.horizon // declared.minibatches)
    steps = np.array([rows[0].steps for rows in stretches], dtype=float)
    own = np.array([[row.own_square for row in rows] for rows in stretches]) * steps[:, None]
    average = np.array([rows[0].average_square for rows in stretches]) * steps
    value, interval = gradient_noise_scale(own, average, minibatch, block=1)
    return NoisePart(
        first_iteration=stretches[0][0].iteration,
        last_iteration=stretches[-1][0].iteration,
        steps=sum(rows[0].steps for rows in stretches),
        scale=_finite(value),
        interval=None if interval is None or _finite(interval[0]) is None else (interval[0], _finite(interval[1])),
        step_samples=minibatch * declared.world_size,
    )


def _finite(value: float) -> float | None:
    """Return a value; ``None`` if it is infinite."""
    return value if math.isfinite(value) else None


def gradient_noise_scale(
    own: NDArray[np.float64], average: NDArray[np.float64], batch: int, *, block: int, seed: int = 0
) -> tuple[float, tuple[float, float] | None]:
    """Estimate the noise scale of a stretch of a training.

    Args:
        own: Squared norm of each process's gradient; shape (steps, processes), at least two processes.
        average: Squared norm of the average gradient of all processes; shape (steps,).
        batch: Samples that one process computes its gradient from.
        block: Consecutive steps that belong together, as the steps of an iteration do: their samples are the same.
        seed: Seed of the interval's random numbers.

    Returns:
        The noise scale [samples], and its 95 % interval. Both are infinite if no gradient is left under the noise.
        There is no interval with fewer than :data:`FEWEST_BLOCKS` blocks.

    Raises:
        ValueError: If the shapes do not match, or there is only one process.
    """
    import numpy as np

    from ledger_lab.ledger.costs.few_runs import percentile_levels

    steps, processes = own.shape
    if processes < 2 or average.shape != (steps,) or not 1 <= block <= steps:
        raise ValueError(f"{own.shape} and {average.shape} norms in blocks of {block}: no two processes to compare")
    noise = (own.mean(axis=1) - average) * batch * processes / (processes - 1)
    signal = (processes * average - own.mean(axis=1)) / (processes - 1)
    value = float(_ratios(noise.mean()[None], signal.mean()[None])[0])
    block = max(block, -(-steps // _MOST_BLOCKS))
    blocks = steps // block
    if blocks < FEWEST_BLOCKS:
        return value, None
    sums = np.stack([part[: blocks * block].reshape(blocks, block).sum(axis=1) for part in (noise, signal)])
    chosen = np.random.default_rng(seed).integers(blocks, size=(_DRAWS, blocks))
    low, high = np.quantile(_ratios(*sums[:, chosen].sum(axis=2)), percentile_levels(blocks), method="inverted_cdf")
    return value, (float(low), float(high))


def _ratios(noise: NDArray[np.float64], signal: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return noise ÷ signal; infinite where the signal is not positive, 0 where the noise is not."""
    import numpy as np

    seen = signal > 0
    return np.where(seen, np.maximum(noise, 0.0) / np.where(seen, signal, 1.0), np.inf)
