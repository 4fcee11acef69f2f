"""How rates grow with the number of processes: speed-up, efficiency, and the laws that can be fitted to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ledger_lab.studies.scaling.laws import Law, RateFit


class Kind(StrEnum):
    """What stays constant while the number of processes grows."""

    STRONG = "strong"
    """The environments of all processes together."""
    WEAK = "weak"
    """The environments of each process."""
    OTHER = "other"
    """Neither, or there is only one number of processes."""

    @property
    def law(self) -> Law | None:
        """The law with contention alone for this kind of scaling, if there is one."""
        return {Kind.STRONG: Law.AMDAHL, Kind.WEAK: Law.GUSTAFSON}.get(self)


@dataclass(frozen=True, kw_only=True)
class SizeRates:
    """The rates of one size: of a run, or medians over its runs. ``None`` means not measured."""

    processes: int
    num_envs: int | None = None
    """Environments of each process; ``None`` if unknown."""
    machines: int | None = None
    """Machines; ``None`` if unknown."""
    fps_step: float | None = None
    """Environment steps of all processes ÷ seconds of ``simulate + manage`` [1/s]."""
    fps_step_inference: float | None = None
    """The same with ``infer`` [1/s]."""
    fps_total: float | None = None
    """The same steps ÷ seconds of all training phases [1/s]."""
    epoch_s: float | None = None
    """Wall-clock time of an iteration of collecting and learning [s]."""


@dataclass(frozen=True, kw_only=True)
class Growth:
    """A rate relative to that of the smallest size."""

    speed_up: float
    """Rate ÷ rate of the smallest size."""
    efficiency: float
    """Rate per process ÷ rate per process of the smallest size."""


@dataclass(frozen=True)
class Refusal:
    """Why a law is not fitted."""

    reason: str


def growth(processes: int, rate: float | None, base_processes: int, base_rate: float | None) -> Growth | None:
    """Return how a rate has grown.

    Args:
        processes: Processes of the larger size.
        rate: Its rate.
        base_processes: Processes of the smallest size.
        base_rate: Its rate, in the same unit.

    Returns:
        The growth; ``None`` if a rate is missing.
    """
    if not rate or not base_rate:
        return None
    return Growth(speed_up=rate / base_rate, efficiency=rate / base_rate * base_processes / processes)


def fit_rate(kind: Kind, measured: Sequence[tuple[int, float]]) -> RateFit | Refusal:
    """Fit the law that suits a kind of scaling.

    Args:
        kind: The kind.
        measured: Processes and rate of each run, or of each size.

    Returns:
        The fit; or why there is none.
    """
    if kind.law is None:
        return Refusal("neither the environments in all nor those of a process are the same for several sizes")
    if not measured:
        return Refusal("no run has trained an iteration")
    try:
        return RateFit(kind.law, [size for size, _ in measured], [rate for _, rate in measured])
    except ValueError as error:
        return Refusal(str(error))
