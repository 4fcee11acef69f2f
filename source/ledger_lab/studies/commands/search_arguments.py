"""How the trainings of a search are started or resumed: their arguments, and the files that they name."""

from __future__ import annotations

from pathlib import Path

from ledger_lab.errors import UserError
from ledger_lab.files import make_folder, whole_file
from ledger_lab.reports import summarize_run
from ledger_lab.studies.commands.search_runs import SearchRuns
from ledger_lab.studies.commands.study_runs import has_state, repeated_flags
from ledger_lab.studies.reports.search_words import trial_words
from ledger_lab.studies.search.chains import Chain, Link
from ledger_lab.studies.search.decisions import Start
from ledger_lab.studies.search.declaration import SearchDeclaration
from ledger_lab.studies.search.space import LIBRARY, Values
from ledger_lab.studies.search.trial_recipe import recipe_text, schedule_text
from ledger_lab.studies.search.trials import SearchTraining, cohort_of, short_name

_FOLDER = "searches"
"""Folder of the recipe files of all searches, below the root of the ledger."""


def search_folder(declaration: SearchDeclaration, log_root: Path) -> Path:
    """Return the folder of the recipe files of a search.

    Args:
        declaration: The search.
        log_root: Root of the ledger.
    """
    return log_root.resolve() / _FOLDER / declaration.cohort_stem


def start_arguments(runs: SearchRuns, start: Start) -> list[str]:
    """Return the arguments of ``train.py`` that start or resume a training, and write its recipe file.

    Args:
        runs: The trainings of the search.
        start: The training.

    Raises:
        UserError: If the recipe file can't be written, or the run is missing whose policy it begins with.
    """
    declaration = runs.declaration
    earlier = runs.runs.get(SearchTraining(start.place, start.seed), [])
    if start.resumes and earlier and has_state(earlier[-1]):
        return ["--resume", earlier[-1].run_id, *repeated_flags(declaration.arguments)]
    arguments = trial_arguments(declaration, runs.log_root, start.place.trial, start.values)
    if start.iterations is not None:
        arguments += ["--max_iterations", str(start.iterations)]
    if start.begins_with is not None:
        arguments += ["--checkpoint", runs.ended_run(start.begins_with).run_id]
    if start.cap_s is not None:
        left_s = start.cap_s - sum(summarize_run(run).wall_s for run in earlier)
        arguments += ["--limit_s", f"{max(left_s, 1.0):.3f}"]
    return [*arguments, "--seed", str(start.seed), "--cohort", cohort_of(declaration, start.place)]


def trial_arguments(declaration: SearchDeclaration, log_root: Path, trial: int, values: Values) -> list[str]:
    """Return the arguments of ``train.py`` that all trainings of a trial have. This writes its recipe file.

    Args:
        declaration: The search.
        log_root: Root of the ledger.
        trial: Number of the trial.
        values: Its values.

    Raises:
        UserError: If the recipe file can't be written.
    """
    arguments = [*declaration.common_arguments]
    if LIBRARY in values:
        arguments += ["--rl_library", str(values[LIBRARY])]
    if recipe := declaration.recipe(values):
        what = f"{trial_words(declaration, trial)} of search {declaration.name} ({declaration.digest[:8]})"
        path = search_folder(declaration, log_root) / f"{short_name(declaration, trial)}.toml"
        arguments += ["--recipe", str(_written(path, recipe_text(recipe, what)))]
    return arguments


def chain_arguments(declaration: SearchDeclaration, log_root: Path, chain: Chain) -> list[list[str]]:
    """Return the arguments of ``train.py`` for the trainings of a chain, without ``--checkpoint``, seed and cohort.

    This writes their recipe files.

    Args:
        declaration: The search.
        log_root: Root of the ledger.
        chain: The trainings.

    Raises:
        UserError: If a recipe file can't be written.
    """

    def arguments(link: Link) -> list[str]:
        limited = [] if link.iterations is None else ["--max_iterations", str(link.iterations)]
        return [*trial_arguments(declaration, log_root, link.trial, link.values), *limited]

    return [arguments(link) for link in chain]


def write_schedule(declaration: SearchDeclaration, log_root: Path, chain: Chain) -> Path:
    """Write the schedule of a finalist of a population into one file, and return its path.

    Args:
        declaration: The search.
        log_root: Root of the ledger.
        chain: The trainings of the schedule.

    Raises:
        UserError: If the file can't be written.
    """
    last = chain[-1].trial
    what = f"schedule of {trial_words(declaration, last)} of search {declaration.name} ({declaration.digest[:8]})"
    path = search_folder(declaration, log_root) / f"{short_name(declaration, last)}-schedule.toml"
    return _written(path, schedule_text(declaration, chain, what))


def _written(path: Path, text: str) -> Path:
    """Write a text into a file, unless it is there already, and return the path."""
    make_folder(path.parent)
    try:
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            with whole_file(path, shared=True) as unfinished:
                unfinished.write_text(text, encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise UserError(f"cannot write {path}: {error}") from error
    return path
