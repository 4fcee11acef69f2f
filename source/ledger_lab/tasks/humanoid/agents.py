"""Agent configurations of ``LedgerLab-Humanoid``, translated from its recipe.

The configuration with symmetry also learns from the mirror image of every sample.
"""

from functools import partial

from ledger_lab.recipes.humanoid import HUMANOID
from ledger_lab.recipes.to_rsl_rl import native_config
from ledger_lab.tasks.humanoid.symmetry import humanoid
from ledger_lab.tasks.translations import translations

rsl_rl_cfg, rl_games_cfg, skrl_cfg = translations(HUMANOID)
rsl_rl_cfg_with_symmetry = partial(native_config, HUMANOID, humanoid)
