"""``python -m benchmarks native``: environment steps with MuJoCo's C code, compared with MuJoCo-Warp."""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from benchmarks.comparison import add_json, require_tasks, run_python
from benchmarks.native_scaling import Physics
from ledger_lab.errors import UserError
from ledger_lab.ledger.meters.host import hardware_facts
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.reports.terminal.progress import Progress

TASKS = (
    *("LedgerLab-Cartpole", "LedgerLab-Ant", "LedgerLab-Humanoid", "LedgerLab-Velocity-Flat-AnymalC"),
    *("LedgerLab-Velocity-Flat-Go2", "LedgerLab-Reach-Franka", "LedgerLab-Lift-Cube-Franka"),
    *("LedgerLab-Navigation-Flat-AnymalC", "LedgerLab-Velocity-Rough-AnymalC"),
)
_ENGINES = ("newton_mjwarp", "newton_mujoco")
_FEW = 64
"""Environments of the simulation whose memory is subtracted."""
_CORES = (2, 16, 64)
"""Numbers of cores for which speed-ups are computed."""


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
        "model and states, divided among the threads, without Newton, Isaac Lab and sensors. Processor time includes "
        "all threads, and other programs disturb it less. Memory is that of one environment, without that of the "
        "process. With --threads 1, also print the share of the physics that must run on one thread, and predict the "
        "speed with more cores: the largest possible speed-up, and a simulated one.",
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
    if max(args.threads) > cores:
        raise UserError(f"--threads {max(args.threads)}: this process has {cores} cores")
    require_tasks(args.tasks)
    arms = [(_ENGINES[0], 1), *((_ENGINES[1], threads) for threads in args.threads)]
    console, figures, done = make_console(), [], 0
    with Progress(console, "stepping", len(args.tasks) * (len(arms) * args.pairs + 1)) as progress:
        for task in args.tasks:
            turns: dict[tuple[str, int], list[dict[str, Any]]] = {arm: [] for arm in arms}
            for _ in range(args.pairs):
                for engine, threads in arms:
                    turns[engine, threads].append(_turn(task, engine, threads, args.num_envs, args.steps))
                    progress.advance(done := done + 1)
            few = _turn(task, _ENGINES[1], args.threads[0], _FEW, 1)["peak_memory_bytes"]
            progress.advance(done := done + 1)
            figures += [
                {"task": task, "physics": engine, "threads": threads, "turns": turns[engine, threads]}
                | ({"few_peak_memory_bytes": few} if engine == _ENGINES[1] else {})
                for engine, threads in arms
            ]
    console.print(_speeds(figures, args.num_envs))
    if 1 in args.threads:
        console.print(_scaling(figures, args.num_envs))
    write_findings(args.json, hardware=hardware_facts(), num_envs=args.num_envs, steps=args.steps, figures=figures)
    return 0


def _turn(task: str, engine: str, threads: int, num_envs: int, steps: int) -> dict[str, Any]:
    """Step a task in a process of its own; return what it measured."""
    sizes = map(str, (threads, num_envs, steps))
    output = run_python(["-m", "benchmarks.native_steps", task, engine, *sizes], f"{task} {engine}")
    found: dict[str, Any] = json.loads(output.rstrip().rpartition("\n")[2])
    return found


def _speeds(figures: Sequence[dict[str, Any]], num_envs: int) -> Table:
    """Return the table of speeds and memory."""
    titles = (
        "task",
        "physics",
        "threads",
        "env steps/s",
        "ratio",
        "of MuJoCo alone",
        "in processor time",
        "MB per env",
    )
    table = Table(*titles, box=None, pad_edge=False)
    for figure in figures:
        turns, threads = figure["turns"], figure["threads"]
        step_us = statistics.median(turn["step_us"] for turn in turns)
        if figure["physics"] == _ENGINES[0]:
            base = [turn["step_us"] for turn in turns]
        pairs = zip(base, (turn["step_us"] for turn in turns), strict=True)
        row = [figure["task"], figure["physics"], str(threads), f"{1e6 * num_envs / step_us:,.0f}"]
        row.append(f"{statistics.median(warp / own for warp, own in pairs):.2f}")
        if figure["physics"] == _ENGINES[1]:
            row.append(f"{statistics.median(turn['mujoco_us'] / turn['physics_us'] for turn in turns):.0%}")
            processor = (threads * turn["mujoco_us"] / turn["physics_cpu_us"] for turn in turns)
            row.append(f"{statistics.median(processor):.0%}")
            more = statistics.median(turn["peak_memory_bytes"] for turn in turns) - figure["few_peak_memory_bytes"]
            row.append(f"{more / (num_envs - _FEW) / 1e6:.2f}" if num_envs > _FEW else "")
        table.add_row(*row)
    return table


def _scaling(figures: Sequence[dict[str, Any]], num_envs: int) -> Table:
    """Return the table of speed-ups of the physics: measured, and computed for more cores."""
    measured = sorted({figure["threads"] for figure in figures if figure["physics"] == _ENGINES[1]} - {1})
    titles = ["task", "one thread only", *(f"{threads} threads, measured" for threads in measured)]
    titles += [f"{threads}, {what}" for threads in _CORES for what in ("at most", "simulated")]
    table = Table(*titles, box=None, pad_edge=False)
    for one in figures:
        if one["physics"] != _ENGINES[1] or one["threads"] != 1:
            continue
        physics = [
            Physics(
                worlds=num_envs,
                whole_us=turn["physics_cpu_us"],
                divisible_us=turn["divisible_us"],
                mujoco_us=turn["mujoco_us"],
                tasks=turn["tasks"],
                steps=turn["mujoco_steps"],
                world_us=turn["world_us"],
            )
            for turn in one["turns"]
        ]
        row = [one["task"], f"{statistics.median(each.serial_share for each in physics):.1%}"]
        for threads in measured:
            several = next(each for each in figures if (each["task"], each["threads"]) == (one["task"], threads))
            pairs = zip(one["turns"], several["turns"], strict=True)
            faster = statistics.median(alone["physics_us"] / both["physics_us"] for alone, both in pairs)
            row.append(f"{faster:.2f} ({faster / threads:.0%})")
        row += [
            f"{statistics.median(speedup(each, threads) for each in physics):.1f}"
            for threads in _CORES
            for speedup in (Physics.most, Physics.simulated)
        ]
        table.add_row(*row)
    return table
