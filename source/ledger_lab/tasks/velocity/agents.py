"""Agent configurations of the velocity tasks, each translated from one recipe.

The configurations with symmetry also learn from the mirror images of every sample, for all mirrors that map the robot
onto itself. Isaac Lab's own images of ANYmal are used on flat ground; they do not support our height scan.
"""

from functools import partial

from isaaclab_tasks.core.velocity.mdp.symmetry import anymal

from ledger_lab.recipes.to_rsl_rl import native_config
from ledger_lab.recipes.velocity import velocity
from ledger_lab.tasks.translations import translations
from ledger_lab.tasks.velocity import symmetry

rsl_rl_flat_anymal_c, rl_games_flat_anymal_c, skrl_flat_anymal_c = translations(velocity("flat_anymal_c"))
rsl_rl_rough_anymal_c, rl_games_rough_anymal_c, skrl_rough_anymal_c = translations(velocity("rough_anymal_c"))
rsl_rl_flat_go2, rl_games_flat_go2, skrl_flat_go2 = translations(velocity("flat_go2"))

rsl_rl_flat_anymal_c_with_symmetry = partial(native_config, velocity("flat_anymal_c"), anymal.compute_symmetric_states)
rsl_rl_rough_anymal_c_with_symmetry = partial(native_config, velocity("rough_anymal_c"), symmetry.anymal_c)
rsl_rl_flat_go2_with_symmetry = partial(native_config, velocity("flat_go2"), symmetry.go2)
