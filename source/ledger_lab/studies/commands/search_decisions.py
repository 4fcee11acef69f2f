"""A search with its ledger and its cluster: which trials can be trained, what comes next, and what was found."""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from ledger_lab.errors import UserError
from ledger_lab.ledger import Run
from ledger_lab.ledger.cohorts import declare_cohort
from ledger_lab.ledger.costs import Price, load_price_book, resolve_price
from ledger_lab.ledger.find import tell_damage
from ledger_lab.ledger.libraries import PPO, algorithm_of, dialect_of, require_library
from ledger_lab.ledger.redaction import Redactor
from ledger_lab.studies.commands.batches import batches_of, configuration_of
from ledger_lab.studies.commands.search_on import Gone, SearchJobs, require_nothing_queued
from ledger_lab.studies.commands.search_runs import SearchRuns
from ledger_lab.studies.search.decisions import Decision, Situation
from ledger_lab.studies.search.declaration import SearchDeclaration
from ledger_lab.studies.search.ending import decide_next
from ledger_lab.studies.search.population import decide_population
from ledger_lab.studies.search.price import TrainingPrice
from ledger_lab.studies.search.proposals import propose
from ledger_lab.studies.search.result import SearchResult, summarize_search
from ledger_lab.studies.search.space import LIBRARY, Values, is_override
from ledger_lab.studies.search.trial_recipe import overrides_of, recipe_text
from ledger_lab.studies.search.trials import STOCK, Place, SearchTraining, cohort_of
from ledger_lab.tasks.recipes.recipe_file import check_recipe
from ledger_lab.training.launch import requested_processes
from ledger_lab.training.minibatches import cannot_split
from ledger_lab.training.recipe import library_of, with_recipe
from ledger_lab.training.request import TrainRequest
from ledger_lab.training.task_batches import ask_simulations


