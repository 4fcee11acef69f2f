"""Checkpoints of a run with their held-out scores."""

from __future__ import annotations

from dataclasses import dataclass

from ledger_lab.ledger import HORIZON, CheckpointSaved, Outcomes, PanelResult
from ledger_lab.panels import wilson_interval


@dataclass(frozen=True, kw_only=True)
class CheckpointSummary:
    """A checkpoint and its held-out score, if it has one."""

    path: str
    iteration: int
    env_steps: int
    wall_s: float
    """Wall-clock time of the run when the checkpoint was saved, over all attempts [s]."""
    heldout_successes: int | None
    heldout_episodes: int | None
    outcomes: list[bool] | None
    """Success per episode, in the order of the panel."""
    heldout_survived: int | None
    """Episodes that lasted to their horizon: what Isaac Lab's survival metric counts as success."""
    exactness: str | None
    confirmation_successes: int | None
    """Successes on the fresh seeds of the checkpoint's confirmation; ``None`` without a confirmation."""
    confirmation_episodes: int | None
    """Episodes of that confirmation."""
    confirmed: bool
    """Whether that confirmation proved that the checkpoint reaches the target."""


def summarize_checkpoint(
    saved: CheckpointSaved, at_s: float, result: PanelResult | None, confirmation: PanelResult | None
) -> CheckpointSummary:
    """Join a checkpoint with its scores.

    Args:
        saved: The checkpoint.
        at_s: When it was saved.
        result: Its first score on the run's panel.
        confirmation: Its confirmation, if there was one.
    """
    return CheckpointSummary(
        path=saved.path,
        iteration=saved.iteration,
        env_steps=saved.env_steps,
        wall_s=at_s,
        heldout_successes=result.outcomes.successes if result else None,
        heldout_episodes=result.outcomes.episodes if result else None,
        outcomes=result.outcomes.success if result else None,
        heldout_survived=result.outcomes.ended_by.count(HORIZON) if result else None,
        exactness=result.exactness if result else None,
        confirmation_successes=confirmation.outcomes.successes if confirmation else None,
        confirmation_episodes=confirmation.outcomes.episodes if confirmation else None,
        confirmed=confirmation is not None and confirmation.confirms,
    )


def share_of(outcomes: Outcomes) -> tuple[float, tuple[float, float]]:
    """Return the share of successes, and its 95 % Wilson interval.

    Args:
        outcomes: Outcomes of the episodes. Episodes with the same seed are not independent, so seeds count as trials.
    """
    share, seeds = outcomes.successes / outcomes.episodes, len(set(outcomes.seed))
    return share, wilson_interval(share * seeds, seeds)
