"""How rate, samples and time to the target change with the number of processes and the batch."""

from ledger_lab.studies.scaling.laws import BatchFit, Figure, Kind, Law, RateFit, Refusal, TargetRun
from ledger_lab.studies.scaling.points import (
    Identity,
    ScaledRun,
    ScalingPoint,
    ScalingStudy,
    Setting,
    find_studies,
    scaled_runs,
)

__all__ = [
    "BatchFit",
    "Figure",
    "Identity",
    "Kind",
    "Law",
    "RateFit",
    "Refusal",
    "ScaledRun",
    "ScalingPoint",
    "ScalingStudy",
    "Setting",
    "TargetRun",
    "find_studies",
    "scaled_runs",
]
