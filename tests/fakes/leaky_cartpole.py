"""Cart-poles in which one more thing is random, each in a way that Isaac Lab draws for all environments at once."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from datetime import datetime
from time import time as clock
from typing import Any

import isaaclab.envs.mdp as mdp
import numpy as np
import torch
from isaaclab.actuators import DelayedPDActuatorCfg
from isaaclab.envs import ManagerBasedRLEnv
from isaaclab.managers import (
    CommandTerm,
    CommandTermCfg,
    CurriculumTermCfg,
    EventTermCfg,
    ManagerTermBase,
    ObservationTermCfg,
    RewardTermCfg,
    SceneEntityCfg,
    TerminationTermCfg,
)
from isaaclab.terrains import TerrainGeneratorCfg, TerrainImporterCfg
from isaaclab.terrains.trimesh import MeshPyramidStairsTerrainCfg
from isaaclab.utils import configclass
from isaaclab.utils.noise import GaussianNoiseCfg

CART = SceneEntityCfg("robot", joint_names=["slider_to_cart"])


class RandomCommand(CommandTerm):
    """A number that changes twice a second."""

    def __init__(self, cfg: Any, env: ManagerBasedRLEnv) -> None:
        super().__init__(cfg, env)
        self._value = torch.zeros(self.num_envs, 1, device=self.device)

    @property
    def command(self) -> torch.Tensor:
        return self._value

    def _update_metrics(self) -> None:
        pass

    def _resample_command(self, env_ids: Any) -> None:
        self._value[env_ids] = torch.empty_like(self._value[env_ids]).uniform_(-1.0, 1.0) * self.cfg.scale

    def _update_command(self) -> None:
        pass


@configclass
class RandomCommandCfg(CommandTermCfg):
    class_type: type = RandomCommand
    resampling_time_range: tuple[float, float] = (0.3, 0.7)
    scale: float = 1.0


class GoalCommand(RandomCommand):
    """A place for the cart, which changes when the cart has reached it."""

    def _update_command(self) -> None:
        position = self._env.scene["robot"].data.joint_pos.torch[:, :1]
        self._resample(((position - self._value).abs() < 0.3).squeeze(1).nonzero().squeeze(1))


@configclass
class CommandsCfg:
    number = RandomCommandCfg()


class ShakyAction(mdp.JointEffortAction):
    """A motor that trembles."""

    def process_actions(self, actions: torch.Tensor) -> None:
        super().process_actions(actions)
        self._processed_actions += torch.randn_like(self._processed_actions)


@configclass
class ShakyActionCfg(mdp.JointEffortActionCfg):
    class_type: type = ShakyAction


def trembling(env: ManagerBasedRLEnv) -> torch.Tensor:
    """An observation that draws by itself."""
    return torch.rand(env.num_envs, 1, device=env.device)


def kick(env: ManagerBasedRLEnv, env_ids: Any, speed: float) -> None:
    """Add a random velocity to the cart."""
    robot = env.scene["robot"]
    ids = torch.arange(env.num_envs, device=env.device)[slice(None) if env_ids is None else env_ids]
    velocity = robot.data.joint_vel.torch[ids].clone()
    velocity[:, 0] += torch.empty(len(ids), device=env.device).uniform_(-speed, speed)
    robot.write_joint_velocity_to_sim_index(velocity=velocity, env_ids=ids.int())


class TiringKick(ManagerTermBase):
    """Kick, each time half as hard as before in the same episode."""

    def __init__(self, cfg: Any, env: ManagerBasedRLEnv) -> None:
        super().__init__(cfg, env)
        self._strength = torch.ones(env.num_envs, device=env.device)

    def reset(self, env_ids: Any = None) -> None:
        self._strength[slice(None) if env_ids is None else env_ids] = 1.0

    def __call__(self, env: ManagerBasedRLEnv, env_ids: Any, speed: float) -> None:
        robot, rows = env.scene["robot"], slice(None) if env_ids is None else env_ids
        ids = torch.arange(env.num_envs, dtype=torch.int32, device=env.device)[rows]
        velocity = robot.data.joint_vel.torch[ids].clone()
        velocity[:, 0] += self._strength[ids] * torch.empty(len(ids), device=env.device).uniform_(-speed, speed)
        robot.write_joint_velocity_to_sim_index(velocity=velocity, env_ids=ids)
        self._strength[ids] *= 0.5


class Trembling(ManagerTermBase):
    """An observation that adds up what it has drawn in an episode."""

    def __init__(self, cfg: Any, env: ManagerBasedRLEnv) -> None:
        super().__init__(cfg, env)
        self._sum = torch.zeros(env.num_envs, 1, device=env.device)

    def reset(self, env_ids: Any = None) -> None:
        self._sum[slice(None) if env_ids is None else env_ids] = 0.0

    def __call__(self, env: ManagerBasedRLEnv) -> torch.Tensor:
        self._sum += torch.rand(env.num_envs, 1, device=env.device)
        return self._sum.clone()


class LeftItsCell(ManagerTermBase):
    """End an episode whose cart has left the place of its environment."""

    def __init__(self, cfg: Any, env: ManagerBasedRLEnv) -> None:
        super().__init__(cfg, env)
        self._spacing = env.scene.cfg.env_spacing

    def __call__(self, env: ManagerBasedRLEnv) -> torch.Tensor:
        smaller = min(self._spacing, env.scene.cfg.env_spacing)
        if env.scene.terrain is not None:
            smaller = min(smaller, env.scene.terrain.cfg.env_spacing)
        return env.scene["robot"].data.joint_pos.torch[:, 0].abs() > smaller


def shared_kick(env: ManagerBasedRLEnv, env_ids: Any) -> None:
    """Draw one number for everybody."""
    kick(env, env_ids, float(torch.rand(1)))


def place(env: ManagerBasedRLEnv) -> torch.Tensor:
    """Where the environment stands."""
    return 0.1 * env.scene.env_origins[:, :2]


def relative_to_the_others(env: ManagerBasedRLEnv) -> torch.Tensor:
    """Observe joint positions without their mean over all environments."""
    position = env.scene["robot"].data.joint_pos.torch
    return position - position.mean(dim=0)


def relative_to_the_farthest(env: ManagerBasedRLEnv) -> torch.Tensor:
    """Observe joint positions as shares of the largest of all environments, with Python's numbers."""
    position = env.scene["robot"].data.joint_pos.torch
    largest = max(abs(value) for row in position.tolist() for value in row)
    return position / largest


