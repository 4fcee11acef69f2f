"""``scripts/search.py``: trains recipes in a race, and tells which one reaches the target in the least time or cost."""

from __future__ import annotations

import datetime
import fcntl
import os
import shlex
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, replace
from pathlib import Path

from rich.console import Console

from ledger_lab.commands.batches import batches_of
from ledger_lab.commands.search_on import SearchJobs
from ledger_lab.commands.search_runs import SearchRuns, SearchTraining, scored_trainings, search_folder
from ledger_lab.commands.study_requests import library_of
from ledger_lab.commands.train_here import train_command, train_here
from ledger_lab.costs import Price, load_price_book, resolve_price
from ledger_lab.costs.model import billed_instances
from ledger_lab.errors import UserError, nearest
from ledger_lab.files import make_folder
from ledger_lab.launch import requested_processes
from ledger_lab.ledger.endings import Terminated
from ledger_lab.ledger.find import tell_damage
from ledger_lab.ledger.redaction import Redactor
from ledger_lab.paths import config_root
from ledger_lab.recipes import dialect_of
from ledger_lab.recipes.libraries import PPO, algorithm_of, require_library
from ledger_lab.recipes.recipe_file import check_recipe
from ledger_lab.reports.figures import save_drawings
from ledger_lab.reports.figures.searches import draw_search
from ledger_lab.reports.page.search import write_search_page
from ledger_lab.reports.search_view import (
    end_lines,
    importance_table,
    prediction_lines,
    search_json,
    search_lines,
    trial_notes,
    trials_table,
    values_words,
)
from ledger_lab.search.charges import Charges
from ledger_lab.search.declaration import SearchDeclaration, load_search
from ledger_lab.search.ending import decide_next
from ledger_lab.search.proposals import propose
from ledger_lab.search.race import Decision, End, Start
from ledger_lab.search.result import SearchResult, summarize_search
from ledger_lab.search.space import LIBRARY, Values
from ledger_lab.search.trial_recipe import recipe_text
from ledger_lab.search.trials import STOCK, Outcome, Place
from ledger_lab.terminal.console import EXIT_USER_ERROR, make_console, write_json
from ledger_lab.terminal.exit_status import EXIT_REQUEUE
from ledger_lab.terminal.flags import Program
from ledger_lab.terminal.request import FlagGroup, Request, flag, log_root_flag
from ledger_lab.training.minibatches import cannot_split
from ledger_lab.training.recipe import with_recipe
from ledger_lab.training.request import TrainRequest
from ledger_lab.units import duration

_ELSEWHERE = FlagGroup("other machines")
_LOOK_EVERY_S = 10.0
_PATIENCE, _LEAST_PATIENCE_S = 1.5, 120.0
"""A training on this machine that runs much longer than its cap must hang: it is asked to end after this multiple of
the cap, but not earlier than so many seconds after it [s]."""
_WINNER = "winner.toml"


