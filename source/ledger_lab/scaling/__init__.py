"""How rate, samples and time to the target change with the number of processes and the batch."""

from ledger_lab.scaling.batch import BatchFit, TargetRun
from ledger_lab.scaling.laws import Figure, Law, Prediction, RateFit
from ledger_lab.scaling.noise_scale import gradient_noise_scale

__all__ = ["BatchFit", "Figure", "Law", "Prediction", "RateFit", "TargetRun", "gradient_noise_scale"]
