"""``python -m benchmarks threads``: gradient steps of the recipes in one and in several threads of torch."""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table

from benchmarks.comparison import add_json
from ledger_lab.errors import UserError, nearest
from ledger_lab.ledger.meters.host import hardware_facts
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.tasks.pack import TASKS

if TYPE_CHECKING:
    import torch

_OBSERVATIONS = 48
"""Observations of a network; the recipes' tasks have between 4 and 235."""


def bench_threads(argv: Sequence[str]) -> int:
    """Time the gradient steps of recipes in several numbers of threads, in turns, and print what the rule chooses.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If a task has no recipe, or a number is too small.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks threads",
        description="Measure the time of a gradient step with one and with several threads of torch, for the networks "
        "and minibatches of the recipes. The numbers of threads take turns. The last column shows the number of "
        "threads that a training on the CPU uses.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks threads --tasks LedgerLab-Ant LedgerLab-Reach-Franka",
    )
    parser.add_argument(
        "--tasks", nargs="+", default=list(TASKS), help="Tasks with a recipe (default: all included tasks)."
    )
    parser.add_argument(
        "--threads",
        type=int,
        nargs="+",
        default=[1, len(os.sched_getaffinity(0))],
        help="Numbers of threads (default: 1, and the number of cores).",
    )
    parser.add_argument("--steps", type=int, default=20, help="Gradient steps of a turn (default: 20).")
    parser.add_argument("--rounds", type=int, default=5, help="Turns of each number of threads (default: 5).")
    add_json(parser, "all figures")
    args = parser.parse_args(argv)
    for task in args.tasks:
        if task not in TASKS:
            raise UserError(f"--tasks {task}: LedgerLab has no recipe for it ({nearest(task, list(TASKS))})")
    if min(args.steps, args.rounds, *args.threads) < 1:
        raise UserError("--threads, --steps and --rounds must be at least 1")

    from ledger_lab.training.runners.threads import threads_for

    table = Table("task", "minibatch", "threads", "wall", "processor", "chosen", box=None, pad_edge=False)
    findings = []
    for task in args.tasks:
        recipe = TASKS[task].recipe
        minibatch = recipe.num_envs * recipe.horizon // recipe.minibatches
        chosen = threads_for(max(args.threads), recipe.hidden_dims, recipe.num_envs, minibatch, "cpu").learn
        for count, (wall_us, cpu_us) in _measure(recipe.hidden_dims, minibatch, args).items():
            wall, cpu = f"{wall_us:.0f} µs", f"{cpu_us:.0f} µs"
            table.add_row(task, str(minibatch), str(count), wall, cpu, "←" if count == chosen else "")
            found: dict[str, Any] = {"task": task, "minibatch": minibatch, "threads": count, "chosen": count == chosen}
            findings.append({**found, "wall_us": wall_us, "cpu_us": cpu_us})
    make_console().print(table)
    write_findings(args.json, hardware=hardware_facts(), load=os.getloadavg()[0], steps=findings)
    return 0


def _measure(hidden_dims: Sequence[int], minibatch: int, args: argparse.Namespace) -> dict[int, tuple[float, float]]:
    """Return the medians over all turns of the wall-clock and processor time of a gradient step [us], by threads."""
    import torch

    from ledger_lab.training.runners.threads import torch_threads

    parameters, gradients = _gradient_step(_OBSERVATIONS, hidden_dims, minibatch, "cpu")
    optimizer = torch.optim.Adam(parameters)
    times: dict[int, list[tuple[float, float]]] = {count: [] for count in args.threads}
    for number in range(args.rounds + 1):
        for count in args.threads if number % 2 else reversed(args.threads):
            with torch_threads(count):
                began_ns, began_cpu_ns = time.perf_counter_ns(), time.process_time_ns()
                for _ in range(args.steps):
                    gradients()
                    optimizer.step()
                wall_ns, cpu_ns = time.perf_counter_ns() - began_ns, time.process_time_ns() - began_cpu_ns
            if number:  # the first turn warms up
                times[count].append((wall_ns / args.steps / 1e3, cpu_ns / args.steps / 1e3))
    return {
        count: (statistics.median(wall for wall, _ in each), statistics.median(cpu for _, cpu in each))
        for count, each in times.items()
    }


def _gradient_step(
    observations: int, hidden_dims: Sequence[int], minibatch: int, device: str
) -> tuple[list[torch.nn.Parameter], Callable[[], None]]:
    """Make a policy and a value network on random observations.

    Args:
        observations: Number of values of an observation.
        hidden_dims: Widths of the hidden layers.
        minibatch: Number of observations.
        device: Their device.

    Returns:
        The parameters of both networks, and a function that computes their gradients and clips them.
    """
    import torch

    torch.manual_seed(0)
    widths = [observations, *hidden_dims]
    modules: list[list[torch.nn.Module]] = []
    for _ in ("policy", "value"):
        layers: list[torch.nn.Module] = []
        for width, following in zip(widths, widths[1:], strict=False):
            layers += [torch.nn.Linear(width, following), torch.nn.ELU()]
        modules.append([*layers, torch.nn.Linear(widths[-1], 1)])
    networks = torch.nn.ModuleList(torch.nn.Sequential(*layers) for layers in modules).to(device)
    parameters = list(networks.parameters())
    batch = torch.randn(minibatch, observations, device=device)

    def gradients() -> None:
        networks.zero_grad()
        sum((network(batch).square().mean() for network in networks), torch.zeros((), device=device)).backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)

    return parameters, gradients
