"""How rates grow with the number of processes: speed-up, efficiency, and the laws that can be fitted to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ledger_lab.studies.scaling.laws import FEWEST_SIZES_OF_COHERENCY, Law, RateFit


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


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Why a fit is missing."""

    fit: str
    """What would have been fitted."""
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


def fit_rates(kind: Kind, measured: Sequence[tuple[int, float]]) -> tuple[tuple[RateFit, ...], tuple[Refusal, ...]]:
    """Fit the laws that suit a kind of scaling: the one with contention alone, and the universal scalability law.

    Without coherency, which needs many sizes, the universal scalability law is Amdahl's, and is not fitted twice.

    Args:
        kind: The kind.
        measured: Processes and rate of each run, or of each size.

    Returns:
        The fits; and why the other laws are missing.
    """
    if kind.law is None:
        reason = "neither the environments in all nor those of a process are the same for several numbers of processes"
        return (), (Refusal(fit="laws of the rate", reason=reason),)
    if not measured:
        return (), (Refusal(fit="laws of the rate", reason="no run has trained an iteration"),)
    fits: list[RateFit] = []
    refusals: list[Refusal] = []
    sizes = len({size for size, _ in measured})
    for law in (kind.law, Law.UNIVERSAL):
        if law is Law.UNIVERSAL and kind.law is Law.AMDAHL and sizes < FEWEST_SIZES_OF_COHERENCY:
            reason = (
                f"the coherency of the {law.full_name} needs {FEWEST_SIZES_OF_COHERENCY} sizes, and there are {sizes}"
            )
            refusals.append(Refusal(fit=law.full_name, reason=reason))
            continue
        try:
            fits.append(RateFit(law, [size for size, _ in measured], [rate for _, rate in measured]))
        except ValueError as error:
            refusals.append(Refusal(fit=law.full_name, reason=str(error)))
    return tuple(fits), tuple(refusals)
