"""``python -m benchmarks native``: environment steps with MuJoCo's C code, compared with MuJoCo-Warp."""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections.abc import Sequence

from rich.table import Table

from benchmarks.comparison import add_json, require_tasks, run_python
from ledger_lab.errors import UserError
from ledger_lab.meters import hardware_facts
from ledger_lab.terminal.console import make_console
from ledger_lab.terminal.findings import write_findings
from ledger_lab.terminal.progress import Progress

TASKS = (
    *("LedgerLab-Cartpole", "LedgerLab-Ant", "LedgerLab-Humanoid", "LedgerLab-Velocity-Flat-AnymalC"),
    *("LedgerLab-Velocity-Flat-Go2", "LedgerLab-Reach-Franka", "LedgerLab-Lift-Cube-Franka"),
    *("LedgerLab-Navigation-Flat-AnymalC", "LedgerLab-Velocity-Rough-AnymalC"),
)
_ENGINES = ("newton_mjwarp", "newton_mujoco")


def bench_native(argv: Sequence[str]) -> int:
    """Step each task by both engines in turn, and print the ratios.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If a task is unknown, or a number is not positive.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks native",
        description="Measure environment steps with random actions on the CPU: with MuJoCo-Warp "
        "(physics=newton_mjwarp, one thread), and with MuJoCo's C code (physics=newton_mujoco). The engines take "
        "turns. Also compare the physics of an environment step with the speed of MuJoCo alone: mj_step with the same "
        "model and states, divided among the threads, without Newton, Isaac Lab and sensors.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks native --tasks LedgerLab-Ant --threads 1 2 --pairs 3",
    )
    parser.add_argument("--tasks", nargs="+", default=TASKS, metavar="TASK", help="Tasks (default: all of LedgerLab).")
    cores = len(os.sched_getaffinity(0))
    parser.add_argument(
        "--threads",
        nargs="+",
        type=int,
        default=[cores],
        metavar="N",
        help=f"Numbers of threads for MuJoCo's C code (default: {cores}, the cores of this process).",
    )
    parser.add_argument("--num_envs", type=int, default=512, help="Number of environments (default: 512).")
    parser.add_argument("--steps", type=int, default=40, help="Environment steps to time (default: 40).")
    parser.add_argument("--pairs", type=int, default=3, help="How often each engine has its turn (default: 3).")
    add_json(parser, "all figures")
    args = parser.parse_args(argv)
    if min(args.num_envs, args.steps, args.pairs, *args.threads) < 1:
        raise UserError("--num_envs, --steps, --pairs and --threads must be at least 1")
    require_tasks(args.tasks)
    arms = [(_ENGINES[0], 1), *((_ENGINES[1], threads) for threads in args.threads)]
    console, figures, done = make_console(), [], 0
    with Progress(console, "stepping", len(args.tasks) * len(arms) * args.pairs) as progress:
        for task in args.tasks:
            turns: dict[tuple[str, int], list[dict[str, float]]] = {arm: [] for arm in arms}
            for _ in range(args.pairs):
                for engine, threads in arms:
                    sizes = map(str, (threads, args.num_envs, args.steps))
                    output = run_python(["-m", "benchmarks.native_steps", task, engine, *sizes], f"{task} {engine}")
                    turns[engine, threads].append(json.loads(output.rstrip().rpartition("\n")[2]))
                    progress.advance(done := done + 1)
            figures += [
                {"task": task, "physics": engine, "threads": threads, "turns": turns[engine, threads]}
                for engine, threads in arms
            ]
    table = Table("task", "physics", "threads", "env steps/s", "ratio", "of MuJoCo alone", box=None, pad_edge=False)
    for figure in figures:
        step_us = statistics.median(turn["step_us"] for turn in figure["turns"])
        if figure["physics"] == _ENGINES[0]:
            base = [turn["step_us"] for turn in figure["turns"]]
        pairs = zip(base, (turn["step_us"] for turn in figure["turns"]), strict=True)
        shares = [turn["mujoco_us"] / turn["physics_us"] for turn in figure["turns"] if "mujoco_us" in turn]
        table.add_row(
            figure["task"],
            figure["physics"],
            str(figure["threads"]),
            f"{1e6 * args.num_envs / step_us:,.0f}",
            f"{statistics.median(warp / own for warp, own in pairs):.2f}",
            f"{statistics.median(shares):.0%}" if shares else "",
        )
    console.print(table)
    write_findings(args.json, hardware=hardware_facts(), num_envs=args.num_envs, steps=args.steps, figures=figures)
    return 0
