"""The batch arithmetic of a recipe in a library, from the dialect alone: the library need not be installed."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ledger_lab.errors import UserError
from ledger_lab.ledger.libraries import dialect_of
from ledger_lab.tasks.recipes import PpoRecipe
from ledger_lab.tasks.recipes.rules import count
from ledger_lab.tasks.recipes.settings import read_setting, write_setting
from ledger_lab.training.runners.adapter import BatchPlan


def recipe_batch(library: str, recipe: PpoRecipe, overrides: Sequence[str] = ()) -> BatchPlan | None:
    """Return what :meth:`Adapter.plan` returns for a recipe.

    Args:
        library: Name on the command line.
        recipe: The recipe.
        overrides: Overrides of the command line.

    Returns:
        The batch arithmetic; ``None`` if the overrides change it in a way that only the library understands.
    """
    dialect = dialect_of(library)
    setting = dialect.settings["minibatches"]
    known = {dialect.overrides["horizon"], setting.override}
    try:
        cfg = dialect.translate(recipe)
    except UserError:  # it trains with other values of the recipe
        return None
    for override in overrides:
        key, _, value = override.partition("=")
        if key in known:
            try:
                write_setting(cfg, key, ast.literal_eval(value))
            except (ValueError, SyntaxError):
                return None
        elif key == "presets" or "batch" in key:
            return None
    horizon, held = (read_setting(cfg, dialect.overrides[name]) for name in ("horizon", "minibatches"))
    if count(horizon) or count(held):
        return None
    # Without a translation of its own, the setting holds the number of minibatches; else the steps of an environment.
    rows_per_env = setting.write is not None
    if rows_per_env and (setting.write is None or setting.write(recipe) != recipe.horizon // recipe.minibatches):
        return None
    if rows_per_env and horizon % held:
        return None
    return BatchPlan(
        max_iterations=recipe.max_iterations,
        horizon=horizon,
        epochs=recipe.epochs,
        minibatches=horizon // held if rows_per_env else held,
        minibatch_setting=setting.override,
        save_interval=recipe.save_interval,
        rows_per_env=rows_per_env,
    )
