"""Cart-poles in which something lasts longer than an episode, each in a way that a task of a user's own might have."""

from __future__ import annotations

from typing import Any

import isaaclab.envs.mdp as mdp
import torch
from isaaclab.envs import ManagerBasedRLEnv
from isaaclab.managers import (
    CurriculumTermCfg,
    EventTermCfg,
    ManagerTermBase,
    ObservationTermCfg,
    RewardTermCfg,
    TerminationTermCfg,
)

from tests.fakes.leaky_cartpole import numbered_kick


def harder(env: ManagerBasedRLEnv, env_ids: Any) -> float:
    """Raise the level of all environments at each reset of a training slot."""
    env.level = env.__dict__.get("level", 0) + 1
    return float(env.level)


def kick_by_level(env: ManagerBasedRLEnv, env_ids: Any) -> None:
    """Kick as hard as the level is high."""
    numbered_kick(env, env_ids, torch.full((env.num_envs,), 0.1 * env.__dict__.get("level", 0)))


def raise_own_level(env: ManagerBasedRLEnv, env_ids: Any) -> None:
    """Raise the level that an event term keeps."""
    names = env.event_manager.active_terms["reset"]
    env.event_manager._mode_term_cfgs["reset"][names.index("levelled")].func.level += 1


class LevelledKick(ManagerTermBase):
    """Kick as hard as a level that the term keeps."""

    def __init__(self, cfg: Any, env: ManagerBasedRLEnv) -> None:
        super().__init__(cfg, env)
        self.level = 0

    def __call__(self, env: ManagerBasedRLEnv, env_ids: Any) -> None:
        numbered_kick(env, env_ids, torch.full((env.num_envs,), 0.1 * self.level))


class CachedRange(ManagerTermBase):
    """Kick within a range that the first call draws, for the environments that it gets."""

    def __init__(self, cfg: Any, env: ManagerBasedRLEnv) -> None:
        super().__init__(cfg, env)
        self._most: float | None = None

    def __call__(self, env: ManagerBasedRLEnv, env_ids: Any) -> None:
        drawn = torch.rand(len(torch.arange(env.num_envs)[env_ids]), 1)
        if self._most is None:
            self._most = float(drawn[0, 0])
        numbered_kick(env, env_ids, self._most * drawn[:, 0])


SHARED = {"speed": 0.0}
"""An object that an event writes."""


def write_object(env: ManagerBasedRLEnv, env_ids: Any) -> None:
    """Write an object that the next reset reads."""
    SHARED["speed"] += 0.01


def kick_by_object(env: ManagerBasedRLEnv, env_ids: Any) -> None:
    """Kick as the object says."""
    numbered_kick(env, env_ids, torch.full((env.num_envs,), SHARED["speed"]))


def move_default_poses(env: ManagerBasedRLEnv, env_ids: Any) -> None:
    """Move the default positions of the joints of all environments at each reset of a training slot."""
    env.scene["robot"].data.default_joint_pos.torch[:, 1] += 0.01


def note_positions(env: ManagerBasedRLEnv) -> torch.Tensor:
    """End no episode, and note where the carts are."""
    env.noted = env.scene["robot"].data.joint_pos.torch[:, 0].clone()
    return torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)


def kick_by_last_end(env: ManagerBasedRLEnv, env_ids: Any) -> None:
    """Kick as far as the cart was at the end of the episode before."""
    noted = env.__dict__.get("noted", torch.zeros(env.num_envs))
    numbered_kick(env, env_ids, noted[slice(None) if env_ids is None else env_ids])


def within_the_level(env: ManagerBasedRLEnv) -> torch.Tensor:
    """Succeed when the level of the curriculum is high."""
    return torch.full((env.num_envs,), env.__dict__.get("level", 0) >= 3, device=env.device)


class Latch(ManagerTermBase):
    """Observe a latch that opens after some steps, and closes when it sees the first step of an episode."""

    after = 40

    def __init__(self, cfg: Any, env: ManagerBasedRLEnv) -> None:
        super().__init__(cfg, env)
        self._open = torch.zeros(env.num_envs, 1, device=env.device)

    def __call__(self, env: ManagerBasedRLEnv) -> torch.Tensor:
        age = env.episode_length_buf
        far = env.scene["robot"].data.joint_pos.torch[:, 0].abs() > 0.01
        self._open[(age >= self.after) & far] = 1.0
        self._open[age == 1] *= 0.5  # the first step after a reset only weakens it
        return torch.nn.functional.pad(self._open, (0, 1))


