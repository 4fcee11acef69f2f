"""Checkpoints of a run with their held-out scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ledger_lab.ledger import HORIZON, CheckpointSaved, Outcomes, PanelResult
from ledger_lab.panels import ProvenShare, wilson_interval
from ledger_lab.reports.columns import Shown, TableCell, figure
from ledger_lab.units import MISSING, duration, gigabytes, in_gigabytes, in_seconds, quantity

if TYPE_CHECKING:
    from ledger_lab.reports.summary import RunSummary


@dataclass(frozen=True)
class Proof:
    """A checkpoint's proof: its first panel, and the panels that extended it."""

    panels: tuple[PanelResult, ...]

    @property
    def proves(self) -> bool:
        """Whether it proves that the checkpoint reaches the target."""
        return any(row.proves for row in self.panels)

    @cached_property
    def outcomes(self) -> Outcomes:
        """Outcomes of all its episodes, each of which has a seed of its own."""
        if len(self.panels) == 1:
            return self.panels[0].outcomes
        columns = [vars(row.outcomes) for row in self.panels]
        return Outcomes(**{name: [each for column in columns for each in column[name]] for name in columns[0]})

    def share(self, target_success: float) -> ProvenShare:
        """Return its share of successes, whose interval allows for the pass.

        Args:
            target_success: The target of the run.
        """
        first = self.panels[0]
        return ProvenShare(
            successes=self.outcomes.successes,
            episodes=self.outcomes.episodes,
            target=target_success,
            first_needed=first.needed or 0,
            first_episodes=first.outcomes.episodes,
        )


@dataclass(frozen=True)
class ScoredCheckpoint:
    """A checkpoint with its scores, from which its figures are computed."""

    saved: CheckpointSaved
    at_s: float
    """When it was saved [s]."""
    score: Outcomes | None
    """Its first score on the run's panel."""
    exactness: str | None
    proof: Proof | None


def _figure[Value](read: Callable[[ScoredCheckpoint], Value], shown: Shown | None = None) -> Value:
    """Declare a figure of a checkpoint."""
    return figure(read, shown)


def _endings_in_words(endings: dict[str, int] | None) -> str:
    """Return how training episodes ended, the most frequent termination first."""
    if endings is None:
        return MISSING
    order = sorted(endings.items(), key=lambda each: -each[1])
    return ", ".join(f"{term} {quantity(episodes)}" for term, episodes in order) or "none ended"


def _share(successes: int | None, episodes: int | None) -> str:
    """Return successes and episodes in a few words, if there is a score."""
    return MISSING if episodes is None else f"{successes}/{episodes}"


def peak_memory_cell(run: RunSummary | CheckpointSummary) -> TableCell:
    """Return the peak memory of the accelerator; without an accelerator, the peak memory of the host."""
    on_gpu = run.peak_gpu_memory_gb is not None
    peak = run.peak_gpu_memory_gb if on_gpu else run.peak_host_memory_gb
    return TableCell(MISSING) if peak is None else TableCell(gigabytes(peak), "GPU" if on_gpu else "host")


@dataclass(frozen=True, kw_only=True)
class CheckpointSummary:
    """A checkpoint and its held-out score, if it has one."""

    path: str = _figure(
        lambda of: of.saved.path, Shown("checkpoint", "", lambda each: each.path, priority=0, align="left")
    )
    iteration: int = _figure(
        lambda of: of.saved.iteration, Shown("iteration", "", lambda each: str(each.iteration), priority=1)
    )
    env_steps: int = _figure(
        lambda of: of.saved.env_steps, Shown("env steps", "", lambda each: quantity(each.env_steps), priority=2)
    )
    wall_s: float = _figure(
        lambda of: of.at_s, Shown("saved at", "all attempts", lambda each: duration(each.wall_s), priority=3)
    )
    """Wall-clock time of the run when the checkpoint was saved, over all attempts [s]."""
    heldout_successes: int | None = _figure(
        lambda of: of.score.successes if of.score else None,
        Shown(
            "success",
            "of held-out episodes",
            lambda each: _share(each.heldout_successes, each.heldout_episodes),
            priority=5,
        ),
    )
    heldout_episodes: int | None = _figure(lambda of: of.score.episodes if of.score else None)
    outcomes: list[bool] | None = _figure(lambda of: of.score.success if of.score else None)
    """Success per episode, in the order of the panel."""
    heldout_survived: int | None = _figure(
        lambda of: of.score.ended_by.count(HORIZON) if of.score else None,
        Shown(
            "survived",
            "of held-out episodes",
            lambda each: _share(each.heldout_survived, each.heldout_episodes),
            priority=4,
        ),
    )
    """Episodes that lasted to their horizon: what Isaac Lab's survival metric counts as success."""
    exactness: str | None = _figure(lambda of: of.exactness)
    proof_successes: int | None = _figure(
        lambda of: of.proof.outcomes.successes if of.proof else None,
        Shown(
            "proof",
            "of fresh episodes",
            lambda each: _share(each.proof_successes, each.proof_episodes),
            priority=6,
        ),
    )
    """Successes on all fresh seeds of the checkpoint's proof; ``None`` without a proof."""
    proof_episodes: int | None = _figure(lambda of: of.proof.outcomes.episodes if of.proof else None)
    """Episodes of that proof."""
    proven: bool = _figure(
        lambda of: of.proof is not None and of.proof.proves,
        Shown("", "", lambda each: "target reached" if each.proven else "", priority=7, align="left"),
    )
    """Whether that proof proved that the checkpoint reaches the target."""
    train_s: float | None = _figure(
        lambda of: in_seconds(of.saved.train_ns),
        Shown("training", "training phases up to it", lambda each: duration(each.train_s), priority=8),
    )
    """Seconds of the run in the training phases up to the checkpoint's iteration, without lost work; ``None`` if
    unknown."""
    evaluate_s: float | None = _figure(
        lambda of: in_seconds(of.saved.evaluate_ns),
        Shown("evaluation", "phase evaluate up to it", lambda each: duration(each.evaluate_s), priority=9),
    )
    """Seconds of the run in the phase ``evaluate`` up to the checkpoint's iteration, without lost work; ``None`` if
    unknown."""
    peak_gpu_memory_gb: float | None = _figure(
        lambda of: in_gigabytes(of.saved.peak_gpu_memory_bytes),
        Shown("peak memory", "of the attempt so far", peak_memory_cell, priority=10),
    )
    """Peak memory of the first process on the accelerator so far in the attempt [GB]. The report shows the host's peak
    memory where there is none."""
    peak_host_memory_gb: float | None = _figure(lambda of: in_gigabytes(of.saved.peak_host_memory_bytes))
    """Peak memory of the first process on the host so far in the attempt [GB]."""
    endings: dict[str, int] | None = _figure(
        lambda of: of.saved.endings,
        Shown(
            "training episodes ended by",
            "since the last checkpoint",
            lambda each: _endings_in_words(each.endings),
            priority=11,
            align="left",
        ),
    )
    """Training episodes of all processes that ended since the last checkpoint of the attempt, by termination; ``None``
    if they were not counted."""


def share_of(outcomes: Outcomes) -> tuple[float, tuple[float, float]]:
    """Return the share of successes, and its 95 % Wilson interval.

    Args:
        outcomes: Outcomes of the episodes. Episodes with the same seed are not independent, so seeds count as trials.
    """
    share, seeds = outcomes.successes / outcomes.episodes, len(set(outcomes.seed))
    return share, wilson_interval(share * seeds, seeds)
