"""The adapter of the made-up library."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ledger_lab.tasks.recipes.settings import one_of
from ledger_lab.training.runners.adapter import Adapter, BatchPlan
from tests.fakes.made_up_library.dialect import DIALECT

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

    from ledger_lab.training.runners.checkpoint_file import ActingModule


class MadeUpAdapter(Adapter):
    """A library that can be planned for."""

    dialect = DIALECT
    circumstances = ("dice", "device", "folder", "updates", "save_every")

    def _adapt(self, agent_cfg: dict[str, Any], device: str) -> dict[str, Any]:
        return agent_cfg | {"device": device}

    def refuse_activation(self, value: Any) -> str | None:
        return one_of("elu", "tanh")(value)

    def plan(self, agent_cfg: dict[str, Any]) -> BatchPlan:
        return BatchPlan(
            max_iterations=agent_cfg["updates"],
            horizon=agent_cfg["rollout"]["steps"],
            epochs=agent_cfg["learner"]["passes"],
            minibatches=agent_cfg["learner"]["parts"],
            minibatch_setting="agent.learner.parts",
            save_interval=agent_cfg["save_every"],
        )

    def load_policy(self, checkpoint: Path, env: ManagerBasedRLEnv, agent_cfg: dict[str, Any]) -> ActingModule:
        raise NotImplementedError


ADAPTER = MadeUpAdapter()
