"""The trials of a search: Optuna proposes and stores them, in a file beside their recipes.

The ledger holds the trainings; this file holds what the ledger does not: the values of each trial, and which were
refused.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ledger_lab.errors import UserError
from ledger_lab.studies.search.declaration import SearchDeclaration
from ledger_lab.studies.search.space import Parameter, Value, Values, text_of
from ledger_lab.studies.search.trials import Trial

if TYPE_CHECKING:
    import optuna

type Refuses = Callable[[Values], str | None]
"""Tells why the task and its library can't train with some values; ``None`` if they can."""

RANDOM_TRIALS: Final = 10
"""Trials before TPE learns from earlier trials."""
_MOST_DRAWS: Final = 200
"""Largest number of proposals for a new trial."""
_PARENT = "parent"


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
    for _, values in zip(range(_MOST_DRAWS), proposals, strict=False):
        reason = None if refuses is None else refuses(values)
        if reason is None:
            return values
    raise UserError(
        f"search {declaration.name}: none of {_MOST_DRAWS} proposals can be trained with ({reason}): narrow the space"
    )


class TrialStore:
    """The trials of a search besides the stock recipe. Trial N is Optuna's trial N - 1."""

    def __init__(self, declaration: SearchDeclaration, file: Path | None = None) -> None:
        """Open the store.

        Args:
            declaration: The search.
            file: The file, which need not exist; ``None`` to keep trials in memory.

        Raises:
            UserError: If Optuna is not installed.
        """
        try:
            import optuna
            from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage
            from optuna.storages.journal import JournalFileBackend
        except ImportError as error:
            raise UserError("a search needs Optuna: pip install 'ledger_lab[search]'") from error
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._declaration = declaration
        is_new = file is None or not file.exists()
        storage: BaseStorage = InMemoryStorage() if file is None else JournalStorage(JournalFileBackend(str(file)))
        opened = optuna.create_study if is_new else optuna.load_study
        self._study = opened(storage=storage, study_name=declaration.cohort_stem)

    def stored(self) -> list[Trial]:
        """Return the trials that were not refused, by number, without their runs."""
        from optuna.trial import TrialState

        return [
            Trial(number=each.number + 1, values=self._values(each.params), parent=each.user_attrs.get(_PARENT))
            for each in self._study.get_trials(deepcopy=False)
            if each.state is not TrialState.FAIL
        ]

    def propose(self, refuses: Refuses | None = None) -> Trial:
        """Ask Optuna for a new trial. Proposals that are refused stay as failed trials.

        TPE takes a trial under way for a poor one, so that trials that run at the same time differ.

        Args:
            refuses: Tells why some values can't be trained with; ``None`` to accept any.

        Raises:
            UserError: If no proposal is accepted.
        """
        asked: list[optuna.Trial] = []

        def proposals() -> Iterator[Values]:
            while True:
                self._study.sampler = self._sampler()
                asked.append(self._study.ask())
                yield self._suggested(asked[-1])
                self.refuse(asked[-1].number + 1)

        values = first_accepted(self._declaration, proposals(), refuses)
        return Trial(number=asked[-1].number + 1, values=values)

    def add(self, values: Values, parent: int | None) -> Trial:
        """Store a trial of a population.

        Args:
            values: Its values.
            parent: The trial whose last policy it begins with; ``None`` for random networks.
        """
        params = {
            each.name: text_of(values[each.name]) if each.choices else values[each.name]
            for each in self._declaration.parameters
            if each.name in values
        }
        self._study.enqueue_trial(params, user_attrs={} if parent is None else {_PARENT: parent})
        asked = self._study.ask()
        return Trial(number=asked.number + 1, values=self._suggested(asked), parent=parent)

    def refuse(self, number: int) -> None:
        """Leave a trial out: ``train.py`` refuses its values."""
        from optuna.trial import TrialState

        self._study.tell(number - 1, state=TrialState.FAIL)

    def tell(self, positions: Mapping[int, float]) -> None:
        """Store how good trials are whose race is over.

        Args:
            positions: Figures of trials by number, smaller for better ones; those that were told before are left out.
        """
        from optuna.trial import TrialState

        for trial in self._study.get_trials(deepcopy=False):
            if trial.state is TrialState.RUNNING and (figure := positions.get(trial.number + 1)) is not None:
                self._study.tell(trial.number, figure)

    def importance(self, positions: Mapping[int, float]) -> dict[str, float]:
        """Return the importance of each parameter that all trials have, by PED-ANOVA; the shares add up to 1.

        PED-ANOVA compares where the best trials lie with where all trials lie (Watanabe, Bansal & Hutter 2023, IJCAI,
        arXiv:2304.10255). It only uses their order, so capped trainings are no problem.

        Args:
            positions: Figures of the ended trials by number, smaller for better ones.
        """
        import optuna
        from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
        from optuna.trial import create_trial

        study = optuna.create_study()
        for trial in self._study.get_trials(deepcopy=False):
            if (figure := positions.get(trial.number + 1)) is not None:
                study.add_trial(create_trial(value=figure, params=trial.params, distributions=trial.distributions))
        names = [each.name for each in self._declaration.parameters if not each.when]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the evaluator is marked as experimental
            return get_param_importances(study, evaluator=PedAnovaImportanceEvaluator(), params=names)

    def _sampler(self) -> optuna.samplers.BaseSampler:
        """Return the sampler of the next proposal, which depends on nothing but the search and the stored trials."""
        from optuna.samplers import RandomSampler, TPESampler

        place = f"{self._declaration.digest}:{len(self._study.get_trials(deepcopy=False))}"
        seed = int.from_bytes(hashlib.sha256(place.encode()).digest()[:4])
        if self._declaration.strategy == "random":
            return RandomSampler(seed=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # these arguments are marked as experimental
            return TPESampler(seed=seed, multivariate=True, constant_liar=True, n_startup_trials=RANDOM_TRIALS)

    def _suggested(self, asked: optuna.Trial) -> Values:
        """Ask for the values of a proposal."""
        params: dict[str, object] = {}
        for each in self._declaration.parameters:
            if each.is_active(self._values(params)):
                params[each.name] = _ask(each, asked)
        return self._values(params)

    def _values(self, params: Mapping[str, object]) -> Values:
        """Return the values of a trial from what Optuna holds."""
        values: dict[str, Value] = {}
        for each in self._declaration.parameters:
            if (found := params.get(each.name)) is not None:
                texts = {text_of(choice): choice for choice in each.choices}
                values[each.name] = texts[str(found)] if each.choices else each.nearest(found)  # type: ignore[arg-type]
        return values


def _ask(parameter: Parameter, asked: optuna.Trial) -> object:
    """Ask for the value of a parameter in a proposal."""
    name = parameter.name
    if parameter.choices:
        return asked.suggest_categorical(name, [text_of(choice) for choice in parameter.choices])
    if parameter.type == "int":
        return asked.suggest_int(name, int(parameter.low), int(parameter.high), log=parameter.log)
    return asked.suggest_float(name, parameter.low, parameter.high, log=parameter.log)
