"""Actions that a frozen walking policy carries out."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import MISSING
from typing import TYPE_CHECKING

import torch
from isaaclab.managers import ActionTerm, ActionTermCfg, ObservationGroupCfg, ObservationManager
from isaaclab.utils import configclass, instantiate

from ledger_lab.panels.slots import first_held_out, with_training_at_once
from ledger_lab.panels.transfers import zero_rows
from ledger_lab.tasks.navigation.frozen import WALKING_POLICY, load_walking_policy

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedEnv


class WalkingPolicyAction(ActionTerm):
    """Velocity commands that a frozen policy turns into joint actions at its own rate.

    It is like Isaac Lab's ``PreTrainedPolicyAction``, but an environment does not depend on the others. The policy acts
    in batches of one size, because a matrix product may depend on the number of its rows; on a GPU, this is so for
    held-out slots only, because a launch per batch would take most of the time. At the start of an episode,
    its last actions are zero. Its steps are counted from the start of an environment step, whatever called the term
    before. The configuration is not changed, so that the panel's identity stays the same. The policy's observations
    have no noise.
    """

    cfg: WalkingPolicyActionCfg

    def __init__(self, cfg: WalkingPolicyActionCfg, env: ManagerBasedEnv) -> None:
        """Load the policy.

        Args:
            cfg: The configuration.
            env: The environment.

        Raises:
            UserError: If there is no walking policy.
        """
        super().__init__(cfg, env)
        self._policy = load_walking_policy(cfg.policy_path).to(self.device)
        self._limits = torch.tensor(cfg.limits, device=self.device)
        self._joints: ActionTerm = instantiate(cfg.low_level_actions, env)
        self._raw_actions = torch.zeros(self.num_envs, len(cfg.limits), device=self.device)
        self._velocities = torch.zeros_like(self._raw_actions)
        self._joint_actions = torch.zeros(self.num_envs, self._joints.action_dim, device=self.device)
        seen = copy.deepcopy(cfg.low_level_observations)
        seen.enable_corruption = False
        seen.velocity_commands.func, seen.velocity_commands.params = lambda _: self._velocities, {}
        seen.actions.func, seen.actions.params = lambda _: self._joint_actions, {}
        self._sight = ObservationManager({"walking": seen}, env)
        self._substep = 0
        self._at_once = torch.device(self.device).type != "cpu"
        """Whether the training slots act in one batch. Batches take less time only on a GPU."""

    @property
    def action_dim(self) -> int:
        """Number of commanded velocities: along x and y, and about z, of the base."""
        return self._raw_actions.shape[1]

    @property
    def raw_actions(self) -> torch.Tensor:
        """Raw actions, shape (num_envs, 3)."""
        return self._raw_actions

    @property
    def processed_actions(self) -> torch.Tensor:
        """Velocity command to the walking policy, clipped to its limits [m/s, m/s, rad/s]; shape (num_envs, 3)."""
        return self._velocities

    def process_actions(self, actions: torch.Tensor) -> None:
        """Set the velocity command for the next environment step.

        Args:
            actions: Shape (num_envs, 3).
        """
        self._raw_actions[:] = actions
        self._velocities[:] = torch.clamp(actions, -self._limits, self._limits)
        self._substep = 0

    def apply_actions(self) -> None:
        """Run the policy if its next step is due; otherwise, motor targets stay the same."""
        if self._substep % self.cfg.low_level_decimation == 0:
            seen = self._sight.compute_group("walking")
            first = first_held_out(self._env) if self._at_once else 0
            self._joint_actions[:] = with_training_at_once(self._policy, seen, first)
            self._joints.process_actions(self._joint_actions)
            self._joints.apply_actions()
        self._substep += 1

    def reset(self, env_ids: Sequence[int] | None = None) -> None:
        """Reset episodes: the command and the policy's last actions are zero."""
        zero_rows(env_ids, self._raw_actions, self._velocities, self._joint_actions)
        self._joints.reset(env_ids)
        self._sight.reset(env_ids)


@configclass
class WalkingPolicyActionCfg(ActionTermCfg):
    """Configuration of :class:`WalkingPolicyAction`."""

    class_type: type = WalkingPolicyAction
    policy_path: str = str(WALKING_POLICY)
    """File of the policy, see :func:`ledger_lab.tasks.navigation.frozen.load_walking_policy`."""
    low_level_decimation: int = 4
    """Physics steps between two joint actions."""
    low_level_actions: ActionTermCfg = MISSING
    """Joint action that the policy's output drives."""
    low_level_observations: ObservationGroupCfg = MISSING
    """Observations of the policy; this term provides ``velocity_commands`` and ``actions``."""
    limits: tuple[float, float, float] = (1.0, 1.0, 1.0)
    """Largest velocities that the policy was trained to follow: along x and y [m/s], and about z [rad/s]."""

    def validate_config(self) -> None:
        """Check the policy before anything is built."""
        load_walking_policy(self.policy_path)
