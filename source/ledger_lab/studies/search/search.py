"""A search with its ledger and its cluster: what comes next, and how trainings are started."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from ledger_lab.clusters.engine import load_site
from ledger_lab.clusters.planned import has_state
from ledger_lab.clusters.plans import Plan
from ledger_lab.clusters.submissions import new_folder
from ledger_lab.clusters.submit import hand_over, planned_training, show_files
from ledger_lab.documents import toml_value
from ledger_lab.errors import UserError
from ledger_lab.files import make_folder, whole_file
from ledger_lab.ledger import Run, StateSaved
from ledger_lab.ledger.costs.model import billable_usd
from ledger_lab.ledger.libraries import PPO, algorithm_of, dialect_of, require_library
from ledger_lab.panels import VerdictRule
from ledger_lab.panels.carried import left_budget
from ledger_lab.reports import summarize_run
from ledger_lab.reports.terminal.console import EXIT_USER_ERROR
from ledger_lab.studies.checks import known_batch, price_of
from ledger_lab.studies.search.declaration import SearchDeclaration
from ledger_lab.studies.search.population import decide_population
from ledger_lab.studies.search.race import decide_race
from ledger_lab.studies.search.situation import Decision, Situation, Start
from ledger_lab.studies.search.space import LIBRARY, NUM_ENVS, Values, overrides_of
from ledger_lab.studies.search.store import TrialStore
from ledger_lab.studies.search.trials import (
    STOCK,
    Outcome,
    SeedRun,
    Trial,
    cohort_of,
    outcome_of,
    seeds_of,
    trial_words,
)
from ledger_lab.studies.trainings import (
    Submitted,
    Trainings,
    name_of,
    repeated_flags,
    train_command,
    train_here,
)
from ledger_lab.tasks.recipes.recipe_file import FIELDS, check_recipe
from ledger_lab.training.launch import requested_processes
from ledger_lab.training.minibatches import cannot_split
from ledger_lab.training.request import TrainRequest
from ledger_lab.training.requested import library_of, with_recipe

_PATIENCE, _LEAST_PATIENCE_S = 1.5, 120.0
"""A training on this machine that runs for so many times its cap hangs, and is asked to end; but not before so many
seconds after the cap [s]."""
_FILE = "trials.log"
"""Optuna's file in the folder of a search."""


