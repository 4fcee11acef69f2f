"""How rate, samples and time to the target change with the number of processes and the batch."""

from ledger_lab.studies.scaling.batch import BatchFit, TargetRun
from ledger_lab.studies.scaling.laws import Figure, Law, RateFit
from ledger_lab.studies.scaling.points import Identity, ScaledRun, ScalingPoint, ScalingStudy, Setting
from ledger_lab.studies.scaling.rates import Kind, Refusal, SizeRates
from ledger_lab.studies.scaling.studies import find_studies

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
    "SizeRates",
    "TargetRun",
    "find_studies",
]
