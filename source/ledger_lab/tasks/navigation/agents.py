"""The agent configuration of the navigating robot that also learns from the mirror image of every sample."""

from functools import partial

from ledger_lab.recipes.libraries import dialect_of
from ledger_lab.recipes.navigation import NAVIGATION
from ledger_lab.tasks.navigation.symmetry import navigation

rsl_rl_cfg_with_symmetry = partial(dialect_of("rsl_rl").config, NAVIGATION, symmetry=navigation)
