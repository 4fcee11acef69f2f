"""``python -m benchmarks held_out``: scoring inside the training simulation, compared with other ways of scoring."""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

from benchmarks.comparison import add_json, run_python, script
from ledger_lab.errors import UserError
from ledger_lab.ledger import read_ledger
from ledger_lab.ledger.meters.host import hardware_facts
from ledger_lab.reports import summarize_run
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.reports.terminal.progress import Progress

_ARMS = ("none", "inside", "pausing")


@dataclass(frozen=True, kw_only=True)
class Training:
    """One training, and the way its policies were judged."""

    arm: str
    """``none``: no scoring; ``inside``: in held-out slots while training continues; ``pausing``: in the same slots
    while training waits."""
    panels: int
    loop_s: float
    """Seconds of the training loop and of the scoring."""
    evaluate_s: float | None
    """Seconds metered as evaluation; ``None`` if nothing was judged."""
    wall_s: float
    iterations: int

    @property
    def share(self) -> float | None:
        """Evaluation's share of the wall-clock time."""
        return None if self.evaluate_s is None else self.evaluate_s / self.wall_s


def bench_held_out(argv: Sequence[str]) -> int:
    """Train with each way of scoring in turn, score as many checkpoints in separate processes, and compare.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If an argument makes no sense.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks held_out",
        description="Measure how much time it costs to score policies during a training. The same training runs "
        "in three ways: without scoring, with held-out environments inside the training simulation, "
        "and with pauses in which the panel is scored. Then evaluate.py scores one checkpoint, to "
        "show the cost of a separate process per checkpoint. The output is the share of the "
        "wall-clock time that scoring takes, and the time that each way adds.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks held_out --num_envs 512 --every 10",
    )
    parser.add_argument("--num_envs", type=int, default=1024, help="Number of training environments (default: 1024).")
    parser.add_argument(
        "--max_iterations", type=int, default=100, help="Number of iterations per training (default: 100)."
    )
    parser.add_argument(
        "--every", type=int, default=20, help="Number of iterations from one scoring to the next (default: 20)."
    )
    parser.add_argument("--repeats", type=int, default=3, help="Number of trainings of each way (default: 3).")
    parser.add_argument("--device", default="cpu", help="Device (default: cpu).")
    add_json(parser, "every training")
    args = parser.parse_args(argv)
    if args.repeats < 1 or args.max_iterations < args.every:
        raise UserError("--repeats must be at least 1, and --max_iterations at least --every")

    console = make_console()
    trainings: list[Training] = []
    process_s: list[float] = []
    with Progress(console, "runs", 4 * args.repeats) as progress:
        for repeat in range(args.repeats):
            for arm in _ARMS if repeat % 2 == 0 else _ARMS[::-1]:
                with tempfile.TemporaryDirectory() as folder:
                    trainings.append(_train(arm, args, Path(folder)))
                    if arm == "none":
                        process_s.append(_evaluate(Path(folder), args.device))
                progress.advance(len(trainings) + len(process_s), f"{arm} {trainings[-1].loop_s:.1f} s")
    panels = statistics.median(training.panels for training in trainings if training.arm == "inside")
    base_s = _median(trainings, "none", lambda training: training.loop_s)
    added_s = {arm: _median(trainings, arm, lambda training: training.loop_s) - base_s for arm in _ARMS[1:]}
    added_s["process"] = statistics.median(process_s) * panels
    table = Table("way", "panels", "training loop", "added by scoring", "share metered", box=None, pad_edge=False)
    for arm in _ARMS:
        share = [training.share for training in trainings if training.arm == arm and training.share is not None]
        table.add_row(
            arm,
            f"{_median(trainings, arm, lambda training: training.panels):.0f}",
            f"{_median(trainings, arm, lambda training: training.loop_s):.1f} s",
            "" if arm == "none" else f"{added_s[arm]:.1f} s, {100 * added_s[arm] / base_s:.0f} %",
            f"{100 * statistics.median(share):.1f} %" if share else "",
        )
    table.add_row(
        "process", f"{panels:.0f}", "", f"{added_s['process']:.1f} s, {100 * added_s['process'] / base_s:.0f} %"
    )
    console.print(table)
    rows = [{**asdict(training), "share": training.share} for training in trainings]
    write_findings(
        args.json, hardware=hardware_facts(), added_s=added_s, loop_s=base_s, process_s=process_s, trainings=rows
    )
    return 0


def _median(trainings: Sequence[Training], arm: str, figure: Callable[[Training], float]) -> float:
    """Return the median of a figure over an arm's trainings."""
    return statistics.median(figure(training) for training in trainings if training.arm == arm)


def _train(arm: str, args: argparse.Namespace, root: Path) -> Training:
    """Train once, in a new process."""
    argv = ["--task", "LedgerLab-Cartpole", "--num_envs", str(args.num_envs), "--device", args.device, "--seed", "1"]
    argv += ["--max_iterations", str(args.max_iterations), "--log_root", str(root), "--no_stop_at_target"]
    argv += ["--no_eval"] if arm == "none" else ["--eval_every", str(args.every)]
    program = ["-m", "benchmarks.pausing"] if arm == "pausing" else [script("train.py")]
    run_python([*program, *argv], f"the training judged {arm}")
    (run,) = read_ledger(root).runs
    summary = summarize_run(run)
    outside_s = summary.phases.get("startup", 0.0) + summary.phases.get("compile", 0.0)
    return Training(
        arm=arm,
        panels=len(run.results),
        loop_s=summary.wall_s - outside_s,
        evaluate_s=summary.evaluate_s,
        wall_s=summary.wall_s,
        iterations=max(checkpoint.iteration for checkpoint in summary.checkpoints),
    )


def _evaluate(root: Path, device: str) -> float:
    """Return the time of a separate process that scores the last checkpoint [s]."""
    (run,) = read_ledger(root).runs
    checkpoint = str(run.directory / run.checkpoints[-1].path)
    began_s = time.perf_counter()
    run_python([script("evaluate.py"), checkpoint, "--device", device], "the evaluation")
    return time.perf_counter() - began_s
