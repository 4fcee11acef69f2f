"""The agents' configurations of the velocity tasks, translated from one recipe each."""

from functools import partial

from isaaclab_tasks.core.velocity.mdp.symmetry import anymal

from ledger_lab.recipes.velocity import velocity
from ledger_lab.runners.rsl_rl_adapter import native_config
from ledger_lab.tasks.translations import translations

rsl_rl_flat_anymal_c, rl_games_flat_anymal_c, skrl_flat_anymal_c = translations(velocity("flat_anymal_c"))
rsl_rl_rough_anymal_c, rl_games_rough_anymal_c, skrl_rough_anymal_c = translations(velocity("rough_anymal_c"))
rsl_rl_flat_go2, rl_games_flat_go2, skrl_flat_go2 = translations(velocity("flat_go2"))

rsl_rl_flat_anymal_c_with_symmetry = partial(native_config, velocity("flat_anymal_c"), anymal.compute_symmetric_states)
"""Learns from every sample four times: as it is, and mirrored in both axes."""
