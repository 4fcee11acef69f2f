"""Values of new trials: by the tree-structured Parzen estimator (TPE) of Optuna, or at random.

TPE: Bergstra et al. 2011, NeurIPS 24; ``optuna.samplers.TPESampler``. A proposal depends only on the search, its trials
and the number of the new trial. Optuna stores nothing: its study is rebuilt in memory for each proposal.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ledger_lab.errors import UserError
from ledger_lab.studies.search.charges import Charges
from ledger_lab.studies.search.declaration import SearchDeclaration
from ledger_lab.studies.search.space import Parameter, Value, Values, as_text
from ledger_lab.studies.search.trials import Outcome, Trial

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution

type Refuses = Callable[[Values], str | None]
"""Tells why the task and its library can't train with some values; ``None`` if they can."""

RANDOM_TRIALS: Final = 10
"""Trials before TPE learns from earlier trials."""
_MOST_DRAWS: Final = 200
"""Largest number of proposals for a new trial."""


def propose(
    declaration: SearchDeclaration,
    trials: Sequence[Trial],
    charges: Charges,
    number: int,
    refuses: Refuses | None = None,
) -> Values:
    """Return the values of a new trial.

    Args:
        declaration: The search.
        trials: Its trials so far. TPE takes a trial under way for a poor one, so that trials that run at the same time
            differ.
        charges: Their charges.
        number: Number of the new trial.
        refuses: Tells why some values can't be trained with; ``None`` to accept any.

    Raises:
        UserError: If no proposal is accepted, or Optuna is not installed.
    """
    seed = int.from_bytes(hashlib.sha256(f"{declaration.digest}:{number}".encode()).digest()[:4])
    study = study_of(declaration, ranked(declaration, trials, charges), seed)
    return first_accepted(declaration, _drawn(declaration, study), refuses)


def first_accepted(declaration: SearchDeclaration, proposals: Iterator[Values], refuses: Refuses | None) -> Values:
    """Return the first proposal that can be trained with.

    Args:
        declaration: The search.
        proposals: Any number of proposals.
        refuses: Tells why some values can't be trained with; ``None`` to accept any.

    Raises:
        UserError: If none of the first :data:`_MOST_DRAWS` proposals is accepted.
    """
    reason = None
    for values in itertools.islice(proposals, _MOST_DRAWS):
        reason = None if refuses is None else refuses(values)
        if reason is None:
            return values
    raise UserError(
        f"search {declaration.name}: none of {_MOST_DRAWS} proposals can be trained with ({reason}): narrow the space"
    )


def ranked(
    declaration: SearchDeclaration, trials: Sequence[Trial], charges: Charges
) -> list[tuple[Trial, float | None]]:
    """Return the trials with values, by number, each with its position in the order of the race.

    TPE only uses the order of the trials. First come those that reached the target on all seeds that they have run, by
    their mean charge; then the others, by the number of seeds on which they reached it, and by their mean charge. The
    position is ``None`` before a training of the trial has ended.

    Args:
        declaration: The search.
        trials: Its trials.
        charges: Their charges.
    """
    ended = [trial for trial in trials if trial.values and _has_result(trial)]

    def key(trial: Trial) -> tuple[bool, int, float, int]:
        seeds = len(charges.by_trial[trial.number])
        reached = sum(run.outcome is Outcome.REACHED for run in trial.raced().values())
        return (reached < seeds, -reached if reached < seeds else 0, charges.mean(trial.number), trial.number)

    positions = {trial.number: float(position) for position, trial in enumerate(sorted(ended, key=key))}
    with_values = sorted((trial for trial in trials if trial.values), key=lambda trial: trial.number)
    return [(trial, positions.get(trial.number)) for trial in with_values]


def _has_result(trial: Trial) -> bool:
    """Tell whether a training of a trial has ended."""
    return any(run.outcome.is_final for run in trial.raced().values())


def study_of(
    declaration: SearchDeclaration, positions: Sequence[tuple[Trial, float | None]], seed: int
) -> optuna.Study:
    """Rebuild the study that Optuna would have.

    Args:
        declaration: The search.
        positions: Trials with their positions, as from :func:`ranked`.
        seed: Seed of the next proposal.

    Raises:
        UserError: If Optuna is not installed.
    """
    try:
        import optuna
    except ImportError as error:
        raise UserError("a search needs Optuna: pip install 'ledger_lab[search]'") from error
    from optuna.samplers import BaseSampler, RandomSampler, TPESampler
    from optuna.trial import TrialState, create_trial

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler: BaseSampler = RandomSampler(seed=seed)
    if declaration.strategy == "tpe":
        sampler = TPESampler(seed=seed, multivariate=True, constant_liar=True, n_startup_trials=RANDOM_TRIALS)
    study = optuna.create_study(sampler=sampler)
    for trial, position in positions:
        state = TrialState.RUNNING if position is None else TrialState.COMPLETE
        active = [each for each in declaration.space.parameters if each.name in trial.values]
        params = {each.name: _plain(each, trial.values[each.name]) for each in active}
        distributions = {each.name: _distribution(each) for each in active}
        study.add_trial(create_trial(state=state, value=position, params=params, distributions=distributions))
    return study


def _drawn(declaration: SearchDeclaration, study: optuna.Study) -> Iterator[Values]:
    """Ask a study for proposals. A proposal counts as failed when the next one is asked for."""
    from optuna.trial import TrialState

    while True:
        asked = study.ask()
        values: dict[str, Value] = {}
        for each in declaration.space.parameters:
            if each.is_active(values):
                values[each.name] = _suggested(each, asked)
        yield values
        study.tell(asked, state=TrialState.FAIL)


def _suggested(parameter: Parameter, asked: optuna.Trial) -> Value:
    """Ask for the value of a parameter in a proposal."""
    if parameter.low is None or parameter.high is None:
        texts = {as_text(choice): choice for choice in parameter.choices}
        return texts[asked.suggest_categorical(parameter.name, list(texts))]
    if parameter.is_whole:
        return asked.suggest_int(parameter.name, int(parameter.low), int(parameter.high), log=parameter.log)
    return parameter.nearest(asked.suggest_float(parameter.name, parameter.low, parameter.high, log=parameter.log))


def _distribution(parameter: Parameter) -> BaseDistribution:
    """Return the range or the choices of a parameter in Optuna's terms."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if parameter.low is None or parameter.high is None:
        return CategoricalDistribution([as_text(choice) for choice in parameter.choices])
    if parameter.is_whole:
        return IntDistribution(int(parameter.low), int(parameter.high), log=parameter.log)
    return FloatDistribution(parameter.low, parameter.high, log=parameter.log)


def _plain(parameter: Parameter, value: Value) -> bool | float | str:
    """Return a value as Optuna stores it."""
    return as_text(value) if parameter.choices else value  # type: ignore[return-value]  # a number
