"""Agent configurations of the navigating robot, translated from its recipe.

The configuration with symmetry also learns from the mirror image of every sample.
"""

from functools import partial

from ledger_lab.recipes.navigation import NAVIGATION
from ledger_lab.recipes.to_rsl_rl import native_config
from ledger_lab.tasks.navigation.symmetry import navigation
from ledger_lab.tasks.translations import translations

rsl_rl_cfg, rl_games_cfg, skrl_cfg = translations(NAVIGATION)
rsl_rl_cfg_with_symmetry = partial(native_config, NAVIGATION, navigation)