class SuccessLatch:
    """A success function with a latch that is reset by the length of the episode, which is never 0 when it is asked."""

    is_open: torch.Tensor | None = None

    def __call__(self, env: ManagerBasedRLEnv) -> torch.Tensor:
        if self.is_open is None or len(self.is_open) != env.num_envs:
            self.is_open = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
        self.is_open[env.episode_length_buf == 0] = False
        self.is_open |= (env.episode_length_buf > 40) & (env.scene["robot"].data.joint_vel.torch[:, 0] > 0.02)
        return self.is_open.clone()


latched_success = SuccessLatch()


def assist(env: ManagerBasedRLEnv, env_ids: Any) -> None:
    """Help from the first reset on; later calls change nothing."""
    env.helps = True


class Assisted(mdp.JointEffortAction):
    """A motor that pushes half as much unless the environment helps."""

    def apply_actions(self) -> None:
        self._processed_actions *= 1.0 if self._env.__dict__.get("helps") else 0.5
        super().apply_actions()


class Gain:
    """An object of an action."""

    value = 1.0


class WithGain(mdp.JointEffortAction):
    """A motor with a gain in an object of its own."""

    def __init__(self, cfg: Any, env: ManagerBasedRLEnv) -> None:
        super().__init__(cfg, env)
        self.gain = Gain()

    def apply_actions(self) -> None:
        self._processed_actions *= self.gain.value
        super().apply_actions()


def lower_gain(env: ManagerBasedRLEnv, env_ids: Any) -> None:
    """Set the gain of an object within an action."""
    env.action_manager.get_term("cart_force").gain.value = 0.5


class LateReward(ManagerTermBase):
    """A reward that changes what all terms see after some calls."""

    def __init__(self, cfg: Any, env: ManagerBasedRLEnv) -> None:
        super().__init__(cfg, env)
        self._calls = 0

    def __call__(self, env: ManagerBasedRLEnv) -> torch.Tensor:
        self._calls += 1
        env.helps = self._calls > 60
        return torch.zeros(env.num_envs, device=env.device)


def lasting(cfg: Any, kind: str) -> Any:
    """Add one thing that lasts to a cart-pole's configuration."""
    curriculum = None
    match kind:
        case "level_of_the_environment":
            curriculum = harder
            cfg.events.levelled = EventTermCfg(func=kick_by_level, mode="reset")
        case "level_of_the_term":
            curriculum = raise_own_level
            cfg.events.levelled = EventTermCfg(func=LevelledKick, mode="reset")
        case "cached_range":
            cfg.events.cached = EventTermCfg(func=CachedRange, mode="reset")
        case "written_object":
            cfg.events.written = EventTermCfg(func=write_object, mode="interval", interval_range_s=(0.2, 0.2))
            cfg.events.surprise = EventTermCfg(func=kick_by_object, mode="reset")
        case "default_poses":
            curriculum = move_default_poses
        case "last_end":
            cfg.terminations.note = TerminationTermCfg(func=note_positions)
            cfg.events.surprise = EventTermCfg(func=kick_by_last_end, mode="reset")
        case "success_by_level":
            curriculum = harder
        case "latch":
            cfg.observations.policy.latch = ObservationTermCfg(func=Latch)
        case "early_help":
            curriculum = assist
            cfg.actions.cart_force.class_type = Assisted
        case "early_gain":
            curriculum = lower_gain
            cfg.actions.cart_force.class_type = WithGain
        case "early_reward":
            cfg.rewards.late = RewardTermCfg(func=LateReward, weight=1.0)
            cfg.actions.cart_force.class_type = Assisted
        case "latched_success":
            pass
        case _:
            raise ValueError(kind)
    if curriculum is not None:
        cfg.curriculum = {"lasting": CurriculumTermCfg(func=curriculum)}
    return cfg


SUCCESS = {"success_by_level": within_the_level, "latched_success": latched_success}
"""Success functions of some kinds."""