class Search:
    """A search with its ledger, and the cluster that trains for it."""

    def __init__(self, declaration: SearchDeclaration, log_root: Path, on: str | None = None) -> None:
        """Check the arguments of its trainings, and find their price.

        Args:
            declaration: The search.
            log_root: Root of the ledger; the file of a cluster has its own.
            on: Name or path of the file of a cluster; ``None`` to train on this machine.

        Raises:
            UserError: If ``train.py`` would refuse the arguments, or the price is unknown.
        """
        self.declaration = declaration
        self.cluster = None if on is None else load_site(on)
        self.log_root = log_root if self.cluster is None else self.cluster[1].log_root
        self._processes, own = requested_processes(declaration.common_arguments)
        self._request = TrainRequest.parse(own)
        self._usd_per_s = self._price()

    @property
    def _gpus(self) -> int:
        """GPUs of a training on the cluster."""
        return 0 if self.cluster is None else self.cluster[1].gpus_per_node

    def _price(self) -> float | None:
        """Return the price of a second of a long training [USD/s]; ``None`` if neither budget nor objective needs it.

        It contains the energy of the user's own machine by its nominal power.
        """
        declaration, request = self.declaration, self._request
        if declaration.budget_usd is None and declaration.objective == "time":
            return None
        price = price_of(request, None if self.cluster is None else self.cluster[1])
        processes = self._processes or 1
        if processes > 1 and not self._gpus and request.device is None:
            raise UserError(
                f"search {declaration.name}: the price of {processes} processes depends on where they run: add "
                "--device cuda or --device cpu to arguments"
            )
        on_gpus = (request.device or "cpu").startswith("cuda")
        devices = self._gpus or (processes if on_gpus else 1)
        long_s = 1e6
        usd = billable_usd([long_s], price, devices=devices, machines=1)
        if not usd:
            raise UserError(
                f"search {declaration.name}: {price.instance} has no price, or costs nothing: add --instance, "
                '--usd_per_hour or --prices to arguments, or give budget_h and objective = "time"'
            )
        return usd / long_s

    def require_possible(self) -> None:
        """Refuse a search whose stock recipe or first trial can't be trained, before the stock recipe costs anything.

        Raises:
            UserError: If one of them can't be trained, or Optuna is not installed.
        """
        request, declaration = self._request, self.declaration
        where = f"search {declaration.name}: arguments"
        for name in ("eval", "stop_at_target"):
            if not getattr(request, name):
                raise UserError(f"{where}: --no_{name}: no training would end at a proven target: leave it out")
        if request.rl_library is not None:
            require_library(request.rl_library)
        if (request.algorithm or algorithm_of(library_of(request), request.agent)) != PPO:
            raise UserError(f"{where}: a recipe holds fields of {PPO}: leave --algorithm and --agent out")
        declaration.require_seeds_for(self._processes or max(1, self._gpus))
        if reason := self.refuses({}):
            raise UserError(f"search {declaration.name}: the stock recipe can't be trained: {reason}")
        in_memory = TrialStore(declaration)
        if declaration.is_race:
            in_memory.propose(self.refuses)
        else:
            decide_population(self._situation([Trial(number=STOCK, values={})], in_memory))

    def refuses(self, values: Values) -> str | None:
        """Return why the values of a trial can't be trained with; ``None`` if they can."""
        asked = replace(self._request, rl_library=str(values.get(LIBRARY, library_of(self._request))))
        try:
            require_library(library_of(asked))
            file = check_recipe(Path("the recipe"), tomllib.loads(recipe_text(self.declaration.recipe(values), "")))
            if file.to_data() != {"fields": {}, "num_envs": None, "overrides": []}:
                asked = with_recipe(asked, file, dialect_of(library_of(asked)))
            batch = known_batch(asked)
        except UserError as error:
            return str(error)
        return None if batch is None else cannot_split(asked.num_envs or batch.own_num_envs, batch.plan)

    def trainings(self) -> Trainings:
        """Read the ledger, and ask the cluster.

        Raises:
            UserError: If the cluster does not answer.
        """
        stem = self.declaration.cohort_stem
        return Trainings(stem, lambda cohort: cohort.startswith(f"{stem}-t"), self.log_root)

    def look(self, trainings: Trainings | None = None) -> Situation:
        """Return how the search stands.

        Args:
            trainings: Its trainings; ``None`` to read them now.

        Raises:
            UserError: If the cluster does not answer, or trainings can't be compared.
        """
        store = self.store()
        return self._situation(read_trials(self.declaration, store, trainings or self.trainings()), store)

    def store(self) -> TrialStore:
        """Return the stored trials; in memory before the first one."""
        folder = search_folder(self.declaration, self.log_root)
        return TrialStore(self.declaration, folder / _FILE if folder.is_dir() else None)

    def _situation(self, trials: Sequence[Trial], store: TrialStore) -> Situation:
        """Return what decisions depend on."""
        return Situation(
            declaration=self.declaration, trials=trials, store=store, usd_per_s=self._usd_per_s, refuses=self.refuses
        )

    def decide(self, situation: Situation) -> Decision:
        """Decide what comes next."""
        return decide_race(situation) if self.declaration.is_race else decide_population(situation)

    def arguments(self, start: Start, trainings: Trainings) -> list[str]:
        """Return the arguments of ``train.py`` that start or resume a training, and write its recipe file.

        Args:
            start: The training.
            trainings: The trainings of the search.

        Raises:
            UserError: If the recipe file can't be written, or the run is missing whose policy it begins with.
        """
        declaration, cohort = self.declaration, cohort_of(self.declaration, start.trial)
        earlier = trainings.runs.get((cohort, start.seed), [])
        if start.resumes and earlier and has_state(earlier[-1]):
            return ["--resume", earlier[-1].run_id, *repeated_flags(declaration.train_arguments)]
        recipe = recipe_arguments(declaration, self.log_root, start.trial, start.values)
        arguments = [*declaration.common_arguments, *recipe]
        if declaration.population is not None:
            arguments += ["--max_iterations", str(declaration.population.iterations)]
        if start.begins_with is not None:
            before = cohort_of(declaration, start.begins_with)
            run = next((run for run in reversed(trainings.all_runs()) if run.cohort == before), None)
            if run is None:
                raise UserError(f"search {declaration.name}: the run of cohort {before} is missing: restore it")
            arguments += ["--checkpoint", run.run_id]
        if start.cap_s is not None:
            left_s = start.cap_s - sum(summarize_run(run).wall_s for run in earlier)
            arguments += ["--limit_s", f"{max(left_s, 1.0):.3f}"]
        return [*arguments, "--seed", str(start.seed), "--cohort", cohort]

    def words(self, start: Start) -> str:
        """Return the name of a training."""
        return f"{trial_words(self.declaration, start.trial)} on seed {start.seed}"

    def show_command(self, start: Start, trainings: Trainings, console: Console) -> None:
        """Print the command of a training, or the files that would be submitted for it."""
        arguments = self.arguments(start, trainings)
        if self.cluster is None:
            console.print(shlex.join(train_command(arguments, self.log_root)), soft_wrap=True)
        else:
            folder = new_folder(self.log_root, self.declaration.cohort_stem)
            show_files(*self.cluster, self._plan(start, arguments), console, folder)

    def start(self, start: Start, trainings: Trainings, console: Console, kept: Sequence[int]) -> None:
        """Start a training; on this machine, wait for its end.

        Args:
            start: The training.
            trainings: The trainings of the search.
            console: Where to print.
            kept: Descriptors that a training on this machine inherits.

        Raises:
            UserError: If the training or its submission is refused for another reason.
        """
        key = (cohort_of(self.declaration, start.trial), start.seed)
        before = trainings.submitted.get(key)
        if before is not None and before.submission.is_refused(before.index) and not trainings.runs.get(key):
            self._refused(start, f"see {before.submission.output(before.index)}", trainings, console)
            return
        arguments = self.arguments(start, trainings)
        if self.cluster is not None:
            folder = new_folder(self.log_root, self.declaration.cohort_stem)
            submission = hand_over(*self.cluster, self._plan(start, arguments), folder)
            console.print(f"submitted to {submission.site} as job {submission.job} ({folder})", soft_wrap=True)
            return
        assert start.cap_s is not None
        longest_s = max(_PATIENCE * start.cap_s, start.cap_s + _LEAST_PATIENCE_S)
        if train_here(train_command(arguments, self.log_root), longest_s, keeps=kept) == EXIT_USER_ERROR:
            self._refused(start, "see the message above", self.trainings(), console)

    def _refused(self, start: Start, where: str, trainings: Trainings, console: Console) -> None:
        """Leave a trial out because ``train.py`` refuses its values.

        Raises:
            UserError: If its values may not be the reason: it is the stock recipe, has been trained before, or is a
                member of a population, whose values are checked before it is started.
        """
        declaration = self.declaration
        cohort = cohort_of(declaration, start.trial)
        if start.trial == STOCK or not declaration.is_race or any(run[0] == cohort for run in trainings.runs):
            raise UserError(
                f"search {declaration.name}: {self.words(start)} was refused ({where}): correct the cause, and start "
                "again"
            )
        self.store().refuse(start.trial)
        said = f"trial {start.trial} is left out, because train.py refuses its values ({where})"
        console.print(said, soft_wrap=True)

    def _plan(self, start: Start, arguments: Sequence[str]) -> Plan:
        """Return the plan of one training."""
        assert self.cluster is not None
        what = name_of((cohort_of(self.declaration, start.trial), start.seed))
        planned = planned_training(self.cluster[1], what, arguments, nodes=1)
        return Plan(name=self.declaration.cohort_stem, trainings=(planned,))