class Remembered:
    """What terms remember between their calls."""

    mean = 0.0
    average = 0.0
    calls = 0


def relative_to_the_last_mean(env: ManagerBasedRLEnv) -> torch.Tensor:
    """Observe joint positions without the mean over all environments at the last call."""
    position = env.scene["robot"].data.joint_pos.torch
    before, Remembered.mean = Remembered.mean, float(position.numpy().mean())
    return position - before


def normalized_over_time(env: ManagerBasedRLEnv) -> torch.Tensor:
    """Observe joint positions without their moving average over all environments and calls."""
    position = env.scene["robot"].data.joint_pos.torch
    Remembered.average += 0.001 * (float(position.numpy().mean()) - Remembered.average)
    return position - Remembered.average


class AverageOfAll(ManagerTermBase):
    """The same by an object that is reset with every episode, and keeps its average."""

    def __init__(self, cfg: Any, env: ManagerBasedRLEnv) -> None:
        super().__init__(cfg, env)
        self._average = 0.0

    def __call__(self, env: ManagerBasedRLEnv) -> torch.Tensor:
        position = env.scene["robot"].data.joint_pos.torch
        self._average += 0.1 * (float(position.mean()) - self._average)
        return position - self._average


class Smoothed(ManagerTermBase):
    """Joint positions, smoothed within an episode."""

    def __init__(self, cfg: Any, env: ManagerBasedRLEnv) -> None:
        super().__init__(cfg, env)
        self._smooth = torch.zeros(env.num_envs, 2, device=env.device)

    def reset(self, env_ids: Any = None) -> None:
        self._smooth[slice(None) if env_ids is None else env_ids] = 0.0

    def __call__(self, env: ManagerBasedRLEnv) -> torch.Tensor:
        self._smooth += 0.5 * (env.scene["robot"].data.joint_pos.torch - self._smooth)
        return self._smooth.clone()


