"""``python -m benchmarks evaluate``: the cost of scoring more checkpoints in one pass."""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from benchmarks.comparison import add_json, run_python, script
from ledger_lab.errors import UserError
from ledger_lab.ledger import read_ledger
from ledger_lab.ledger.meters.host import hardware_facts
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.reports.terminal.progress import Progress


def bench_evaluate(argv: Sequence[str]) -> int:
    """Score 1, 4 and 16 checkpoints on every episode of a panel, in turn, and print the cost of each.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If an argument makes no sense.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks evaluate",
        description="Measure how much longer it takes to score several checkpoints than to score one. The "
        "benchmark trains briefly to get checkpoints. Then it starts scripts/evaluate.py, which "
        "scores 1, 4 and 16 checkpoints (see --checkpoints) on all episodes of the panel, in one "
        "simulation per start. The output is the time with start-up [s], and its ratio to the time of "
        "one checkpoint.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks evaluate --checkpoints 1 8 --repeats 5",
    )
    parser.add_argument("--task", default="LedgerLab-Cartpole", help="Task to train (default: LedgerLab-Cartpole).")
    parser.add_argument(
        "--checkpoints",
        type=int,
        nargs="+",
        default=[1, 4, 16],
        help="Numbers of checkpoints to score (default: 1 4 16).",
    )
    parser.add_argument("--repeats", type=int, default=3, help="Number of measurements of each number (default: 3).")
    parser.add_argument("--device", default="cpu", help="Device (default: cpu).")
    add_json(parser, "every pass")
    args = parser.parse_args(argv)
    if min(args.checkpoints) < 1 or args.repeats < 1:
        raise UserError("--checkpoints and --repeats must be at least 1")

    console = make_console()
    seconds: dict[int, list[float]] = {count: [] for count in args.checkpoints}
    with (
        tempfile.TemporaryDirectory() as folder,
        Progress(console, "passes", len(seconds) * args.repeats) as progress,
    ):
        checkpoints = _train(args, Path(folder), max(seconds))
        for repeat in range(args.repeats):
            for count in sorted(seconds, reverse=repeat % 2 == 1):
                began_s = time.perf_counter()
                chosen = map(str, checkpoints[:count])
                run_python([script("evaluate.py"), *chosen, "--device", args.device], "the scoring")
                seconds[count].append(time.perf_counter() - began_s)
                progress.advance(sum(map(len, seconds.values())), f"{count}: {seconds[count][-1]:.1f} s")
    medians = {count: statistics.median(found) for count, found in seconds.items()}
    first = medians[min(medians)]
    table = Table("checkpoints", "median", "from", "to", "compared with the fewest", box=None, pad_edge=False)
    for count, found in seconds.items():
        times = [f"{value:.1f} s" for value in (medians[count], min(found), max(found))]
        table.add_row(str(count), *times, f"{medians[count] / first:.2f} ×")
    console.print(table)
    ratio = {count: median / first for count, median in medians.items()}
    write_findings(args.json, hardware=hardware_facts(), median_s=medians, ratio=ratio, passes_s=seconds)
    return 0


def _train(args: argparse.Namespace, folder: Path, count: int) -> list[Path]:
    """Train until there are enough checkpoints."""
    command = [script("train.py"), "--task", args.task, "--rl_library", "rsl_rl", "--num_envs", "64", "--no_eval"]
    command += ["--max_iterations", str(count), "--device", args.device, "--log_root", str(folder)]
    run_python([*command, "agent.save_interval=1"], "the training")
    (run,) = read_ledger(folder).runs
    return [run.directory / saved.path for saved in run.checkpoints]
