"""Registers every task of the pack with Gymnasium, when this module is imported.

Isaac Lab loads it through the entry point group ``isaaclab.tasks``, so its own commands know these tasks too.
"""

import gymnasium as gym

from ledger_lab.tasks.pack import TASKS
from ledger_lab.tasks.registration import SYMMETRIC_AGENT
from ledger_lab.tasks.translations import agent_entry_point, agent_entry_points
from ledger_lab.wings import wing_part

NUM_ENVS_ON_GPU = 4096
"""Environments on a GPU: the most frequent number in the configurations of ``isaaclab_tasks`` (Isaac Lab 3.0)."""

_off_policy = wing_part("off-policy recipes")

for _id, _task in TASKS.items():
    _others = () if _off_policy is None else _off_policy(_id)
    _mirrored = (
        {} if _task.symmetry is None else {SYMMETRIC_AGENT: agent_entry_point("rsl_rl", _task.recipe, _task.symmetry)}
    )
    gym.register(
        id=_id,
        entry_point="isaaclab.envs:ManagerBasedRLEnv",
        disable_env_checker=True,
        kwargs={
            "env_cfg_entry_point": _task.env_cfg,
            **agent_entry_points(_task.recipe, *_others),
            **_mirrored,
            "default_agent": "rsl_rl",
            "default_panel": _task.panel,
            "num_envs_on_gpu": NUM_ENVS_ON_GPU,
        },
    )
