"""One simulation of a task of ours, or of Isaac Lab's task of the same robot, stepped with random actions.

Isaac Lab's own robots and ground must be downloaded. Here its tasks use ours: robot, motors, ground, light, physics
engine, time step, and the lengths of steps and episodes. So only the work of managers and sensors differs.
"""

from __future__ import annotations

import functools
import json
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from isaaclab.assets import AssetBaseCfg
from isaaclab.terrains import TerrainImporterCfg

from ledger_lab.ledger.meters.probes import Part, Probes
from ledger_lab.tasks.registry import registered_tasks
from ledger_lab.training.runners.configs import resolve_configs
from ledger_lab.training.runners.session import environment, recorded_physics, simulation_app

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnvCfg

STOCK = {
    "LedgerLab-Cartpole": "Isaac-Cartpole",
    "LedgerLab-Ant": "Isaac-Ant",
    "LedgerLab-Humanoid": "Isaac-Humanoid",
    "LedgerLab-Velocity-Flat-AnymalC": "IsaacContrib-Velocity-Flat-AnymalC",
    "LedgerLab-Velocity-Flat-Go2": "Isaac-Velocity-Flat-UnitreeGo2",
    "LedgerLab-Reach-Franka": "Isaac-Reach-Franka",
}
"""Isaac Lab's task of the same robot, for tasks that need only a robot on the ground."""
WARM_UP = 20
"""Environment steps before anything is timed."""
_PHYSICS = "physics step"


def stock_config(task: str) -> ManagerBasedRLEnvCfg:
    """Return Isaac Lab's task of the same robot, with our robot, ground and physics.

    Args:
        task: Our task, one of :data:`STOCK`.
    """
    ours, _ = resolve_configs(task, "rsl_rl", [])
    stock, _ = resolve_configs(STOCK[task], "rsl_rl", [])
    for name, part in vars(stock.scene).items():
        if isinstance(part, AssetBaseCfg | TerrainImporterCfg):
            setattr(stock.scene, name, None)
    for name, part in vars(ours.scene).items():
        if isinstance(part, AssetBaseCfg):
            setattr(stock.scene, name, part)
    stock.sim, stock.decimation, stock.episode_length_s = ours.sim, ours.decimation, ours.episode_length_s
    return stock


def main(arguments: Sequence[str]) -> int:
    """Step, and print the time of the steps and of their physics.

    Args:
        arguments: Our task, ``ours`` or ``stock``, environments, environment steps, device.

    Returns:
        0.
    """
    task, arm, device = arguments[0], arguments[1], arguments[4]
    num_envs, steps = int(arguments[2]), int(arguments[3])
    registered_tasks()
    env_cfg = stock_config(task) if arm == "stock" else resolve_configs(task, "rsl_rl", [])[0]
    env_cfg.scene.num_envs, env_cfg.sim.device, env_cfg.seed = num_envs, device, 1
    synchronize = functools.partial(torch.cuda.synchronize, device) if device != "cpu" else None
    with (
        simulation_app(env_cfg, {"device": device}),
        environment(STOCK[task] if arm == "stock" else task, env_cfg) as env,
        recorded_physics(env),
    ):
        base = env.unwrapped
        env.reset()
        generator = torch.Generator(device).manual_seed(1)
        shape = (num_envs, base.action_manager.total_action_dim)
        actions = [2 * torch.rand(shape, generator=generator, device=device) - 1 for _ in range(WARM_UP + steps)]
        probes = Probes(synchronize)
        for action in actions[:WARM_UP]:
            env.step(action)
        probes.attach(Part(base.sim, "step", _PHYSICS))
        if synchronize is not None:
            synchronize()
        began_ns = time.perf_counter_ns()
        for action in actions[WARM_UP:]:
            env.step(action)
        if synchronize is not None:
            synchronize()
        step_ns = (time.perf_counter_ns() - began_ns) / steps
        probes.detach()
        physics_ns = sum(sum(each.total_ns) for each in probes.samples) / steps
        found = {"step_us": step_ns / 1e3, "physics_us": physics_ns / 1e3}
        sys.stdout.write(f"\n{json.dumps(found)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
