"""The agent configuration of the navigating robot that also learns from the mirror image of every sample."""

from functools import partial

from ledger_lab.tasks.navigation.symmetry import navigation
from ledger_lab.tasks.recipes.libraries import dialect_of
from ledger_lab.tasks.recipes.navigation import NAVIGATION

rsl_rl_cfg_with_symmetry = partial(dialect_of("rsl_rl").config, NAVIGATION, symmetry=navigation)
