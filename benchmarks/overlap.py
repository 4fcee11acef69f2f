"""``python -m benchmarks overlap``: SAC and TD3 with gradient steps beside the simulation, compared with turns."""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from rich.table import Table

from benchmarks.comparison import add_json, run_python
from ledger_lab.errors import UserError
from ledger_lab.ledger.meters import hardware_facts
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.reports.terminal.progress import Progress

TASKS = ("LedgerLab-Cartpole", "LedgerLab-Velocity-Flat-AnymalC")
ALGORITHMS = ("sac", "td3")


def bench_overlap(argv: Sequence[str]) -> int:
    """Train with and without ``agent.overlap``, in turns, and print the ratios.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If a number is not positive.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks overlap",
        description="Measure environment steps and gradient steps per second of short trainings on the CPU with "
        "MuJoCo's C code (physics=newton_mujoco): with gradient steps that take turns with the simulation, and with "
        "gradient steps beside it (agent.overlap=true). Both take turns, each in a process of its own. The table also "
        "shows how much of the learning was hidden behind the simulation, and by how much the acting policy lags. "
        "Nothing is scored. Measure on an idle machine.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks overlap --algorithms sac --updates 1 2 8 --pairs 5",
    )
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=TASKS, metavar="TASK", help=f"{', '.join(TASKS)}.")
    parser.add_argument("--algorithms", nargs="+", choices=ALGORITHMS, default=ALGORITHMS, help="sac, td3.")
    parser.add_argument(
        "--updates",
        nargs="+",
        type=int,
        default=[2],
        metavar="N",
        help="Numbers of gradient steps per step of all environments (default: 2).",
    )
    parser.add_argument("--num_envs", type=int, default=256, help="Number of environments (default: 256).")
    parser.add_argument("--iterations", type=int, default=10, help="Iterations of 32 steps to time (default: 10).")
    parser.add_argument("--pairs", type=int, default=3, help="How often each has its turn (default: 3).")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="One pair of one iteration with 16 environments. This checks the benchmark, and says nothing about speed.",
    )
    add_json(parser, "all figures")
    args = parser.parse_args(argv)
    if args.quick:
        args.num_envs, args.iterations, args.pairs = 16, 1, 1
    if min(args.num_envs, args.iterations, args.pairs, *args.updates) < 1:
        raise UserError("--updates, --num_envs, --iterations and --pairs must be at least 1")
    cases = [(task, each, updates) for task in args.tasks for each in args.algorithms for updates in args.updates]
    console, figures, done = make_console(), [], 0
    with Progress(console, "training", len(cases) * 2 * args.pairs) as progress:
        for task, algorithm, updates in cases:
            turns: dict[bool, list[dict[str, Any]]] = {False: [], True: []}
            for number in range(args.pairs):
                for overlaps in (False, True) if number % 2 == 0 else (True, False):
                    turns[overlaps].append(_turn(task, algorithm, overlaps, updates, args))
                    progress.advance(done := done + 1)
            figures.append(
                {"task": task, "algorithm": algorithm, "updates_per_step": updates}
                | {"in_turns": turns[False], "overlapping": turns[True]}
            )
    console.print(_table(figures))
    write_findings(
        args.json,
        hardware=hardware_facts(),
        load=os.getloadavg()[0],
        num_envs=args.num_envs,
        iterations=args.iterations,
        figures=figures,
    )
    return 0


def _turn(task: str, algorithm: str, overlaps: bool, updates: int, args: argparse.Namespace) -> dict[str, Any]:
    """Train in a process of its own; return what it measured."""
    sizes = map(str, (int(overlaps), args.num_envs, updates, args.iterations))
    output = run_python(["-m", "benchmarks.overlap_steps", task, algorithm, *sizes], f"{algorithm} on {task}")
    found: dict[str, Any] = json.loads(output.rstrip().rpartition("\n")[2])
    return found


def _table(figures: Sequence[dict[str, Any]]) -> Table:
    """Return medians, and the ratios of neighbouring turns."""
    titles = ("task", "algorithm", "updates", "gradient steps", "env steps/s", "gradient steps/s", "speed-up")
    table = Table(*titles, "wait for the learner", "hidden", "lag", box=None, pad_edge=False)
    for figure in figures:
        pairs = list(zip(figure["in_turns"], figure["overlapping"], strict=True))
        ratios = sorted(apart["step_ms"] / both["step_ms"] for apart, both in pairs)
        for name in ("in_turns", "overlapping"):
            turns = figure[name]
            row = [figure["task"], figure["algorithm"], str(figure["updates_per_step"]), name.replace("_", " ")]
            for rate in ("env_steps_per_s", "gradient_steps_per_s"):
                row += [f"{statistics.median(turn[rate] for turn in turns):,.0f}"]
            if name == "overlapping":
                lag = f"{turns[0]['policy_lag_steps']:.0f} step, {turns[0]['policy_lag_updates']:.0f} updates"
                row += [f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"]
                row += [_median_ms(turn["phases_ms"].get("learn", 0.0) for turn in turns)]
                row += [_median_ms(turn["overlapped_ms"] for turn in turns), lag]
            table.add_row(*row)
    return table


def _median_ms(times: Iterable[float]) -> str:
    """Return the median of times per step of all environments."""
    return f"{statistics.median(times):.2f} ms"
