"""``train.py --limit_s``: the wall-clock time that a run may take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from ledger_lab.training.plan import TrainPlan


class LimitReachedError(RuntimeError):
    """A run used up its ``--limit_s``; the reason that its end row holds."""


@dataclass(frozen=True, kw_only=True)
class TimeLimit:
    """Limit of the wall-clock time of a run over all its attempts, with scoring, as it is billed."""

    limit_s: float | None
    """The limit [s]; ``None`` for no limit."""
    spent_ns: int
    """Time of earlier attempts, including work that was lost [ns]."""
    wall_ns: Callable[[], int]
    """Returns the age of this attempt [ns]."""

    @classmethod
    def of(cls, plan: TrainPlan, wall_ns: Callable[[], int]) -> Self:
        """Return the limit of a run.

        Args:
            plan: The run.
            wall_ns: Returns the age of this attempt [ns].
        """
        spent_ns = 0 if plan.resumed is None else plan.resumed.spent_ns
        return cls(limit_s=plan.request.limit_s, spent_ns=spent_ns, wall_ns=wall_ns)

    @property
    def passed(self) -> bool:
        """Whether the time is used up. The clocks of processes differ, so they must agree on the answer."""
        return self.limit_s is not None and self.spent_ns + self.wall_ns() >= self.limit_s * 1e9

    def error(self, when: str) -> LimitReachedError:
        """Return the reason of the end.

        Args:
            when: What the run was doing, or had done.
        """
        spent_s = (self.spent_ns + self.wall_ns()) / 1e9
        return LimitReachedError(
            f"--limit_s {self.limit_s:g} was used up {when}, after {spent_s:.1f} s in all attempts"
        )