def search_folder(declaration: SearchDeclaration, log_root: Path) -> Path:
    """Return the folder of the files of a search: its trials, and their recipes."""
    return log_root.resolve() / "searches" / declaration.cohort_stem


def recipe_text(values: Values, about: str) -> str:
    """Return the content of a trial's recipe file. The library is not part of it.

    Args:
        values: Values that the trial sets, with those of ``[stock]``.
        about: Description of the file.
    """
    lines = ["version = 1", f"about = {toml_value(about)}"]
    if NUM_ENVS in values:
        lines.append(f"{NUM_ENVS} = {toml_value(values[NUM_ENVS])}")
    if overrides := overrides_of(values):
        lines.append(f"overrides = {toml_value(overrides)}")
    if fields := {name: value for name, value in values.items() if name in FIELDS}:
        lines += ["", "[recipe]"]
        for name, value in fields.items():
            lines.append(f"{name} = {toml_value(list(value) if isinstance(value, tuple) else value)}")
    return "\n".join(lines) + "\n"


def recipe_arguments(declaration: SearchDeclaration, log_root: Path, trial: int, values: Values) -> list[str]:
    """Return the arguments of ``train.py`` that only the trainings of a trial have. This writes its recipe file.

    Args:
        declaration: The search.
        log_root: Root of the ledger.
        trial: Number of the trial.
        values: Its values.

    Raises:
        UserError: If the recipe file can't be written.
    """
    library = ["--rl_library", str(values[LIBRARY])] if LIBRARY in values else []
    recipe = declaration.recipe(values)
    if not recipe.keys() - {LIBRARY}:
        return library
    what = f"{trial_words(declaration, trial)} of search {declaration.name} ({declaration.digest[:8]})"
    path = search_folder(declaration, log_root) / f"t{trial:04d}.toml"
    return [*library, "--recipe", str(written(path, recipe_text(recipe, what)))]


