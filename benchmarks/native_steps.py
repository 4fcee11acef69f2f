"""One simulation of a task, stepped with random actions by MuJoCo-Warp or by MuJoCo's C code.

With the C code, the physics of two environment steps, before and after the timed ones, is also done by ``mj_step``
alone: from the same states, with the same model, and without Newton, Isaac Lab and sensors.

Figures are per environment step. Those named ``cpu`` are processor time of all threads.
"""

from __future__ import annotations

import json
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ledger_lab.ledger.meters.probes import Part, Probes
from ledger_lab.mujoco_cpu.threads import pool
from ledger_lab.tasks.registry import registered_tasks
from ledger_lab.training.runners.configs import resolve_configs
from ledger_lab.training.runners.session import environment, recorded_physics, require_runtime, simulation_app

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
        alone = [_by_mujoco(env, first)] if native else []
        env.step(actions[WARM_UP - 1])  # and record the physics again
        probes = Probes(None)
        spent_ns: list[int] = []
        take_step, workers = base.sim.step, pool()

        def metered(*arguments: Any, **named: Any) -> None:  # noqa: ANN401 - Isaac Lab's own
            began, workers.timed = time.process_time_ns(), 1
            take_step(*arguments, **named)
            workers.timed = 0
            spent_ns.append(time.process_time_ns() - began)

        base.sim.step = metered
        probes.attach(Part(base.sim, "step", _PHYSICS))
        began_ns, began_cpu_ns = time.perf_counter_ns(), time.process_time_ns()
        for action in actions[WARM_UP:]:
            env.step(action)
        found: dict[str, Any] = {
            "step_us": (time.perf_counter_ns() - began_ns) / steps / 1e3,
            "step_cpu_us": (time.process_time_ns() - began_cpu_ns) / steps / 1e3,
            "physics_us": sum(sum(each.total_ns) for each in probes.samples) / steps / 1e3,
            "physics_cpu_us": sum(spent_ns) / steps / 1e3,
        }
        probes.detach()
        base.sim.step = take_step
        if native:
            alone.append(_by_mujoco(env, last))
            found["mujoco_us"] = statistics.mean(map(sum, alone)) / threads
        if native and threads == 1:
            found |= {"divisible_us": workers.busy_ns / steps / 1e3, "tasks": workers.tasks / steps}
            found |= {"mujoco_steps": len(alone[0]) // num_envs, "world_us": statistics.quantiles(alone[0], n=33)}
        found["peak_memory_bytes"] = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        sys.stdout.write(f"\n{json.dumps(found)}\n")
    return 0


def _by_mujoco(env: Any, action: torch.Tensor) -> list[float]:  # noqa: ANN401 - Gymnasium's wrapper
    """Take an environment step; return how long MuJoCo alone takes for each step of an environment in it [us].

    ``mj_step`` is called for one environment after the other; only these calls are timed, on one thread. Several
    threads would ideally need the corresponding fraction of the sum.

    Args:
        env: The environment.
        action: The actions of the step.
    """
    import mujoco
    import warp
    from isaaclab_newton.physics import NewtonManager

    solver: Any = NewtonManager._solver
    data, stepper = solver.mjw_data, solver.stepper
    model = stepper._models[0]
    own = mujoco.MjData(model)
    spent_us: list[float] = []

    def pass_us(rows: dict[str, Any], places: dict[str, Any], step: Callable[..., None]) -> list[float]:
        spent = []
        for world in range(data.nworld):
            for name, place in places.items():
                place[:] = rows[name][world]
            began = time.thread_time_ns()
            step(model, own)
            spent.append((time.thread_time_ns() - began) / 1e3)
        return spent

    def step() -> None:
        if not warp.get_device("cpu").is_capturing:  # then nothing runs
            rows = {name: getattr(data, name).numpy() for name in _INPUTS if getattr(data, name).size}
            places = {name: getattr(own, name) for name in rows}
            passes = [pass_us(rows, places, mujoco.mj_step) for _ in range(3)]
            timer_us = statistics.median(pass_us(rows, places, lambda *_: None))
            spent_us.extend(statistics.median(times) - timer_us for times in zip(*passes, strict=True))
        stepper.step()

    solver._mujoco_warp_step = step
    simulation = env.unwrapped.sim
    take_step = simulation.step

    def launched(*arguments: Any, **named: Any) -> None:  # noqa: ANN401 - Isaac Lab's own
        simulation.physics_manager._invalidate_graph()  # else only the first physics step is not replayed
        take_step(*arguments, **named)

    simulation.step = launched
    env.step(action)
    del solver._mujoco_warp_step  # the method of the class is visible again
    simulation.step = take_step
    simulation.physics_manager._invalidate_graph()
    return spent_us


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
