"""Four-legged robots that follow velocity commands on flat and on rough ground."""

from ledger_lab.tasks.registration import SYMMETRIC_AGENT, Task, register
from ledger_lab.tasks.velocity.recipe import velocity

register(
    "LedgerLab-Velocity-Flat-AnymalC",
    Task(
        env_cfg=f"{__name__}.env_cfg:flat_anymal_c",
        recipe=velocity("flat_anymal_c"),
        panel="velocity_flat_anymal_c_v1",
        # Isaac Lab's own images, which do not support our height scan.
        symmetry="isaaclab_tasks.core.velocity.mdp.symmetry.anymal:compute_symmetric_states",
        reached_on_gpu=(("rsl_rl", SYMMETRIC_AGENT),),
    ),
)
register(
    "LedgerLab-Velocity-Rough-AnymalC",
    Task(
        env_cfg=f"{__name__}.env_cfg:rough_anymal_c",
        recipe=velocity("rough_anymal_c"),
        panel="velocity_rough_anymal_c_v1",
        symmetry=f"{__name__}.symmetry:anymal_c",
    ),
)
register(
    "LedgerLab-Velocity-Flat-Go2",
    Task(
        env_cfg=f"{__name__}.env_cfg:flat_go2",
        recipe=velocity("flat_go2"),
        panel="velocity_flat_go2_v1",
        symmetry=f"{__name__}.symmetry:go2",
    ),
)
