"""Four-legged robots that follow velocity commands on flat and on rough ground."""

from ledger_lab.tasks.registration import Task, register
from ledger_lab.tasks.velocity.recipe import velocity

register(
    "LedgerLab-Velocity-Flat-AnymalC",
    Task(
        env_cfg=f"{__name__}.env_cfg:flat_anymal_c",
        recipe=velocity("flat_anymal_c"),
        panel="velocity_flat_anymal_c_v1",
        symmetry=f"{__name__}.symmetry:anymal_c",
        reached_on_gpu=("rsl_rl",),
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
