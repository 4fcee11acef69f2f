"""One simulation of a task, stepped with random actions by MuJoCo-Warp or by MuJoCo's C code.

With the C code, a few physics steps are also done by ``mujoco.rollout``, MuJoCo's own program for many worlds: from the
same states, with the same model and number of threads, and without Newton, Isaac Lab and sensors.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ledger_lab.meters.probes import Part, Probes
from ledger_lab.runners.configs import resolve_configs
from ledger_lab.runners.cpu_graphs import recorded_physics
from ledger_lab.runners.session import environment, require_runtime, simulation_app
from ledger_lab.tasks.registry import registered_tasks

WARM_UP = 20
"""Environment steps before anything is timed."""
_PHYSICS = "physics step"
_INPUTS = ("ctrl", "qfrc_applied", "xfrc_applied")


def main(arguments: Sequence[str]) -> int:
    """Step, and print times per environment step.

    Args:
        arguments: Task, physics engine, threads, environments, environment steps.

    Returns:
        0.
    """
    task, physics = arguments[:2]
    threads, num_envs, steps = map(int, arguments[2:])
    registered_tasks()
    cfg, _ = resolve_configs(task, "rsl_rl", [f"physics={physics}"])
    cfg.scene.num_envs, cfg.sim.device, cfg.seed = num_envs, "cpu", 1
    native = physics == "newton_mujoco"
    require_runtime(cfg, {"device": "cpu"}, threads if native else None)
    torch.set_num_threads(threads)
    with simulation_app(cfg, {"device": "cpu"}), environment(task, cfg) as env, recorded_physics(env):
        base = env.unwrapped
        env.reset()
        generator = torch.Generator().manual_seed(1)
        shape = (num_envs, base.action_manager.total_action_dim)
        actions = [2 * torch.rand(shape, generator=generator) - 1 for _ in range(WARM_UP + steps + 1)]
        for action in actions[:WARM_UP]:
            env.step(action)
        probes = Probes(None)
        probes.attach(Part(base.sim, "step", _PHYSICS))
        began_ns, began_cpu_ns = time.perf_counter_ns(), time.process_time_ns()
        for action in actions[WARM_UP:-1]:
            env.step(action)
        found: dict[str, Any] = {
            "step_us": (time.perf_counter_ns() - began_ns) / steps / 1e3,
            "step_cpu_us": (time.process_time_ns() - began_cpu_ns) / steps / 1e3,
            "physics_us": sum(sum(each.total_ns) for each in probes.samples) / steps / 1e3,
        }
        probes.detach()
        if native:
            found["mujoco_us"] = _by_mujoco(env, actions[-1], threads)
        sys.stdout.write(f"\n{json.dumps(found)}\n")
    return 0


def _by_mujoco(env: Any, action: torch.Tensor, threads: int) -> float:  # noqa: ANN401 - Gymnasium's wrapper
    """Return how long MuJoCo alone takes for the physics of one environment step [us].

    Args:
        env: The environment.
        action: The actions of the step.
        threads: Number of threads.
    """
    import mujoco
    from isaaclab_newton.physics import NewtonManager
    from mujoco.rollout import Rollout

    solver: Any = NewtonManager._solver
    data, stepper = solver.mjw_data, solver.stepper
    model = stepper._models[0]
    spent: list[float] = []
    kinds = (mujoco.mjtState.mjSTATE_CTRL, mujoco.mjtState.mjSTATE_QFRC_APPLIED, mujoco.mjtState.mjSTATE_XFRC_APPLIED)
    with Rollout(nthread=threads) as rollout:
        workers = [mujoco.MjData(model) for _ in range(threads)]

        def step() -> None:
            rows = {name: getattr(data, name).numpy().reshape(data.nworld, -1).astype(float) for name in _INPUTS}
            states = [getattr(data, name).numpy().reshape(data.nworld, -1) for name in ("time", "qpos", "qvel", "act")]
            state = np.hstack([each for each in states if each.size]).astype(float)
            control = np.hstack([each for each in rows.values() if each.size])[:, None]
            warm = data.qacc_warmstart.numpy().astype(float)
            times = []
            for _ in range(3):
                began = time.perf_counter()
                rollout.rollout(
                    model, workers, state, control, control_spec=sum(map(int, kinds)), initial_warmstart=warm
                )
                times.append(time.perf_counter() - began)
            spent.append(min(times))
            stepper.step()

        solver._mujoco_warp_step = step
        env.unwrapped.sim.physics_manager._invalidate_graph()
        env.step(action)
    return 1e6 * sum(spent)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
