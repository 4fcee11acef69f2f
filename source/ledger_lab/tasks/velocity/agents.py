"""Agent configurations of the velocity tasks that also learn from the mirror images of every sample.

All mirrors that map the robot onto itself are used. On flat ground, Isaac Lab's own images of ANYmal are used; they do
not support our height scan.
"""

from functools import partial

from isaaclab_tasks.core.velocity.mdp.symmetry import anymal

from ledger_lab.tasks.recipes.libraries import dialect_of
from ledger_lab.tasks.recipes.velocity import velocity
from ledger_lab.tasks.velocity import symmetry

_config = dialect_of("rsl_rl").config
rsl_rl_flat_anymal_c_with_symmetry = partial(
    _config, velocity("flat_anymal_c"), symmetry=anymal.compute_symmetric_states
)
rsl_rl_rough_anymal_c_with_symmetry = partial(_config, velocity("rough_anymal_c"), symmetry=symmetry.anymal_c)
rsl_rl_flat_go2_with_symmetry = partial(_config, velocity("flat_go2"), symmetry=symmetry.go2)
