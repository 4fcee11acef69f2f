"""Cart-poles in which a curriculum or an event changes more than the training slots and their own episodes."""

from __future__ import annotations

from typing import Any

import isaaclab.envs.mdp as mdp
import torch
import warp as wp
from isaaclab.actuators import IdealPDActuatorCfg
from isaaclab.envs import ManagerBasedRLEnv
from isaaclab.managers import CurriculumTermCfg, EventTermCfg, ManagerTermBase, ObservationTermCfg, SceneEntityCfg
from isaaclab.utils import configclass
from isaaclab.utils.noise import UniformNoiseCfg

from tests.fakes.leaky_cartpole import RandomCommand, RandomCommandCfg, kick

ROBOT = SceneEntityCfg("robot")


def resets(env: ManagerBasedRLEnv) -> int:
    """Count the calls of curricula in an attribute that nothing else reads."""
    env.curriculum_calls = 1 + env.__dict__.get("curriculum_calls", 0)
    return int(env.curriculum_calls)


def heavier_world(env: ManagerBasedRLEnv, env_ids: Any) -> float:
    """Raise gravity for all worlds."""
    from newton import ModelFlags

    manager = env.sim.physics_manager
    wp.to_torch(manager.get_model().gravity)[:, 2] = strength = -9.81 * (1.0 + 0.2 * resets(env))
    manager.add_model_change(ModelFlags.MODEL_PROPERTIES)
    return strength


def stiffer_joints(env: ManagerBasedRLEnv, env_ids: Any) -> float:
    """Raise the damping of all joints, with Isaac Lab's own writer."""
    damping = 0.05 * resets(env)
    rows = torch.full_like(env.scene["robot"].data.joint_damping.torch, damping)
    env.scene["robot"].write_joint_damping_to_sim_index(damping=rows)
    return damping


def stronger_motor(env: ManagerBasedRLEnv, env_ids: Any) -> None:
    """Raise the gain of a motor that Isaac Lab computes."""
    env.scene["robot"].actuators["cart"].damping *= 1.5


def other_home(env: ManagerBasedRLEnv, env_ids: Any) -> None:
    """Move the place where all carts start."""
    env.scene["robot"].data.default_joint_pos.torch[:, 0] += 0.1


def weaker_push(env: ManagerBasedRLEnv, env_ids: Any) -> float:
    """Lower a private number of an action."""
    term = env.action_manager.get_term("cart_force")
    term._scale *= 0.9
    return float(term._scale)


def weaker_push_by_event(env: ManagerBasedRLEnv, env_ids: Any) -> None:
    """Do the same at each reset within a training; held-out slots always see a new training."""
    if env.common_step_counter > 0:
        weaker_push(env, env_ids)


def row_per_slot(env: ManagerBasedRLEnv, env_ids: Any) -> None:
    """Lower the scale of an action that keeps one number per slot, for all slots."""
    term = env.action_manager.get_term("cart_force")
    if isinstance(term._scale, float):
        return
    term._scale *= 0.9


class ScaledPush(mdp.JointEffortAction):
    """A motor with a scale per slot."""

    def __init__(self, cfg: Any, env: ManagerBasedRLEnv) -> None:
        super().__init__(cfg, env)
        self._scale = torch.full((env.num_envs, 1), float(self._scale))


def shorter(env: ManagerBasedRLEnv, env_ids: Any, data: float) -> float:
    """Return a shorter time for an episode."""
    return 0.99 * data


class GrowingKick(ManagerTermBase):
    """Kicks harder at each call, and remembers in lists and tensors how often it has been called."""

    def __init__(self, cfg: Any, env: ManagerBasedRLEnv) -> None:
        super().__init__(cfg, env)
        self._calls, self._rows, self._shared = [0], torch.zeros(env.num_envs), torch.zeros(())

    def __call__(self, env: ManagerBasedRLEnv, env_ids: Any) -> None:
        self._calls[0] += 1
        self._rows += 1.0
        self._shared += 1.0
        kick(env, env_ids, float(self._calls[0] + self._rows[-1] + self._shared))


class ClippedCommand(RandomCommand):
    """A number that is clipped in every step, and drawn anew when it is small."""

    def _update_command(self) -> None:
        self._value = self._value.clamp(-self.cfg.scale, self.cfg.scale)
        small = (self._value[:, 0].abs() < 0.05).nonzero().flatten()
        if len(small):
            self._resample(small)


@configclass
class ClippedCommandsCfg:
    number = RandomCommandCfg(class_type=ClippedCommand, scale=0.5)


def narrower_commands(env: ManagerBasedRLEnv, env_ids: Any) -> None:
    """Lower the limit of a command at each reset of a training slot."""
    env.command_manager.get_term("number").cfg.scale *= 0.8


def gravity(mode: str, operation: str, low: float, high: float) -> EventTermCfg:
    """Return Isaac Lab's event for gravity."""
    params = {"gravity_distribution_params": ([0.0, 0.0, low], [0.0, 0.0, high]), "operation": operation}
    if operation == "scale":
        params["gravity_distribution_params"] = ([1.0, 1.0, low], [1.0, 1.0, high])
    return EventTermCfg(
        func=mdp.randomize_physics_scene_gravity,
        mode=mode,
        interval_range_s=(0.1, 0.4) if mode == "interval" else None,
        params={**params, "distribution": "uniform"},
    )


