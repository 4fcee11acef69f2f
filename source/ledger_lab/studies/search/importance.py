"""How important the parameters of a search were, with intervals."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ledger_lab.studies.search.charges import Charges
from ledger_lab.studies.search.declaration import SearchDeclaration
from ledger_lab.studies.search.proposals import ranked, study_of
from ledger_lab.studies.search.trials import Trial

FEWEST_TRIALS: Final = 20
"""Smallest number of ended trials from which importance is computed."""
_RESAMPLES: Final = 200


@dataclass(frozen=True, kw_only=True)
class Importance:
    """How much a parameter decides whether a trial is among the best tenth."""

    parameter: str
    share: float
    """Its share of the importance of all parameters, in [0, 1]."""
    low: float
    high: float
    """Interval with the middle 95 % of the shares in resampled trials."""


def importances(
    declaration: SearchDeclaration, trials: Sequence[Trial], charges: Charges, resamples: int = _RESAMPLES
) -> list[Importance] | None:
    """Return the importance of each parameter that all trials have, largest first, by PED-ANOVA.

    PED-ANOVA compares where the best trials lie with where all trials lie (Watanabe, Bansal & Hutter 2023, IJCAI,
    arXiv:2304.10255; ``optuna.importance.PedAnovaImportanceEvaluator``). It only uses their order, so capped trainings
    are no problem. Parameters with a condition are left out. The intervals come from trials drawn with replacement.
    They show how much the result depends on single trials; it is not known how often they contain the true importance.

    Args:
        declaration: The search.
        trials: Its trials.
        charges: Their charges.
        resamples: Number of resamples.

    Returns:
        The importances; ``None`` with fewer than :data:`FEWEST_TRIALS` ended trials.

    Raises:
        UserError: If Optuna is not installed.
    """
    ended = [(trial, position) for trial, position in ranked(declaration, trials, charges) if position is not None]
    names = [each.name for each in declaration.space.parameters if each.when is None]
    if len(ended) < FEWEST_TRIALS:
        return None
    import numpy as np

    generator = np.random.default_rng(0)
    drawn = [
        _shares(declaration, [ended[index] for index in generator.integers(len(ended), size=len(ended))], names)
        for _ in range(resamples)
    ]
    ends = np.quantile([[shares[name] for name in names] for shares in drawn], (0.025, 0.975), axis=0)
    own = _shares(declaration, ended, names)
    found = [
        Importance(parameter=name, share=own[name], low=float(low), high=float(high))
        for name, low, high in zip(names, *ends, strict=True)
    ]
    return sorted(found, key=lambda each: (-each.share, each.parameter))


def _shares(
    declaration: SearchDeclaration, ended: Sequence[tuple[Trial, float | None]], names: Sequence[str]
) -> dict[str, float]:
    """Return the share of each parameter in the importance of all."""
    study = study_of(declaration, ended, 0)
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the evaluator is marked as experimental
        return get_param_importances(study, evaluator=PedAnovaImportanceEvaluator(), params=list(names))
