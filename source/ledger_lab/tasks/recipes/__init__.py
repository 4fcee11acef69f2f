"""Library-neutral recipes, and how each library expresses them. The recipe of a task is in the task's folder."""

from ledger_lab.tasks.recipes.dialect import Dialect, Only, Recipe, Setting
from ledger_lab.tasks.recipes.ppo import PpoRecipe

__all__ = ["Dialect", "Only", "PpoRecipe", "Recipe", "Setting"]
