"""``python -m benchmarks stock``: the step times of our tasks, compared with Isaac Lab's tasks of the same robots."""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from rich.table import Table

from benchmarks.comparison import add_json, run_python
from benchmarks.stock_steps import STOCK
from ledger_lab.errors import UserError
from ledger_lab.ledger.meters.host import hardware_facts
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.reports.terminal.progress import Progress
from ledger_lab.training.runners.session import resolve_device
from ledger_lab.units import quantity

_ARMS = ("ours", "stock")


@dataclass(frozen=True, kw_only=True)
class Stepped:
    """One simulation."""

    task: str
    arm: str
    step_us: float
    """Time of an environment step of all environments [µs]."""
    physics_us: float
    """Time of its physics steps [µs]."""

    @property
    def manage_us(self) -> float:
        """Time of the rest of an environment step: managers, terms, sensors and resets [µs]."""
        return self.step_us - self.physics_us


def bench_stock(argv: Sequence[str]) -> int:
    """Step our tasks and Isaac Lab's in turn, and compare.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If an argument makes no sense.
        RuntimeError: If a simulation fails.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks stock",
        description="Compare the step times of LedgerLab's tasks with those of Isaac Lab's tasks of the same "
        "robots, without physics. The environments take random actions, and each task runs in a "
        "process of its own. Isaac Lab's tasks use LedgerLab's robots, ground and physics here, "
        "because Isaac Lab's must be downloaded. The difference is therefore in managers and sensors. "
        "On a GPU, the benchmark waits for the end of each call, so steps take longer than in a "
        "training.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks stock --tasks LedgerLab-Ant --num_envs 1024",
    )
    parser.add_argument(
        "--tasks",
        nargs="+",
        default=list(STOCK),
        metavar="TASK",
        help=f"Tasks to measure (default: {', '.join(STOCK)}).",
    )
    parser.add_argument("--num_envs", type=int, default=512, help="Number of environments (default: 512).")
    parser.add_argument("--steps", type=int, default=100, help="Number of environment steps to measure (default: 100).")
    parser.add_argument("--rounds", type=int, default=3, help="Number of simulations of each task (default: 3).")
    parser.add_argument("--device", default="cpu", help="Device (default: cpu).")
    add_json(parser, "every simulation")
    args = parser.parse_args(argv)
    if strangers := [task for task in args.tasks if task not in STOCK]:
        raise UserError(
            f"--tasks {strangers[0]}: Isaac Lab's task must need no more than a robot on the ground: choose "
            f"from {', '.join(STOCK)}"
        )
    for name in ("num_envs", "steps", "rounds"):
        if getattr(args, name) < 1:
            raise UserError(f"--{name} {getattr(args, name)}: must be at least 1")

    args.device = resolve_device(args.device)
    console = make_console()
    stepped: list[Stepped] = []
    with Progress(console, "simulations", 2 * args.rounds * len(args.tasks)) as progress:
        for index in range(args.rounds):
            for task in args.tasks:
                for arm in _ARMS if index % 2 == 0 else _ARMS[::-1]:
                    stepped.append(_step(task, arm, args))
                    progress.advance(len(stepped), f"{task} {arm}")
    table = Table(box=None, pad_edge=False)
    for name in ("task", "steps/s", "stock's", "without physics", "stock's", "ratio", "from", "to"):
        table.add_column(name, justify="left" if name == "task" else "right")
    compared = {}
    for task in args.tasks:
        ours, stock = ([each for each in stepped if (each.task, each.arm) == (task, arm)] for arm in _ARMS)
        ratios = sorted(a.manage_us / b.manage_us for a, b in zip(ours, stock, strict=True))
        compared[task] = {"manage_ratio": statistics.median(ratios), "from": ratios[0], "to": ratios[-1]}
        table.add_row(
            task,
            *(quantity(args.num_envs * 1e6 / statistics.median(each.step_us for each in arm)) for arm in (ours, stock)),
            *(f"{statistics.median(each.manage_us for each in arm) / 1e3:.2f} ms" for arm in (ours, stock)),
            *(f"{ratio:.2f}" for ratio in (statistics.median(ratios), ratios[0], ratios[-1])),
        )
    console.print(table)
    write_findings(
        args.json,
        hardware=hardware_facts(),
        num_envs=args.num_envs,
        compared=compared,
        simulations=[asdict(each) for each in stepped],
    )
    return 0


def _step(task: str, arm: str, args: argparse.Namespace) -> Stepped:
    """Run one simulation in a new process."""
    program = ["-m", "benchmarks.stock_steps", task, arm, str(args.num_envs), str(args.steps), args.device]
    printed = run_python(program, f"the simulation of {task}, {arm},").splitlines()
    return Stepped(task=task, arm=arm, **json.loads(next(line for line in reversed(printed) if line.startswith("{"))))