def age_of_the_training(env: ManagerBasedRLEnv) -> torch.Tensor:
    """Observe the steps since the training began."""
    return torch.full((env.num_envs, 2), 1e-6 * env.common_step_counter, device=env.device)


def somebody_is_far(env: ManagerBasedRLEnv) -> torch.Tensor:
    """End all episodes when one cart is far from its place."""
    position = env.scene["robot"].data.joint_pos.torch[:, 0]
    return torch.full((env.num_envs,), bool(np.abs(position.numpy()).max() > 2.5))


def note_farthest(env: ManagerBasedRLEnv) -> torch.Tensor:
    """Reward nothing, and store how far the farthest cart of all environments is."""
    env.farthest = float(env.scene["robot"].data.joint_pos.torch[:, 0].abs().max())
    return torch.zeros(env.num_envs, device=env.device)


def stored_is_far(env: ManagerBasedRLEnv) -> torch.Tensor:
    """End all episodes when the stored distance is large."""
    return torch.full((env.num_envs,), env.__dict__.get("farthest", 0.0) > 2.5, device=env.device)


def stored_kick(env: ManagerBasedRLEnv, env_ids: Any) -> None:
    """Kick as hard as the stored distance is large."""
    numbered_kick(env, env_ids, np.full(env.num_envs, 0.1 * env.__dict__.get("farthest", 0.0)))


def fixed_kick(env: ManagerBasedRLEnv, env_ids: Any) -> None:
    """Draw from a generator of one's own that begins anew each time: the place in the batch decides."""
    numbered_kick(env, env_ids, np.random.default_rng(0).uniform(-1, 1, env.num_envs))


def spread_kick(env: ManagerBasedRLEnv, env_ids: Any) -> None:
    """Spread the starts evenly over the batch."""
    numbered_kick(env, env_ids, np.linspace(-1, 1, env.num_envs))


def centred_kick(env: ManagerBasedRLEnv, env_ids: Any) -> None:
    """Draw with torch, and take away the mean over the batch."""
    drawn = torch.rand(len(torch.arange(env.num_envs)[slice(None) if env_ids is None else env_ids]))
    numbered_kick(env, env_ids, (drawn - drawn.mean()).numpy())


