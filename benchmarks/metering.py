"""``python -m benchmarks metering``: the cost of meter, telemetry and supervisor in a training.

Two trainings differ by more than the cost of metering. So this benchmark switches metering on and off within one
training, every few iterations, in the order on, off, off, on, which cancels drift. Run as a module, this file is that
training.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from rich.table import Table
from scipy.stats import bootstrap

from benchmarks.comparison import add_json, run_python
from ledger_lab.errors import UserError
from ledger_lab.ledger.meters.host import hardware_facts
from ledger_lab.ledger.meters.phases import Phase, PhaseClock
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.reports.terminal.progress import Progress
from ledger_lab.training.supervision.attempt import Link
from ledger_lab.training.supervision.start import run_supervised

_ORDER = (True, False, False, True)
"""Whether a block of iterations is metered; the pattern repeats."""
_SKIP = 5
"""Iterations at the beginning that belong to no block."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """A block of consecutive iterations."""

    metered: bool
    wall_s: float
    cpu_s: float
    """Processor time of the training and its supervisor [s]."""


def bench_metering(argv: Sequence[str]) -> int:
    """Train with metering switched on and off in turn, and print its cost.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If an argument makes no sense.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks metering",
        description="Measure how much wall-clock time and processor time metering adds to an iteration. Metering means "
        "phases, ledger rows, health checks, progress output, telemetry and the supervisor process. One training runs "
        "as in scripts/train.py, without scoring. Every few iterations (a block), metering is switched on or off. The "
        "output has 95 % bootstrap intervals over pairs of neighbouring blocks.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks metering --rl_library skrl --pairs 40",
    )
    parser.add_argument("--task", default="LedgerLab-Cartpole", help="Task to train (default: LedgerLab-Cartpole).")
    parser.add_argument("--rl_library", default="rsl_rl", help="RL library: rsl_rl, rl_games, skrl (default: rsl_rl).")
    parser.add_argument("--num_envs", type=int, default=1024, help="Number of environments (default: 1024).")
    parser.add_argument("--iterations", type=int, default=4, help="Number of iterations per block (default: 4).")
    parser.add_argument("--pairs", type=int, default=80, help="Number of pairs of blocks (default: 80).")
    parser.add_argument("--device", default="cpu", help="Device (default: cpu).")
    add_json(parser, "every block")
    args = parser.parse_args(argv)
    if args.iterations < 1 or args.pairs < 2:
        raise UserError("--iterations must be at least 1, and --pairs at least 2")

    console = make_console()
    pairs = args.pairs + args.pairs % 2
    with tempfile.TemporaryDirectory() as folder, Progress(console, "training", None):
        blocks_file = Path(folder) / "blocks.json"
        run_python(
            ["-m", __name__, str(blocks_file), str(args.iterations), str(2 * pairs)]
            + ["--task", args.task, "--rl_library", args.rl_library]
            + ["--num_envs", str(args.num_envs), "--device", args.device]
            + ["--max_iterations", str(_SKIP + 2 * pairs * args.iterations), "--no_eval", "--log_root", folder],
            "the training",
        )
        blocks = [Block(**each) for each in json.loads(blocks_file.read_text())]
    added = {name: _added(blocks, name) for name in ("wall_s", "cpu_s")}
    table = Table("", "per iteration, off", "added by metering", "95 % interval", box=None, pad_edge=False)
    for name, title in (("wall_s", "wall-clock time"), ("cpu_s", "processor time")):
        off_s = statistics.median(getattr(block, name) for block in blocks if not block.metered) / args.iterations
        share, low, high = added[name]
        table.add_row(title, f"{1e3 * off_s:.1f} ms", f"{share:+.2%}", f"{low:+.2%} … {high:+.2%}")
    console.print(table)
    write_findings(
        args.json,
        hardware=hardware_facts(),
        added={name: dict(zip(("share", "low", "high"), values, strict=True)) for name, values in added.items()},
        blocks=[asdict(block) for block in blocks],
    )
    return 0


def _added(blocks: Sequence[Block], figure: str) -> tuple[float, float, float]:
    """Return the relative increase of a figure by metering, and its 95 % interval.

    The median over pairs of neighbouring blocks is taken of logarithms, so that a slow-down of either block of a pair
    has the same weight.
    """
    pairs = zip(blocks[::2], blocks[1::2], strict=True)
    logs = np.array(
        [
            (1 if first.metered else -1) * math.log(getattr(first, figure) / getattr(second, figure))
            for first, second in pairs
        ]
    )
    interval = bootstrap((logs,), np.median, rng=np.random.default_rng(0), method="percentile").confidence_interval
    return math.expm1(np.median(logs)), math.expm1(interval.low), math.expm1(interval.high)


class _Switch:
    """Removes the metering from a running training, and restores it."""

    def __init__(self) -> None:
        """Begin metered, and record every callable that a clock wraps from now on."""
        self.metered = True
        self._wrapped: list[tuple[object, str, Callable[..., Any], Callable[..., Any]]] = []
        instrument = PhaseClock.instrument

        def instrument_and_record(clock: PhaseClock, owner: object, name: str, phase: Phase) -> None:
            plain = getattr(owner, name)
            instrument(clock, owner, name, phase)
            self._wrapped.append((owner, name, plain, getattr(owner, name)))

        PhaseClock.instrument = instrument_and_record  # type: ignore[method-assign, assignment]

    def turn(self, metered: bool) -> None:
        """Switch metering on or off."""
        if metered == self.metered:
            return
        self.metered = metered
        os.kill(os.getppid(), signal.SIGCONT if metered else signal.SIGSTOP)
        for owner, name, plain, wrapped in self._wrapped:
            setattr(owner, name, wrapped if metered else plain)


def main(argv: Sequence[str], started_ns: int, link: Link) -> None:
    """Train, and write the times of the blocks."""
    from ledger_lab.training.loop import TrainingLoop
    from ledger_lab.training.run import train_run

    path, per_block, count = Path(argv[0]), int(argv[1]), int(argv[2])
    switch = _Switch()
    processes = psutil.Process(), psutil.Process(os.getppid())
    blocks: list[Block] = []
    began = (math.nan, math.nan)

    def read() -> tuple[float, float]:
        times = [process.cpu_times() for process in processes]
        return time.perf_counter(), sum(each.user + each.system for each in times)

    class SwitchedLoop(TrainingLoop):
        """A training loop that does nothing after an iteration while metering is off."""

        def on_iteration(self, iterations: int, figures: Mapping[str, float]) -> bool:
            """Measure the block that is over, and switch for the next block."""
            nonlocal began
            go_on = super().on_iteration(iterations, figures) if switch.metered else True
            done = iterations - _SKIP
            if 0 <= done <= count * per_block and done % per_block == 0:
                ended = read()
                if done:
                    wall_s, cpu_s = ended[0] - began[0], ended[1] - began[1]
                    blocks.append(Block(metered=switch.metered, wall_s=wall_s, cpu_s=cpu_s))
                switch.turn(len(blocks) == count or _ORDER[len(blocks) % len(_ORDER)])
                began = read()
            return go_on

    try:
        train_run(argv[3:], started_ns, link, loop=SwitchedLoop)
    finally:
        switch.turn(True)
        path.write_text(json.dumps([asdict(block) for block in blocks]))


if __name__ == "__main__":
    run_supervised(main)
