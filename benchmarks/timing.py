"""``python -m benchmarks timing``: the phases of a training on a GPU, by each way of timing."""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import get_args

import torch
from rich.table import Table

from benchmarks.comparison import add_json, run_python, script
from ledger_lab.errors import UserError
from ledger_lab.ledger import Timing
from ledger_lab.ledger.meters.host import hardware_facts
from ledger_lab.ledger.meters.phases import Phase
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.reports.terminal.progress import Progress

_MODES: tuple[Timing, ...] = get_args(Timing)

_LARGEST_DIFFERENCE = 0.05
"""Largest relative difference between a phase by events and the same phase of a synchronized training."""
_SMALLEST_PHASE = 0.02
"""Share of the loop below which a phase is not compared."""
_LARGEST_GAP = 0.01
"""Largest relative difference between the sum of the phases and the time between the rows."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Times of a training loop, each per iteration [s]."""

    timing: Timing
    iterations: int
    phases_s: dict[str, float]
    device_bound_s: dict[str, float]
    """Part of the phases that the device determined; empty if it was not measured."""
    wall_s: float
    """Time by the time stamps of the rows."""

    @property
    def sum_s(self) -> float:
        """Sum of the phases."""
        return sum(self.phases_s.values())


def bench_timing(argv: Sequence[str]) -> int:
    """Train with each way of timing, and compare the phases.

    Args:
        argv: Command line without the program's name.

    Returns:
        0 if the phases sum to the wall-clock time, and those by events agree with the synchronized ones; else 1.

    Raises:
        UserError: If an argument makes no sense, or there is no GPU.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks timing",
        description="Train on a GPU with --timing host, events and synchronized in turn, with scoring, and compare the "
        "time per phase. The check passes if the phases sum to the wall-clock time within 1 %, and if each phase that "
        "takes at least 2 % of the loop agrees within 5 % between events and synchronized. A synchronized "
        "training is slower where launches and work overlap. The last line shows how much the events cost, compared "
        "with host.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks timing --num_envs 4096 --repeats 3",
    )
    parser.add_argument(
        "--task",
        default="LedgerLab-Velocity-Flat-AnymalC",
        help="Task to train (default: LedgerLab-Velocity-Flat-AnymalC).",
    )
    parser.add_argument("--rl_library", default="rsl_rl", help="RL library: rsl_rl, rl_games, skrl (default: rsl_rl).")
    parser.add_argument("--num_envs", type=int, default=4096, help="Number of environments (default: 4096).")
    parser.add_argument("--iterations", type=int, default=60, help="Number of iterations per training (default: 60).")
    parser.add_argument("--skip", type=int, default=10, help="Number of first iterations to leave out (default: 10).")
    parser.add_argument("--repeats", type=int, default=2, help="Number of trainings per way of timing (default: 2).")
    parser.add_argument("--device", default="cuda", help="Device (default: cuda).")
    add_json(parser, "the times of every training")
    args = parser.parse_args(argv)
    if not 0 <= args.skip < args.iterations - 1 or args.repeats < 1:
        raise UserError("--iterations must be at least --skip + 2, and --repeats at least 1")
    if args.device == "cpu" or not torch.cuda.is_available():
        raise UserError("benchmarks timing compares the clocks of a CUDA GPU: run it on a machine with one")

    console = make_console()
    found: list[Measured] = []
    with tempfile.TemporaryDirectory() as folder, Progress(console, "training", len(_MODES) * args.repeats) as progress:
        for number in range(args.repeats):
            for mode in _MODES if number % 2 == 0 else reversed(_MODES):
                root = Path(folder) / f"{mode}-{number}"
                run_python(
                    [script("train.py"), "--task", args.task, "--rl_library", args.rl_library, "--timing", mode]
                    + ["--num_envs", str(args.num_envs), "--max_iterations", str(args.iterations), "--seed", "1"]
                    + ["--device", args.device, "--no_stop_at_target", "--log_root", str(root)],
                    f"the training with --timing {mode}",
                )
                (journal,) = root.rglob("journal-1-0.jsonl")
                with journal.open(encoding="utf-8") as rows:
                    found.append(measure(mode, rows, args.skip))
                progress.advance(len(found))
    by_mode = {mode: _median([each for each in found if each.timing == mode]) for mode in _MODES}
    console.print(_table(by_mode))
    complaints = disagreements(by_mode)
    for complaint in complaints:
        console.print(complaint)
    cost = by_mode["events"].wall_s / by_mode["host"].wall_s - 1
    console.print(f"an iteration takes {cost:+.2%} with events, compared with host")
    write_findings(
        args.json,
        hardware=hardware_facts(),
        device=torch.cuda.get_device_name(args.device),
        events_cost=cost,
        disagreements=complaints,
        trainings=[asdict(each) for each in found],
    )
    return 1 if complaints else 0


def measure(timing: Timing, rows: Iterable[str], skip: int) -> Measured:
    """Read the times of a training from its journal.

    Args:
        timing: How it was timed.
        rows: The lines of the journal.
        skip: Number of first iterations to leave out.

    Raises:
        ValueError: If no iteration follows them.
    """
    spent_ns: Counter[str] = Counter()
    bound_ns: Counter[str] = Counter()
    ends_ns: list[int] = []
    last = max(skip, 1) - 1
    for row in map(json.loads, rows):
        iteration = row["data"].get("iteration") or 0
        if row["kind"] != "PhaseWindow" or iteration <= last:  # a training that is ended names its last iteration twice
            continue
        last = iteration
        ends_ns.append(row["data"]["wall_ns"])
        if len(ends_ns) > 1:  # the first row only ends the iterations that are left out
            spent_ns.update(row["data"]["phase_ns"])
            bound_ns.update(row["data"].get("device_bound_ns") or {})
    iterations = len(ends_ns) - 1
    if iterations < 1:
        raise ValueError(f"no whole iteration after the first {max(skip, 1)}")
    return Measured(
        timing=timing,
        iterations=iterations,
        phases_s={phase: nanoseconds / 1e9 / iterations for phase, nanoseconds in spent_ns.items()},
        device_bound_s={phase: nanoseconds / 1e9 / iterations for phase, nanoseconds in bound_ns.items()},
        wall_s=(ends_ns[-1] - ends_ns[0]) / 1e9 / iterations,
    )


def disagreements(by_mode: Mapping[Timing, Measured]) -> list[str]:
    """Return what contradicts the claims about timing, as sentences.

    Args:
        by_mode: Times by the way of timing.
    """
    found = [
        f"--timing {mode}: the phases sum to {1e3 * each.sum_s:.1f} ms, where an iteration takes "
        f"{1e3 * each.wall_s:.1f} ms"
        for mode, each in by_mode.items()
        if abs(each.sum_s / each.wall_s - 1) > _LARGEST_GAP
    ]
    events, synchronized = by_mode["events"], by_mode["synchronized"]
    for phase in Phase:
        ours, theirs = events.phases_s.get(phase, 0.0), synchronized.phases_s.get(phase, 0.0)
        if (
            max(ours, theirs) >= _SMALLEST_PHASE * synchronized.sum_s
            and abs(ours - theirs) > _LARGEST_DIFFERENCE * theirs
        ):
            found.append(f"{phase}: {1e3 * ours:.1f} ms by events, and {1e3 * theirs:.1f} ms synchronized")
    return found


def _median(trainings: Sequence[Measured]) -> Measured:
    """Return the training with the median wall-clock time, the lower one of two."""
    wall_s = statistics.median_low(each.wall_s for each in trainings)
    return next(each for each in trainings if each.wall_s == wall_s)


def _table(by_mode: Mapping[Timing, Measured]) -> Table:
    """Return the times per phase as a table."""
    table = Table(box=None, pad_edge=False)
    for title in ("ms per iteration", *by_mode, "determined by the GPU"):
        table.add_column(title, justify="left" if title == "ms per iteration" else "right")
    events = by_mode["events"]
    for phase in (phase for phase in Phase if any(phase in each.phases_s for each in by_mode.values())):
        times = [f"{1e3 * each.phases_s.get(phase, 0.0):.2f}" for each in by_mode.values()]
        spent_s = events.phases_s.get(phase)
        table.add_row(phase, *times, f"{events.device_bound_s.get(phase, 0.0) / spent_s:.0%}" if spent_s else "–")
    table.add_row("sum", *(f"{1e3 * each.sum_s:.2f}" for each in by_mode.values()), "")
    table.add_row("by time stamps", *(f"{1e3 * each.wall_s:.2f}" for each in by_mode.values()), "")
    return table
