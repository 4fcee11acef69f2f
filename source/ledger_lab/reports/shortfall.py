"""What a run that ended without a proof of its target had, what it needed, and what to do next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ledger_lab.ledger import PanelResult, Status
from ledger_lab.reports.checkpoints import Confirmation
from ledger_lab.units import percent, target_share

if TYPE_CHECKING:
    from ledger_lab.reports.summary import RunSummary


@dataclass(frozen=True, kw_only=True)
class BestTry:
    """The best confirmation of a run without a proof; if it confirmed no checkpoint, the best screening."""

    checkpoint: str
    """Path below the run's directory."""
    purpose: Literal["confirmation", "screening"]
    successes: int
    episodes: int
    """Episodes of all panels of the confirmation, or of the screening."""
    needed: int
    """Successes of these episodes that would have passed."""


def best_try(confirmations: Iterable[Confirmation], screenings: Iterable[PanelResult]) -> BestTry | None:
    """Return the confirmation with the largest share of successes; without one, the screening.

    Args:
        confirmations: Confirmations of the run.
        screenings: Screenings of the run.

    Returns:
        The first of the best; ``None`` if no policy was screened.
    """
    tries = [*_tries("confirmation", (each.panels for each in confirmations))]
    tries = tries or [*_tries("screening", ((row,) for row in screenings))]
    return max(tries, key=lambda each: each.successes / each.episodes, default=None)


def _tries(
    purpose: Literal["confirmation", "screening"], scores: Iterable[tuple[PanelResult, ...]]
) -> Iterator[BestTry]:
    """Yield scores of one or several panels as tries, unless it is unknown what they needed."""
    for panels in scores:
        *before, last = panels
        if last.needed is None:
            continue
        earlier = sum(row.outcomes.successes for row in before)
        yield BestTry(
            checkpoint=last.checkpoint,
            purpose=purpose,
            successes=earlier + last.outcomes.successes,
            episodes=sum(row.outcomes.episodes for row in panels),
            needed=earlier + last.needed,  # what the last panel needed depends on the successes before it
        )


def shortfall(run: RunSummary) -> str | None:
    """Return why a completed run is short of its target, and what to do next; ``None`` for other runs.

    Args:
        run: The run.
    """
    if run.status != Status.COMPLETED or run.target_reached:
        return None
    target, best = target_share(run.target_success), run.best_try
    if best is None:
        return f"no policy was scored during the training, so {target} is not proven → score policies while training"
    share = best.successes / best.episodes
    had, needed = f"{best.checkpoint} succeeded in {best.successes} of {best.episodes}", f"{best.needed} were needed"
    if best.purpose == "confirmation":
        had = f"in the best confirmation, {had} fresh episodes ({percent(share)}), and {needed} to prove {target}"
    elif best.successes >= best.needed:
        return f"{had} screened episodes ({percent(share)}), which proves nothing → confirm it on fresh seeds"
    else:
        had = f"no checkpoint passed a screening; at best, {had} ({percent(share)}), and {needed}"
    if share < run.target_success:
        return f"{had} → train longer (--max_iterations), or continue from this checkpoint (--checkpoint)"
    return (
        f"{had} → continue from this checkpoint (--checkpoint), or score more episodes: a larger panel can prove a "
        "rate closer to the target"
    )
