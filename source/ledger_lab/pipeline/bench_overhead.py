"""``scripts/bench.py overhead``: what metering costs, against plain ``isaaclab train``."""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from ledger_lab.errors import UserError
from ledger_lab.meters import hardware_facts
from ledger_lab.pipeline.bench import run_python, script, write_findings
from ledger_lab.pipeline.console import make_console
from ledger_lab.pipeline.progress import Progress
from ledger_lab.recipes import dialect_of
from ledger_lab.reports.format import quantity

_HEARTBEATS = {"rsl_rl": "Perf/total_fps", "rl_games": "info/epochs", "skrl": "Policy / Standard deviation"}
"""A scalar that each library writes once per iteration in both arms; only its time stamps are used."""

_PLAIN_DEVICES = {
    "rsl_rl": ["agent.device"],
    "rl_games": ["agent.params.config.device", "agent.params.config.device_name"],
    "skrl": [],
}
"""Overrides without which the agent of ``isaaclab train`` would compute elsewhere than asked for."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One training of each arm, one right after the other."""

    first: str
    """Which arm ran first."""
    metered_steps_per_s: float
    plain_steps_per_s: float

    @property
    def ratio(self) -> float:
        """Metered ÷ plain."""
        return self.metered_steps_per_s / self.plain_steps_per_s


def bench_overhead(argv: Sequence[str]) -> int:
    """Train both ways in turn, and print the ratio of environment steps per second.

    Both arms train the same task with the same recipe in processes of their own. Their speed is taken from the same
    place, the time stamps of the library's own TensorBoard file: environment steps of all iterations but the first few,
    over the time between them. So everything in the loop counts: rollout, update, logging and checkpoints.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If an argument makes no sense.
    """
    parser = argparse.ArgumentParser(
        prog="bench.py overhead",
        description="Compare the training of scripts/train.py with plain `isaaclab train`: same task, recipe and "
        "environments, alternating; prints the ratio of environment steps per second with its spread.",
    )
    parser.add_argument("--task", default="LedgerLab-Cartpole", help="Task to train (default: LedgerLab-Cartpole).")
    parser.add_argument("--rl_library", choices=list(_HEARTBEATS), default="rsl_rl", help="Library (default: rsl_rl).")
    parser.add_argument("--num_envs", type=int, default=1024, help="Environments (default: 1024).")
    parser.add_argument("--max_iterations", type=int, default=40, help="Iterations per training (default: 40).")
    parser.add_argument("--skip", type=int, default=5, help="Iterations to leave out at the beginning (default: 5).")
    parser.add_argument("--pairs", type=int, default=5, help="Pairs of trainings (default: 5).")
    parser.add_argument("--device", default="cpu", help="Device of both arms (default: cpu).")
    parser.add_argument("--json", type=Path, help="Write every pair and the machine's facts to this file, too.")
    args = parser.parse_args(argv)
    if args.pairs < 1 or args.max_iterations < args.skip + 2:
        raise UserError("--pairs must be at least 1, and --max_iterations at least --skip + 2")

    console = make_console()
    pairs: list[Pair] = []
    with Progress(console, "pairs", args.pairs) as progress:
        for index in range(args.pairs):
            order = ("metered", "plain") if index % 2 == 0 else ("plain", "metered")
            speed = {arm: _train(arm, args) for arm in order}
            pairs.append(Pair(first=order[0], metered_steps_per_s=speed["metered"], plain_steps_per_s=speed["plain"]))
            progress.advance(index + 1, f"ratio {pairs[-1].ratio:.3f}")
    ratios = sorted(pair.ratio for pair in pairs)
    table = Table("pair", "first", "metered steps/s", "plain steps/s", "ratio", box=None, pad_edge=False)
    for index, pair in enumerate(pairs, start=1):
        table.add_row(
            str(index),
            pair.first,
            quantity(pair.metered_steps_per_s),
            quantity(pair.plain_steps_per_s),
            f"{pair.ratio:.3f}",
        )
    console.print(table)
    console.print(
        f"metered ÷ plain: median {statistics.median(ratios):.3f}, from {ratios[0]:.3f} to {ratios[-1]:.3f} "
        f"over {len(ratios)} pairs"
    )
    median = statistics.median(ratios)
    rows = [asdict(pair) for pair in pairs]
    write_findings(args.json, hardware=hardware_facts(), median_ratio=median, pairs=rows)
    return 0


def _train(arm: str, args: argparse.Namespace) -> float:
    """Train once in a process of its own.

    Returns:
        Environment steps per second of the training loop.
    """
    common = ["--task", args.task, "--rl_library", args.rl_library, "--num_envs", str(args.num_envs)]
    common += ["--max_iterations", str(args.max_iterations), "--device", args.device]
    with tempfile.TemporaryDirectory() as folder:
        # On a CPU, only the metered arm replays recorded physics: leave that speed-up out of the overhead.
        launched = ["env.sim.physics.use_cuda_graph=False"] if args.device == "cpu" else []
        elsewhere = [f"{override}={args.device}" for override in _PLAIN_DEVICES[args.rl_library]]
        program = {
            "metered": [os.path.abspath(script("train.py")), *common, "--no_eval", "--log_root", folder, *launched],
            "plain": ["-m", "isaaclab", "train", *common, *elsewhere],
        }[arm]
        run_python(program, f"the {arm} training", cwd=Path(folder))
        (events,) = Path(folder).rglob("events.out.tfevents.*")
        accumulator = EventAccumulator(str(events), size_guidance={"scalars": 0})
        accumulator.Reload()
        beats = accumulator.Scalars(_HEARTBEATS[args.rl_library])[args.skip :]
        horizon = _horizon(Path(folder), args.rl_library)
    return (len(beats) - 1) * horizon * args.num_envs / (beats[-1].wall_time - beats[0].wall_time)


def _horizon(folder: Path, library: str) -> int:
    """Return the steps per iteration and environment, from the configuration that both arms write."""
    (agent,) = folder.rglob("params/agent.yaml")
    key = dialect_of(library).overrides["horizon"].rpartition(".")[2]
    lines = (line.strip() for line in agent.read_text(encoding="utf-8").splitlines())
    return int(next(line for line in lines if line.startswith(f"{key}:")).partition(":")[2])
