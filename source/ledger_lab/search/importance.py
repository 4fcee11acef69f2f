"""Which parameters of a search mattered, with intervals."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ledger_lab.search.charges import Charges
from ledger_lab.search.declaration import SearchDeclaration
from ledger_lab.search.proposals import ranked, study_of
from ledger_lab.search.trials import Trial

FEWEST_TRIALS: Final = 20
"""Ended trials that importance is told from."""
_RESAMPLES: Final = 200


@dataclass(frozen=True, kw_only=True)
class Importance:
    """How much a parameter decides whether a trial is among the best tenth."""

    parameter: str
    share: float
    """Its share of the importance of all parameters, in [0, 1]."""
    low: float
    high: float
    """The middle 95 % of the shares in resampled trials."""


def importances(
    declaration: SearchDeclaration, trials: Sequence[Trial], charges: Charges, resamples: int = _RESAMPLES
) -> list[Importance] | None:
    """Return the importance of each parameter that all trials have, largest first, by PED-ANOVA.

    PED-ANOVA compares where the best trials lie with where all trials lie (Watanabe, Bansal & Hutter 2023, IJCAI,
    arXiv:2304.10255; ``optuna.importance.PedAnovaImportanceEvaluator``). It only uses their order, so that a cap is no
    obstacle. Parameters with a condition are left out. The intervals come from trials drawn with replacement: they tell
    how much the result hangs on single trials, and are not known to hold a true importance in 95 % of searches.

    Args:
        declaration: The search.
        trials: Its trials.
        charges: Their charges.
        resamples: How often trials are drawn.

    Returns:
        The importances; ``None`` with fewer than :data:`FEWEST_TRIALS` ended trials.

    Raises:
        UserError: If Optuna is not installed.
    """
    ended = [(trial, place) for trial, place in ranked(declaration, trials, charges) if place is not None]
    names = [each.name for each in declaration.space.parameters if each.when is None]
    if len(ended) < FEWEST_TRIALS:
        return None
    import numpy as np

    generator = np.random.default_rng(0)
    drawn = [
        _shares(declaration, [ended[place] for place in generator.integers(len(ended), size=len(ended))], names)
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
    """Return the share of each parameter."""
    study = study_of(declaration, ended, 0)
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the evaluator is marked as experimental
        return get_param_importances(study, evaluator=PedAnovaImportanceEvaluator(), params=list(names))