class Search:
    """A search with its ledger, and the cluster that trains for it."""

    def __init__(self, declaration: SearchDeclaration, log_root: Path, jobs: SearchJobs | None) -> None:
        """Check the arguments of its trainings, and find their price.

        Args:
            declaration: The search.
            log_root: Root of the ledger.
            jobs: Its submissions; ``None`` to train on this machine.

        Raises:
            UserError: If ``train.py`` would refuse the arguments, or the price is unknown.
        """
        self.declaration, self.log_root, self.jobs = declaration, log_root, jobs
        self._processes, own = requested_processes(declaration.common_arguments)
        self._request = TrainRequest.parse(own)
        self.price = self._price(self._processes)
        self._told: set[str] = set()
        """Damage of the ledger that was printed: the search reads the ledger often."""

    def _price(self, processes: int | None) -> TrainingPrice | None:
        """Return the price of the trainings; ``None`` if neither budget nor objective needs it."""
        if self.declaration.budget_usd is None and self.declaration.objective == "time":
            return None
        request, site = self._request, None if self.jobs is None else self.jobs.site
        instance = request.instance
        if site is not None and (instance, request.usd_per_hour) == (None, None):
            instance = site.instance
        book = load_price_book(request.prices)
        price: Price = resolve_price(instance, request.usd_per_hour, book, today=datetime.date.today())
        if price.usd_per_hour is None:
            raise UserError(
                f"search {self.declaration.name}: {price.instance} has no price: add --instance, --usd_per_hour or "
                '--prices to arguments, or give budget_h and objective = "time"'
            )
        gpus = 0 if site is None else site.gpus_per_node
        if (processes or 1) > 1 and not gpus and request.device is None:
            raise UserError(
                f"search {self.declaration.name}: the price of {processes} processes depends on where they run: add "
                "--device cuda or --device cpu to arguments"
            )
        devices = max(1, gpus or (processes or 1 if (request.device or "cpu").startswith("cuda") else 1))
        return TrainingPrice(price, devices)

    def require_possible(self) -> None:
        """Refuse a search whose stock recipe or first trial can't be trained, before the stock recipe costs anything.

        Raises:
            UserError: If one of them can't be trained, or Optuna is not installed.
        """
        request, declaration = self._request, self.declaration
        where = f"search {declaration.name}: arguments"
        for is_set, name in ((request.no_eval, "no_eval"), (not request.stop_at_target, "no-stop_at_target")):
            if is_set:
                raise UserError(f"{where}: --{name}: no training would end at a proven target: leave it out")
        if request.rl_library is not None:
            require_library(request.rl_library)
        if (request.algorithm or algorithm_of(library_of(request), request.agent)) != PPO:
            raise UserError(f"{where}: a recipe holds fields of {PPO}: leave --algorithm and --agent out")
        gpus = 0 if self.jobs is None else self.jobs.site.gpus_per_node
        declaration.require_seeds_for(self._processes or max(1, gpus))
        if reason := self.refuses({}):
            raise UserError(f"search {declaration.name}: the stock recipe can't be trained: {reason}")
        beginning = Situation.of(declaration, (), price=self.price, refuses=self.refuses)
        if declaration.population is None:
            propose(declaration, (), beginning.charges, STOCK + 1, self.refuses)
        else:
            decide_population(beginning)
        self._require_settings()

    def _require_settings(self) -> None:
        """Refuse settings that the task does not have, that are of another type, or that change the panel.

        Of each parameter, the first and the last value are tried; only where Isaac Lab is installed.

        Raises:
            UserError: If there is one.
        """
        declaration = self.declaration
        tried: dict[tuple[str, ...], str] = {}
        for each in declaration.space.parameters:
            if is_override(each.name):
                values = each.choices or (each.low, each.high)
                for value in (values[0], values[-1]):
                    tried.setdefault(self._configuration({each.name: value}), each.name)  # type: ignore[dict-item]
        if not tried and not overrides_of(declaration.stock):
            return
        try:
            simulations = ask_simulations([self._configuration({}), *tried])
        except UserError as error:
            raise UserError(f"search {declaration.name}: a trial can't be trained: {error}") from error
        stock, *others = simulations or [""]
        if changed := [name for name, other in zip(tried.values(), others, strict=False) if other != stock]:
            raise UserError(
                f"search {declaration.name}: {changed[0]} changes the environment that policies are scored in, so its "
                "values can't be compared: leave it out"
            )

    def _configuration(self, values: Values) -> tuple[str, ...]:
        """Return the arguments that configure a task with some values of a trial."""
        overrides = overrides_of(self.declaration.recipe(values))
        return configuration_of(replace(self._request, overrides=(*self._request.overrides, *overrides)))

    def refuses(self, values: Values) -> str | None:
        """Return why the values of a trial can't be trained with; ``None`` if they can."""
        asked = replace(self._request, rl_library=str(values.get(LIBRARY, library_of(self._request))))
        try:
            require_library(library_of(asked))
            file = check_recipe(Path("the recipe"), tomllib.loads(recipe_text(self.declaration.recipe(values), "")))
            if (data := file.to_data()) != {"fields": {}, "num_envs": None, "overrides": []}:
                if Redactor().value(data) != data:
                    return f"the ledger would replace a value by [redacted], because it looks like a secret: {data}"
                asked = with_recipe(asked, file, dialect_of(library_of(asked)))
            batch = batches_of({"trial": asked}).get("trial")
        except UserError as error:
            return str(error)
        if batch is None:
            return None
        return cannot_split(asked.num_envs or batch.own_num_envs, batch.plan)

    def look(self) -> tuple[SearchRuns, dict[SearchTraining, Gone]]:
        """Read the ledger, and ask the cluster for the trainings that the ledger does not show to have ended.

        Returns:
            The trainings; and those whose last submission began no attempt.

        Raises:
            UserError: If the cluster does not answer, or the ledger holds trainings that the search can't have started.
        """
        runs = SearchRuns(self.declaration, self.log_root)
        tell_damage(each for each in runs.damage if str(each) not in self._told)
        self._told |= {str(each) for each in runs.damage}
        if self.jobs is None:
            return runs, {}
        waiting, gone = self.jobs.ask(_ended(runs))
        runs = SearchRuns(self.declaration, self.log_root, waiting)  # some may have ended before the cluster was asked
        return runs, {
            training: each
            for training, each in gone.items()
            if not (each.has_begun or _has_attempt(runs.runs.get(training, []), each.job))
        }

    def require_nothing_queued(self, runs: SearchRuns) -> None:
        """Refuse to train here what waits or runs on a cluster; see :func:`~.search_on.require_nothing_queued`.

        Args:
            runs: The trainings of the search.

        Raises:
            UserError: If there is such a training, or the cluster does not answer.
        """
        require_nothing_queued(self.declaration, self.log_root, _ended(runs))

    def skip(self, training: SearchTraining, runs: SearchRuns) -> bool:
        """Leave out a trial because ``train.py`` has refused its first training.

        The ledger remembers it: the cohort of the trial is declared, and has no run.

        Args:
            training: The refused training.
            runs: The trainings of the search.

        Returns:
            Whether the trial is left out. If not, its values may not be the reason: it is the stock recipe, has been
            trained before, or is a member of a population, whose values are checked before it is started.

        Raises:
            UserError: If the ledger can't be written to.
        """
        place = training.place
        is_known = place.trial == STOCK or any(trial.number == place.trial for trial in runs.trials)
        if is_known or place != Place(place.trial) or self.declaration.population is not None:
            return False
        declare_cohort(self.log_root, cohort_of(self.declaration, place), 1)
        return True

    def next(self, runs: SearchRuns) -> Decision:
        """Decide what comes next.

        Raises:
            UserError: As :func:`~ledger_lab.studies.search.ending.decide_next`.
        """
        return decide_next(self._situation(runs))

    def result(self, runs: SearchRuns) -> SearchResult:
        """Return what the search has found so far."""
        return summarize_search(self._situation(runs))

    def _situation(self, runs: SearchRuns) -> Situation:
        """Return what decisions depend on."""
        return Situation.of(self.declaration, runs.trials, price=self.price, skipped=runs.skipped, refuses=self.refuses)


def _has_attempt(runs: Iterable[Run], job: str) -> bool:
    """Tell whether an attempt of some runs ran in a job: it may have been killed before it noted its run."""
    starts = [start for run in runs for attempt in run.attempts if (start := attempt.first_start) is not None]
    return any(start.job is not None and start.job.job == job for start in starts)


def _ended(runs: SearchRuns) -> set[SearchTraining]:
    """Return the trainings that the ledger shows to have ended, or to have been refused."""
    refused = {SearchTraining(Place(trial), seed) for trial in runs.skipped for seed in runs.declaration.search_seeds}
    return refused | {
        SearchTraining(Place(trial.number, run.repeat, run.sealed), run.seed)
        for trial in runs.trials
        for run in trial.runs
        if run.outcome.is_final
    }
