"""The agent configuration of ``LedgerLab-Humanoid`` that also learns from the mirror image of every sample."""

from functools import partial

from ledger_lab.tasks.humanoid.symmetry import humanoid
from ledger_lab.tasks.recipes.humanoid import HUMANOID
from ledger_lab.tasks.recipes.libraries import dialect_of

rsl_rl_cfg_with_symmetry = partial(dialect_of("rsl_rl").config, HUMANOID, symmetry=humanoid)
