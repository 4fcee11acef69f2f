"""One simulation of a task, stepped with random actions by MuJoCo-Warp or by MuJoCo's C code.

With the C code, the physics of two environment steps, before and after the timed ones, is also done by ``mj_step``
alone: from the same states, with the same model, and without Newton, Isaac Lab and sensors.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

import torch

from ledger_lab.meters.probes import Part, Probes
from ledger_lab.runners.configs import resolve_configs
from ledger_lab.runners.cpu_graphs import recorded_physics
from ledger_lab.runners.session import environment, require_runtime, simulation_app
from ledger_lab.tasks.registry import registered_tasks

WARM_UP = 20
"""Environment steps before anything is timed."""
_PHYSICS = "physics step"
_INPUTS = ("qpos", "qvel", "act", "qacc_warmstart", "ctrl", "qfrc_applied", "xfrc_applied")


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
        first, *actions, last = [2 * torch.rand(shape, generator=generator) - 1 for _ in range(WARM_UP + steps + 2)]
        for action in actions[: WARM_UP - 1]:
            env.step(action)
        alone_us = [_by_mujoco(env, first, threads)] if native else []
        env.step(actions[WARM_UP - 1])  # and record the physics again
        probes = Probes(None)
        probes.attach(Part(base.sim, "step", _PHYSICS))
        began_ns, began_cpu_ns = time.perf_counter_ns(), time.process_time_ns()
        for action in actions[WARM_UP:]:
            env.step(action)
        found: dict[str, Any] = {
            "step_us": (time.perf_counter_ns() - began_ns) / steps / 1e3,
            "step_cpu_us": (time.process_time_ns() - began_cpu_ns) / steps / 1e3,
            "physics_us": sum(sum(each.total_ns) for each in probes.samples) / steps / 1e3,
        }
        probes.detach()
        if native:
            found["mujoco_us"] = statistics.mean([*alone_us, _by_mujoco(env, last, threads)])
        sys.stdout.write(f"\n{json.dumps(found)}\n")
    return 0


def _by_mujoco(env: Any, action: torch.Tensor, threads: int) -> float:  # noqa: ANN401 - Gymnasium's wrapper
    """Return how long MuJoCo alone takes for the physics of one environment step [us].

    ``mj_step`` is called for one environment after the other, and the same loop without it is subtracted. Several
    threads would ideally need the corresponding fraction of this time.

    Args:
        env: The environment.
        action: The actions of the step.
        threads: Number of threads.
    """
    import mujoco
    import warp
    from isaaclab_newton.physics import NewtonManager

    solver: Any = NewtonManager._solver
    data, stepper = solver.mjw_data, solver.stepper
    model = stepper._models[0]
    own = mujoco.MjData(model)
    spent_s: list[float] = []

    def step() -> None:
        if warp.get_device("cpu").is_capturing:  # then nothing runs
            stepper.step()
            return
        rows = {name: getattr(data, name).numpy() for name in _INPUTS if getattr(data, name).size}
        places = {name: getattr(own, name) for name in rows}

        def pass_s(step: bool) -> float:
            began = time.thread_time()
            for world in range(data.nworld):
                for name, place in places.items():
                    place[:] = rows[name][world]
                if step:
                    mujoco.mj_step(model, own)
            return time.thread_time() - began

        spent_s.append(min(pass_s(True) for _ in range(3)) - min(pass_s(False) for _ in range(3)))
        stepper.step()

    solver._mujoco_warp_step = step
    simulation = env.unwrapped.sim
    take_step = simulation.step

    def launched(*arguments: Any, **named: Any) -> None:  # noqa: ANN401 - Isaac Lab's own
        simulation.physics_manager._invalidate_graph()  # else only the first physics step is not replayed
        take_step(*arguments, **named)

    simulation.step = launched
    env.step(action)
    del solver._mujoco_warp_step, simulation.step  # the methods of the classes are visible again
    simulation.physics_manager._invalidate_graph()
    return 1e6 * sum(spent_s) / threads


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
