"""The agent configuration of ``LedgerLab-Humanoid`` that also learns from the mirror image of every sample."""

from functools import partial

from ledger_lab.recipes.humanoid import HUMANOID
from ledger_lab.recipes.libraries import dialect_of
from ledger_lab.tasks.humanoid.symmetry import humanoid

rsl_rl_cfg_with_symmetry = partial(dialect_of("rsl_rl").config, HUMANOID, symmetry=humanoid)