def pole_mass(mode: str) -> EventTermCfg:
    """Return Isaac Lab's event for masses."""
    return EventTermCfg(
        func=mdp.randomize_rigid_body_mass,
        mode=mode,
        interval_range_s=(0.1, 0.4) if mode == "interval" else None,
        params={
            "asset_cfg": SceneEntityCfg("robot", body_names=["pole"]),
            "mass_distribution_params": (0.5, 2.0),
            "operation": "scale",
            "distribution": "uniform",
            "recompute_inertia": True,
            "min_mass": 1e-6,
        },
    )


def gains(mode: str) -> EventTermCfg:
    """Return Isaac Lab's event for the gains of motors."""
    params = {"asset_cfg": ROBOT, "damping_distribution_params": (0.5, 2.0), "operation": "scale"}
    return EventTermCfg(
        func=mdp.randomize_actuator_gains,
        mode=mode,
        interval_range_s=(0.1, 0.4) if mode == "interval" else None,
        params={**params, "distribution": "uniform"},
    )


def joint_friction(mode: str) -> EventTermCfg:
    """Return Isaac Lab's event for the friction of joints."""
    params = {"asset_cfg": ROBOT, "friction_distribution_params": (0.1, 0.3), "operation": "abs"}
    return EventTermCfg(
        func=mdp.randomize_joint_parameters,
        mode=mode,
        interval_range_s=(0.1, 0.4) if mode == "interval" else None,
        params={**params, "distribution": "uniform"},
    )


def center_of_mass(mode: str) -> EventTermCfg:
    """Return Isaac Lab's event for centers of mass."""
    return EventTermCfg(
        func=mdp.randomize_rigid_body_com,
        mode=mode,
        interval_range_s=(0.1, 0.4) if mode == "interval" else None,
        params={
            "asset_cfg": SceneEntityCfg("robot", body_names=["pole"]),
            "com_range": {"x": (-0.05, 0.05), "y": (0.0, 0.0), "z": (-0.1, 0.1)},
        },
    )


class HeavyCartpole(ManagerBasedRLEnv):
    """An environment that makes all its bodies three times as heavy after it has been built."""

    def __init__(self, cfg: Any, **kwargs: Any) -> None:
        super().__init__(cfg, **kwargs)
        robot = self.scene["robot"]
        robot.set_masses_index(masses=3.0 * robot.data.body_mass.torch)


def noisier(env: ManagerBasedRLEnv, env_ids: Any) -> float:
    """Raise the noise of an observation."""
    names = env.observation_manager.active_terms["policy"]
    noise = env.observation_manager._group_obs_term_cfgs["policy"][names.index("joint_pos")].noise
    noise.n_max *= 1.1
    return float(noise.n_max)


CURRICULA: dict[str, Any] = {
    "gravity": heavier_world,
    "joint_damping": stiffer_joints,
    "motor": stronger_motor,
    "home": other_home,
    "narrower": narrower_commands,
    "row_per_slot": row_per_slot,
    "action_scale": weaker_push,
    "noisier": noisier,
}
"""Curricula that change something for all slots."""


def changing(cfg: Any, *changes: str) -> Any:
    """Add changes to a cart-pole's configuration, each by its name."""
    cfg.curriculum = {}
    for change in changes:
        kind, _, mode = change.partition(" at ")
        match kind:
            case "explicit motor":
                cfg.sim.use_newton_actuators = False
                cfg.scene.robot.actuators["cart"] = IdealPDActuatorCfg(
                    joint_names_expr=["slider_to_cart"], stiffness=0.0, damping=10.0
                )
            case "clipped command":
                cfg.commands = ClippedCommandsCfg()
                term = ObservationTermCfg(func=mdp.generated_commands, params={"command_name": "number"})
                cfg.observations.policy.number = term
            case "noise":
                cfg.observations.policy.enable_corruption = True
                cfg.observations.policy.joint_pos.noise = UniformNoiseCfg(n_min=0.0, n_max=0.01)
            case "slot scales":
                cfg.actions.cart_force.class_type = ScaledPush
            case "episode_length":
                params = {"address": "cfg.episode_length_s", "modify_fn": shorter}
                cfg.curriculum["shorter"] = CurriculumTermCfg(func=mdp.modify_env_param, params=params)
            case "gravity add":
                cfg.events.gravity = gravity(mode, "add", -1.0, 0.5)
            case "gravity scale":
                cfg.events.gravity_scale = gravity(mode, "scale", 0.8, 1.3)
            case "mass":
                setattr(cfg.events, f"mass_{mode}", pole_mass(mode))
            case "gains":
                setattr(cfg.events, f"gains_{mode}", gains(mode))
            case "joint friction":
                setattr(cfg.events, f"friction_{mode}", joint_friction(mode))
            case "center of mass":
                setattr(cfg.events, f"com_{mode}", center_of_mass(mode))
            case "growing kick":
                interval = (0.1, 0.4) if mode == "interval" else None
                setattr(
                    cfg.events, f"growing_{mode}", EventTermCfg(func=GrowingKick, mode=mode, interval_range_s=interval)
                )
            case "action_scale by event":
                cfg.events.weaker = EventTermCfg(func=weaker_push_by_event, mode=mode)
            case _:
                cfg.curriculum[kind] = CurriculumTermCfg(func=CURRICULA[kind])
    return cfg