def written(path: Path, text: str) -> Path:
    """Write a text into a file, unless it is there already, and return the path.

    Raises:
        UserError: If the file can't be written.
    """
    make_folder(path.parent)
    try:
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            with whole_file(path, shared=True) as unfinished:
                unfinished.write_text(text, encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise UserError(f"cannot write {path}: {error}") from error
    return path


def read_trials(declaration: SearchDeclaration, store: TrialStore, trainings: Trainings) -> list[Trial]:
    """Return the trials of a search, by number; the stock recipe first.

    Args:
        declaration: The search.
        store: Its trials.
        trainings: Its trainings.

    Raises:
        UserError: If runs were not trained to the same target on the same panel.
    """
    _require_one_panel(declaration, trainings)

    def with_runs(trial: Trial) -> Trial:
        seeds = seeds_of(declaration, trial.number)
        found = (_seed_run(declaration, trainings, trial.number, seed) for seed in seeds)
        return replace(trial, runs=tuple(run for run in found if run is not None))

    return [with_runs(trial) for trial in (Trial(number=STOCK, values={}), *store.stored())]


def _require_one_panel(declaration: SearchDeclaration, trainings: Trainings) -> None:
    """Refuse runs that were not scored alike: their times can't be compared."""
    first: dict[tuple[str, float], str] = {}
    for run in trainings.all_runs():
        first.setdefault((run.declared.panel_id, run.declared.target_success), run.run_id)
    if len(first) > 1:
        raise UserError(
            f"search {declaration.name}: runs {' and '.join(first.values())} have other panels or targets, so their "
            "times can't be compared: restore the panel, the task and the packages, and move away the runs that differ"
        )


def _seed_run(declaration: SearchDeclaration, trainings: Trainings, trial: int, seed: int) -> SeedRun | None:
    """Return how a training stands; ``None`` if it has not been started."""
    key = (cohort_of(declaration, trial), seed)
    runs, submitted = trainings.runs.get(key, []), trainings.submitted.get(key)
    if runs:
        run = _of_ledger(seed, runs, with_scores=not declaration.is_race)
        is_queued = trainings.is_queued(key) and not run.outcome.is_final
        return replace(run, outcome=Outcome.RUNNING) if is_queued else run
    return _of_cluster(seed, submitted) if submitted is not None and submitted.queued is not None else None


def _of_cluster(seed: int, submitted: Submitted) -> SeedRun:
    """Return how a training stands that waits on a cluster, and is not in the ledger yet."""
    planned = submitted.submission.trainings()[submitted.index]
    return SeedRun(
        seed=seed,
        outcome=Outcome.RUNNING,
        wall_s=0.0,
        usd=None,
        cap_s=TrainRequest.parse(planned.start).limit_s,
    )


def _of_ledger(seed: int, runs: Sequence[Run], *, with_scores: bool) -> SeedRun:
    """Return how a training stands. Runs before the last one were interrupted before they saved a state."""
    last, summaries = runs[-1], [summarize_run(run) for run in runs]
    attempts = [attempt for run in runs for attempt in run.attempts]
    saved = (number for number, attempt in enumerate(reversed(attempts)) if attempt.of(StateSaved))
    outcome = outcome_of(last.attempts[-1].status, next(saved, len(attempts)))
    if last.proven and outcome is not Outcome.RUNNING:
        outcome = Outcome.REACHED
    limit_s: object = (last.declared.request or {}).get("limit_s")
    earlier_s = sum(each.wall_s for each in summaries[:-1])
    cap_s = float(limit_s) + earlier_s if isinstance(limit_s, int | float) else None  # a ledger may hold anything
    wall_s = sum(each.wall_s for each in summaries)
    if outcome is Outcome.INTERRUPTED and cap_s is not None and wall_s >= cap_s:
        outcome = Outcome.CAPPED  # it had used up its time when it was interrupted
    usd = [each.declared_usd for each in summaries]
    success = last_success(last) if with_scores and outcome.is_final else None
    return SeedRun(
        seed=seed,
        outcome=outcome,
        wall_s=wall_s,
        usd=None if None in usd else sum(each for each in usd if each is not None),
        cap_s=cap_s,
        success=success,
        mean_return=last_return(last) if success == 0 else None,
    )


def last_success(run: Run) -> float | None:
    """Return the success rate of the last policy of a run on its panel.

    Args:
        run: The run.

    Returns:
        The rate; ``None`` if the policy has no valid score, or no other run can begin with it, because the error budget
        that the run has left is too small to prove its target.
    """
    saved, last = run.checkpoints, None
    for row in run.results:
        if row.purpose == "check" and saved and row.checkpoint_sha256 == saved[-1].sha256:
            last = None if row.invalid is not None else row
    if last is None:
        return None
    rule = VerdictRule(run.declared.target_success, left_budget(run).budget)
    return last.outcomes.successes / last.outcomes.episodes if rule.is_decidable(last.outcomes.episodes) else None


def last_return(run: Run) -> float | None:
    """Return the mean return of the training episodes at the end of a run; ``None`` if unknown.

    Args:
        run: The run.
    """
    figures = (window.figures.get("mean_return") for _, window in reversed(run.windows))
    return next((each for each in figures if each is not None), None)
