"""``python -m benchmarks constraint_rows``: the time that unused constraint rows of MuJoCo-Warp take on a CPU."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence

from rich.table import Table

from benchmarks.comparison import add_json, require_tasks, run_python
from ledger_lab.errors import UserError
from ledger_lab.ledger.meters import hardware_facts
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.reports.time_per_size import fit_time_per_size

_TASKS = ("LedgerLab-Cartpole", "LedgerLab-Ant", "LedgerLab-Reach-Franka", "LedgerLab-Humanoid")
_WARM_UP, _BLOCK, _BLOCKS = 10, 8, 5
"""Environment steps before anything is timed, environment steps per block, and blocks per simulation."""


def bench_constraint_rows(argv: Sequence[str]) -> int:
    """Step each task with several capacities for constraint rows, and fit the time of its physics.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If an argument makes no sense.
        RuntimeError: If a simulation fails.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks constraint_rows",
        description="Measure the time that unused constraint rows of MuJoCo-Warp take on a CPU. Each task is simulated "
        "with its own capacity njmax and with larger ones, with random actions. A line is fitted to the processor "
        "time of the physics. Its slope, divided by its value without rows, is the time of a row.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks constraint_rows --tasks LedgerLab-Ant --num_envs 1024",
    )
    parser.add_argument(
        "--tasks", nargs="+", default=_TASKS, metavar="TASK", help=f"Tasks (default: {', '.join(_TASKS)})."
    )
    parser.add_argument("--rows", nargs="+", type=int, default=[150, 300], help="Larger capacities (default: 150 300).")
    parser.add_argument("--num_envs", type=int, default=256, help="Number of environments (default: 256).")
    add_json(parser, "every simulation")
    args = parser.parse_args(argv)
    if min(args.num_envs, *args.rows) < 1:
        raise UserError(f"--num_envs {args.num_envs} --rows {args.rows}: must be at least 1")
    require_tasks(args.tasks)
    console = make_console()
    table = Table(box=None, pad_edge=False)
    for name in ("task", "rows", "needed", "physics per environment step", "time of a row"):
        table.add_column(name, justify="left" if name == "task" else "right")
    simulations, shares = [], {}
    for task in args.tasks:
        program = ["-m", "benchmarks.constraint_rows", task, str(args.num_envs), *map(str, args.rows)]
        printed = run_python(program, f"the simulation of {task}").splitlines()
        own = [json.loads(line) for line in printed if line.startswith('{"task"')]
        fit = fit_time_per_size([(each["rows"], each["physics_us"]) for each in own])
        assert fit is not None and fit.fixed > 0
        shares[task] = fit.per_item / fit.fixed
        simulations += own
        for each in own:
            figures = (each["rows"], each["needed"], f"{each['physics_us']:.1f} µs", f"{100 * shares[task]:.2f} %")
            table.add_row(task, *map(str, figures))
        console.print(f"{task}: a row takes {100 * shares[task]:.2f} % of the physics without rows")
    console.print(table)
    write_findings(
        args.json, hardware=hardware_facts(), num_envs=args.num_envs, share_of_a_row=shares, simulations=simulations
    )
    return 0


def main(arguments: Sequence[str]) -> int:
    """Simulate a task with its own capacity and with others, and print one JSON object per simulation.

    Args:
        arguments: Task, environments, capacities.

    Returns:
        0.
    """
    import torch

    from ledger_lab.panels.capacity import CapacityWatch
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.configs import resolve_configs
    from ledger_lab.training.runners.cpu_graphs import recorded_physics
    from ledger_lab.training.runners.session import environment, simulation_app

    registered_tasks()
    task, num_envs, capacities = arguments[0], int(arguments[1]), [None, *map(int, arguments[2:])]
    torch.set_num_threads(1)
    first, _ = resolve_configs(task, "rsl_rl", [])
    first.sim.device = "cpu"
    with simulation_app(first, {"device": "cpu"}):
        for rows in capacities:
            overrides = [] if rows is None else [f"env.sim.physics.solver_cfg.njmax={rows}"]
            cfg, _ = resolve_configs(task, "rsl_rl", overrides)
            cfg.sim.device, cfg.scene.num_envs, cfg.seed = "cpu", num_envs, 1
            with environment(task, cfg) as env, recorded_physics(env), torch.inference_mode():
                watch = CapacityWatch.attach(env)
                assert watch is not None
                base, spent_s = env.unwrapped, [0.0]
                env.reset()
                step = base.sim.step

                def timed(step: object = step, spent_s: list[float] = spent_s, **arguments: object) -> None:
                    began_s = time.process_time()
                    step(**arguments)  # type: ignore[operator]
                    spent_s[-1] += time.process_time() - began_s

                base.sim.step = timed
                generator = torch.Generator().manual_seed(1)
                for index in range(_WARM_UP + _BLOCKS * _BLOCK):
                    if index >= _WARM_UP and (index - _WARM_UP) % _BLOCK == 0:
                        spent_s.append(0.0)
                    env.step(torch.randn(num_envs, base.action_manager.total_action_dim, generator=generator) * 0.3)
                found = {
                    "task": task,
                    "rows": watch.constraints.capacity,
                    "needed": watch.constraints.needed,
                    "physics_us": statistics.median(spent_s[1:]) / _BLOCK / num_envs * 1e6,
                }
                watch.detach()
            sys.stdout.write(f"\n{json.dumps(found)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