@dataclass(frozen=True, kw_only=True)
class SearchRequest(Request):
    """What a user asks of ``scripts/search.py``: each field is an argument or a flag of the same name."""

    program = Program(
        name="search.py",
        usage=(
            "search.py [-h] [--log_root LOG_ROOT] [--dry_run] SEARCH\n"
            "       search.py [--on CLUSTER] [--at_once N] [--dry_run] SEARCH\n"
            "       search.py [--on CLUSTER] (--status | --cancel) [--all]\n"
            "                 [--json FILE | --html FILE | --figures DIR] SEARCH"
        ),
        description=(
            "Search the recipe that reaches the target in the least time or cost. A search file lists hyperparameters "
            "with their ranges, the budget, and the training seeds. First, the stock recipe is trained on all search "
            "seeds. Then other recipes, the trials, race against the best one so far: a trial is ended as soon as it "
            "can't win any more. When the budget is used up, the three best trials and the stock recipe are trained on "
            "sealed seeds, which no training of the race has used, and compared. The best trial is written as a recipe "
            "file for train.py --recipe if it is proven to be better. The search is computed from the ledger: if you "
            "start the program again, it goes on where it stopped, and the same ledger gives the same trials. If a "
            f"signal ends the program, the exit status is {EXIT_REQUEUE}."
        ),
        terms=("trial", "sealed seeds", "target", "run", "cohort", "ledger"),
        examples=(
            "search.py ant_recipe --dry_run",
            "search.py ant_recipe",
            "search.py ant_recipe --on slurm --at_once 4",
            "search.py ant_recipe --status",
        ),
    )

    search: str = flag(
        MISSING, "Search file: a name from config/searches, or your own .toml file.", metavar="SEARCH", positional=True
    )
    log_root: Path = log_root_flag()
    dry_run: bool = flag(False, "Only print the command of the next training.")
    status: bool = flag(False, "Only show the trials, what they have cost, and which one is the best.")
    all: bool = flag(False, "Show all trials in the table, not only the best ones.")
    json: str | None = flag(
        None, "With --status: write all results to a JSON file; - means standard output.", metavar="FILE"
    )
    html: Path | None = flag(None, "With --status: write the search, with figures, as an HTML page.", metavar="FILE")
    figures: Path | None = flag(
        None, "With --status: write the figures of the search into a folder, as SVG and PNG files.", metavar="DIR"
    )
    on: str | None = flag(
        None,
        "Submit the trainings to a cluster. CLUSTER is the name of a file in config/clusters, or your own .toml file. "
        "The file sets the root folder of the ledger. The program runs until the search ends; if it is ended earlier, "
        "the submitted trainings go on.",
        group=_ELSEWHERE,
        metavar="CLUSTER",
    )
    at_once: int = flag(
        1,
        "Largest number of trainings that run at the same time on the cluster (default: 1).",
        group=_ELSEWHERE,
        metavar="N",
    )
    cancel: bool = flag(False, "End all trainings of the search that wait or run.", group=_ELSEWHERE)

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UserError: If a flag has an impossible value, or needs another flag.
        """
        self.require_at_most_one("dry_run", "status", "cancel")
        if self.at_once < 1:
            raise UserError(f"--at_once {self.at_once}: must be at least 1")
        if self.on is None and (self.at_once > 1 or self.cancel):
            raise UserError(f"--{'cancel' if self.cancel else 'at_once'} needs --on CLUSTER")
        for name in ("json", "html", "figures"):
            if getattr(self, name) is not None and not self.status:
                raise UserError(f"--{name} {getattr(self, name)}: add --status")
        self.require_at_most_one("json", "html", "figures")
        if self.on is not None and self.log_root != Path("logs"):
            raise UserError(f"--log_root {self.log_root}: the cluster file sets it: leave it out")


def run_search(argv: Sequence[str]) -> int:
    """Run a search to its end, or show it.

    Args:
        argv: Command line without the program's name.

    Returns:
        0 if the search has ended, or nothing was to be started; 75 if the system asked it to end.

    Raises:
        UserError: If there is no such search, or a training refuses its arguments.
    """
    request = SearchRequest.parse(argv)
    declaration = load_search(_find(request.search))
    console = make_console()
    jobs = None if request.on is None else SearchJobs(declaration, request.on)
    search = _Search(declaration, request.log_root if jobs is None else jobs.log_root, jobs)
    if request.cancel:
        with _alone(declaration, search.log_root):  # a program that goes on would submit them again
            ended = [] if jobs is None else jobs.cancel()
        console.print(f"cancelled job {', '.join(ended)}" if ended else "nothing to cancel: no training is queued")
        return 0
    if request.status:
        _show(search, request, console)
        return 0
    search.require_possible()
    if request.dry_run:
        _print_next(search, console)
        return 0
    with _alone(declaration, search.log_root):
        try:
            end = _carry_out(search, request.at_once, console)
        except (Terminated, KeyboardInterrupt):
            console.print("run the command again to continue the search")
            return EXIT_REQUEUE
    console.print("", f"the search has ended: {end.reason}", "", sep="\n", soft_wrap=True)
    _show(search, request, console)
    return 0


def _find(name: str) -> Path:
    """Return the path of a search file.

    Raises:
        UserError: If there is no such file.
    """
    folder = config_root() / "searches"
    path = Path(os.path.expanduser(name)) if name.endswith(".toml") else folder / f"{name}.toml"
    if not path.is_file():
        known = sorted(each.stem for each in folder.glob("*.toml"))
        raise UserError(f"no search {name!r}: name a .toml file, or a file in config/searches: {nearest(name, known)}")
    return path


class _Search:
    """A search with its ledger, and the cluster that trains for it."""

    def __init__(self, declaration: SearchDeclaration, log_root: Path, jobs: SearchJobs | None) -> None:
        """Find the price of its trainings.

        Args:
            declaration: The search.
            log_root: Root of the ledger.
            jobs: Its submissions; ``None`` to train on this machine.

        Raises:
            UserError: If ``train.py`` would refuse the arguments, or the price is unknown.
        """
        self.declaration, self.log_root, self.jobs = declaration, log_root, jobs
        arguments = [*declaration.arguments, "--task", declaration.task]
        if declaration.panel is not None:
            arguments += ["--panel", declaration.panel]
        self._processes, own = requested_processes(arguments)
        self._request = TrainRequest.parse(own)
        self.usd_per_s = self._price(self._processes)
        self._told: set[str] = set()
        """Damage of the ledger that was printed: the search reads the ledger often."""

    def _price(self, processes: int | None) -> float | None:
        """Return the price of a second of training [USD/s]; ``None`` if neither budget nor objective needs it."""
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
        devices = max(1, gpus or (processes or 1 if (request.device or "cpu").startswith("cuda") else 1))
        return billed_instances(devices, 1, price) * price.usd_per_hour / 3600.0

    def require_possible(self) -> None:
        """Refuse a search whose stock recipe or first trial can't be trained, before the stock recipe costs anything.

        Raises:
            UserError: If one of them can't, or Optuna is not installed.
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
        propose(declaration, (), Charges.of(declaration, (), self.usd_per_s), STOCK + 1, self.refuses)

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

    def look(self) -> tuple[SearchRuns, dict[SearchTraining, str]]:
        """Read the ledger, and ask the cluster for the trainings that it does not show.

        Returns:
            The trainings; and where the output of those is that were submitted, ended, and left no run.
        """
        runs = SearchRuns(self.declaration, self.log_root)
        tell_damage(each for each in runs.damage if str(each) not in self._told)
        self._told |= {str(each) for each in runs.damage}
        if self.jobs is None:
            return runs, {}
        waiting, gone = self.jobs.ask(_ended(runs))
        runs = SearchRuns(self.declaration, self.log_root, waiting)  # some may have ended before they were asked for
        return runs, {training: output for training, output in gone.items() if training not in runs.runs}

    def next(self, runs: SearchRuns) -> Decision:
        """Decide what comes next."""
        return decide_next(self.declaration, runs.trials, usd_per_s=self.usd_per_s, refuses=self.refuses)

    def result(self, runs: SearchRuns) -> SearchResult:
        """Return what was found so far."""
        return summarize_search(self.declaration, runs.trials, self.usd_per_s)