def hourly_kick(env: ManagerBasedRLEnv, env_ids: Any) -> None:
    """Kick as the hour is."""
    numbered_kick(env, env_ids, np.full(env.num_envs, 0.1 * (time.time() // 3600 % 24)))


def numbered_kick(env: ManagerBasedRLEnv, env_ids: Any, speeds: Any) -> None:
    """Add the first of these velocities to the carts."""
    robot = env.scene["robot"]
    ids = torch.arange(env.num_envs, device=env.device)[slice(None) if env_ids is None else env_ids]
    velocity = robot.data.joint_vel.torch[ids].clone()
    velocity[:, 0] += torch.as_tensor(speeds[: len(ids)], dtype=velocity.dtype)
    robot.write_joint_velocity_to_sim_index(velocity=velocity, env_ids=ids.int())


MIXING_OBSERVATIONS: dict[str, Any] = {
    "farthest": relative_to_the_farthest,
    "last_mean": relative_to_the_last_mean,
    "moving_average": normalized_over_time,
    "kept_average": AverageOfAll,
    "age": age_of_the_training,
}
"""Observations that depend on other environments or on the training, each in a way that no operation of torch shows."""


def kick_by(number: Callable[[], float]) -> Callable[..., None]:
    """Return an event that kicks by a number."""

    def event(env: ManagerBasedRLEnv, env_ids: Any) -> None:
        numbered_kick(env, env_ids, np.full(env.num_envs, 0.1 * number()))

    return event


KICKS: dict[str, Any] = {
    "fixed": fixed_kick,
    "spread": spread_kick,
    "centred": centred_kick,
    "hourly": hourly_kick,
    "imported_clock": kick_by(lambda: clock() // 3600 % 24),
    "clock_elsewhere": kick_by(lambda: sys.modules["time"].time() // 3600 % 24),
    "dated": kick_by(lambda: datetime.now().hour),
    "dated_today": kick_by(lambda: datetime.today().hour),
    "process": kick_by(lambda: os.getpid() % 7),
    "hashed": kick_by(lambda: hash("cart-pole") % 100_003 / 1000),
    "threads": kick_by(lambda: torch.get_num_threads() + 0),
}
"""Reset events whose result depends on the batch, the clock or the process."""


def climb(env: ManagerBasedRLEnv, env_ids: Any) -> float:
    """Move training slots up at each reset."""
    up = torch.ones(len(env_ids), dtype=torch.bool, device=env.device)
    env.scene.terrain.update_env_origins(env_ids, up, ~up)
    return float(env.scene.terrain.terrain_levels.float().mean())


def numpy_kick(env: ManagerBasedRLEnv, env_ids: Any) -> None:
    """Draw past torch."""
    kick(env, env_ids, 0.0)
    np.random.rand()


GENERATOR = np.random.default_rng(0)


def generator_kick(env: ManagerBasedRLEnv, env_ids: Any) -> None:
    """Draw from a generator of one's own, which no library's global state shows."""
    kick(env, env_ids, 0.0)
    robot = env.scene["robot"]
    ids = torch.arange(env.num_envs, device=env.device)[slice(None) if env_ids is None else env_ids]
    velocity = robot.data.joint_vel.torch[ids].clone()
    velocity[:, 0] += torch.as_tensor(GENERATOR.uniform(-1, 1, len(ids)), dtype=velocity.dtype)
    robot.write_joint_velocity_to_sim_index(velocity=velocity, env_ids=ids.int())


def growing_kick(env: ManagerBasedRLEnv, env_ids: Any) -> None:
    """Kick harder the longer the training takes."""
    kick(env, env_ids, 0.5 + 0.01 * env.common_step_counter)


def harder_commands(env: ManagerBasedRLEnv, env_ids: Any) -> float:
    """Raise the scale of the command at each reset of a training slot."""
    term = env.command_manager.get_term("number")
    term.cfg.scale += 1.0
    return float(term.cfg.scale)


def wider_bounds(env: ManagerBasedRLEnv, env_ids: Any) -> None:
    """Let the cart go further at each reset of a training slot."""
    term = env.termination_manager.get_term_cfg("cart_out_of_bounds")
    low, high = term.params["bounds"]
    term.params["bounds"] = (low - 0.1, high + 0.1)


def leaky(cfg: Any, leak: str) -> Any:
    """Add one leak to a cart-pole's configuration."""
    match leak:
        case "reset_event":
            pass
        case "startup_event":
            cfg.events.heavy = EventTermCfg(
                func=mdp.randomize_rigid_body_mass,
                mode="startup",
                params={
                    "asset_cfg": SceneEntityCfg("robot", body_names=["pole"]),
                    "mass_distribution_params": (0.3, 3.0),
                    "operation": "scale",
                },
            )
        case "command" | "goal_command" | "curriculum":
            cfg.commands = CommandsCfg()
            if leak == "goal_command":
                cfg.commands.number.class_type = GoalCommand
            cfg.observations.policy.number = ObservationTermCfg(
                func=mdp.generated_commands, params={"command_name": "number"}
            )
            if leak == "curriculum":
                cfg.curriculum = {"harder": CurriculumTermCfg(func=harder_commands)}
        case "shared_curriculum":
            cfg.curriculum = {"wider": CurriculumTermCfg(func=wider_bounds)}
        case "interval_event" | "global_interval_event" | "global_interval_object":
            cfg.events.kick = EventTermCfg(
                func=TiringKick if leak.endswith("object") else kick,
                mode="interval",
                interval_range_s=(0.1, 0.4),
                is_global_time=leak.startswith("global"),
                params={"speed": 1.0},
            )
        case "observation_noise":
            cfg.observations.policy.joint_pos.noise = GaussianNoiseCfg(std=0.1)
            cfg.observations.policy.enable_corruption = True
        case "random_observation":
            cfg.observations.policy.trembling = ObservationTermCfg(func=trembling)
        case "random_observation_object":
            cfg.observations.policy.trembling = ObservationTermCfg(func=Trembling)
        case "mixing_observation":
            cfg.observations.policy.centered = ObservationTermCfg(func=relative_to_the_others)
        case "smoothed":
            cfg.observations.policy.smoothed = ObservationTermCfg(func=Smoothed)
        case "stored_statistic" | "stored_start":
            cfg.rewards.note = RewardTermCfg(func=note_farthest, weight=1.0)
            if leak == "stored_statistic":
                cfg.terminations.far = TerminationTermCfg(func=stored_is_far)
            else:
                cfg.events.surprise = EventTermCfg(func=stored_kick, mode="reset")
        case "spacing":
            cfg.terminations.left = TerminationTermCfg(func=LeftItsCell)
        case "mixing_termination":
            cfg.terminations.far = TerminationTermCfg(func=somebody_is_far)
        case _ if leak in MIXING_OBSERVATIONS:
            cfg.observations.policy.mixed = ObservationTermCfg(func=MIXING_OBSERVATIONS[leak])
        case _ if leak in KICKS:
            cfg.events.surprise = EventTermCfg(func=KICKS[leak], mode="reset")
        case "action_noise":
            cfg.actions.cart_force = ShakyActionCfg(
                asset_name="robot", joint_names=["slider_to_cart"], scale=cfg.actions.cart_force.scale
            )
        case "actuator_delay":
            cfg.scene.robot.actuators["cart"] = DelayedPDActuatorCfg(
                joint_names_expr=["slider_to_cart"],
                effort_limit=400.0,
                stiffness=0.0,
                damping=10.0,
                min_delay=0,
                max_delay=8,
            )
        case "rare_reset_event":
            cfg.events.rare = EventTermCfg(
                func=kick, mode="reset", min_step_count_between_reset=1000, params={"speed": 3.0}
            )
        case "terrain":
            cfg.scene.terrain = TerrainImporterCfg(
                prim_path="/World/hills",
                terrain_type="generator",
                terrain_generator=TerrainGeneratorCfg(
                    size=(4.0, 4.0),
                    num_rows=4,
                    num_cols=5,
                    curriculum=True,
                    sub_terrains={"stairs": MeshPyramidStairsTerrainCfg(step_height_range=(0.05, 0.2), step_width=0.5)},
                ),
            )
            cfg.scene.ground = None
            cfg.observations.policy.place = ObservationTermCfg(func=place)
            cfg.curriculum = {"climb": CurriculumTermCfg(func=climb)}
        case "numpy_reset":
            cfg.events.numpy = EventTermCfg(func=numpy_kick, mode="reset")
        case "numpy_interval":
            cfg.events.numpy = EventTermCfg(func=numpy_kick, mode="interval", interval_range_s=(0.1, 0.1))
        case "own_generator":
            cfg.events.surprise = EventTermCfg(func=generator_kick, mode="reset")
        case "step_counter":
            cfg.events.growing = EventTermCfg(func=growing_kick, mode="reset")
        case "shared_draw":
            cfg.events.shared = EventTermCfg(func=shared_kick, mode="reset")
        case _:
            raise ValueError(leak)
    return cfg
