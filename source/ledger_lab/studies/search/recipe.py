"""The values of a trial as a recipe file for ``train.py --recipe``."""

from __future__ import annotations

from pathlib import Path

from ledger_lab.documents import toml_value
from ledger_lab.errors import UserError
from ledger_lab.files import make_folder, whole_file
from ledger_lab.studies.search.declaration import SearchDeclaration
from ledger_lab.studies.search.space import LIBRARY, NUM_ENVS, Values, overrides_of
from ledger_lab.studies.search.trials import trial_words
from ledger_lab.tasks.recipes.recipe_file import FIELDS


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