def _ended(runs: SearchRuns) -> set[SearchTraining]:
    """Return the trainings that the ledger shows to have ended."""
    return {
        SearchTraining(Place(trial.number, run.repeat, run.sealed), run.seed)
        for trial in runs.trials
        for run in trial.runs
        if run.outcome.is_final
    }


def _carry_out(search: _Search, at_once: int, console: Console) -> End:
    """Start trainings until the search has ended."""
    told = ""
    while True:
        runs, gone = search.look()
        if gone:
            training, output = next(iter(gone.items()))
            raise UserError(
                f"search {search.declaration.name}: trial {training.place.trial} seed {training.seed} ended before it "
                f"declared a run: see {output}; correct that, remove the folder of this submission, and start again"
            )
        decision = search.next(runs)
        if isinstance(decision, End):
            return decision
        busy = [run for trial in runs.trials for run in trial.runs if run.outcome is Outcome.RUNNING]
        if isinstance(decision, Start) and len(busy) < at_once:
            told = ""
            _start(search, runs, decision, console)
            continue
        reason = f"{len(busy)} trainings wait or run" if isinstance(decision, Start) else decision.reason
        if reason != told:
            console.print(f"waiting: {reason}", soft_wrap=True)
        told = reason
        time.sleep(_LOOK_EVERY_S)


def _start(search: _Search, runs: SearchRuns, start: Start, console: Console) -> None:
    """Start a training; on this machine, wait for its end.

    Raises:
        UserError: If the training or its submission is refused.
    """
    runs.require_whole()
    arguments = runs.arguments(start)
    console.print("", *_start_lines(search, runs, start), sep="\n", soft_wrap=True)
    training = SearchTraining(start.place, start.seed)
    if search.jobs is not None:
        submission = search.jobs.submit(training, arguments)
        console.print(f"submitted to {submission.site} as job {submission.job} ({submission.folder})", soft_wrap=True)
        return
    longest_s = None if start.cap_s is None else max(_PATIENCE * start.cap_s, start.cap_s + _LEAST_PATIENCE_S)
    status = train_here(train_command(arguments, search.log_root), longest_s)
    if status == EXIT_USER_ERROR or training not in search.look()[0].runs:
        raise UserError(
            f"search {search.declaration.name}: the training of trial {start.place.trial} was refused (see the message "
            "above): correct that, and start again"
        )


def _start_lines(search: _Search, runs: SearchRuns, start: Start) -> list[str]:
    """Say which training is started, and what the search has spent."""
    what = "stock recipe" if start.place.trial == 0 else f"trial {start.place.trial}"
    what += " on sealed" if start.place.sealed else " again on" if start.place.repeat else " on"
    cap = "" if start.cap_s is None else f", at most {duration(start.cap_s)}"
    values = f": {values_words(start.values)}" if start.values else ""
    spent = search_lines(search.result(runs))[1]
    return [spent, f"{'resuming ' if start.resumes else ''}{what} seed {start.seed}{cap}{values}"]


def _print_next(search: _Search, console: Console) -> None:
    """Print the command of the next training."""
    runs, _ = search.look()
    decision = search.next(runs)
    if isinstance(decision, Start):
        runs.require_whole()
        command = train_command(runs.arguments(decision), search.log_root)
        console.print(shlex.join(command), soft_wrap=True)
    else:
        console.print(f"nothing to start: {decision.reason}", soft_wrap=True)


def _show(search: _Search, request: SearchRequest, console: Console) -> None:
    """Show the trials, or write them as JSON; and write the recipe of the winner."""
    runs, _ = search.look()
    result = search.result(runs)
    if request.json is not None:
        write_json(request.json, search_json(result))
        return
    if request.html is not None:
        write_search_page(request.html, result, str(search.log_root))
        console.print(f"wrote {request.html}", soft_wrap=True)
        return
    if request.figures is not None:
        console.print(*(f"wrote {path}" for path in save_drawings(request.figures, draw_search(result))), sep="\n")
        return
    console.print(*search_lines(result), sep="\n", soft_wrap=True)
    if not result.trials:
        return
    console.print(trials_table(result, every=request.all))
    console.print(*trial_notes(result, every=request.all), sep="\n", soft_wrap=True)
    if result.importances:
        console.print("", importance_table(result), sep="\n")
    if lines := prediction_lines(result, scored_trainings(runs)):
        console.print("", *lines, sep="\n", soft_wrap=True)
    if lines := end_lines(result):
        console.print("", *lines, sep="\n", soft_wrap=True)
    if result.winner is not None:
        values = result.trial(result.winner.trial).values
        path = runs.recipe_file(result.winner.trial, values, _WINNER)
        library = f" --rl_library {values[LIBRARY]}" if LIBRARY in values else ""
        console.print(
            f"its recipe: ./isaaclab.sh -p scripts/train.py --task {search.declaration.task}{library} --recipe "
            f"{shlex.quote(str(path))}",
            soft_wrap=True,
        )


@contextmanager
def _alone(declaration: SearchDeclaration, log_root: Path) -> Iterator[None]:
    """Keep other programs from deciding about the same search at the same time.

    Raises:
        UserError: If another program does, or the folder can't be written to.
    """
    folder = search_folder(declaration, log_root)
    make_folder(folder)
    try:
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise UserError(f"cannot write to {folder}: {error.strerror}: correct --log_root") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(
                f"search {declaration.name}: another search.py works on it: wait for it, or end it first"
            ) from error
        except OSError as error:
            raise UserError(
                f"cannot lock {folder / 'lock'}: {error.strerror}: use a log root on a file system with locks"
            ) from error
        yield
    finally:
        os.close(descriptor)
