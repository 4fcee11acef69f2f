"""``python -m benchmarks time_to_target``: our recipe of a task, compared with Isaac Lab's."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.comparison import add_json, run_python, script
from ledger_lab.errors import UserError
from ledger_lab.ledger import read_ledger
from ledger_lab.ledger.costs.time_to_target import MedianTime, RunTime, median_time_to_target
from ledger_lab.ledger.libraries import dialect_of
from ledger_lab.ledger.meters.host import hardware_facts
from ledger_lab.reports import summarize_run
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.reports.terminal.progress import Progress
from ledger_lab.tasks.ant.recipe import ANT
from ledger_lab.tasks.cartpole.recipe import CARTPOLE, STOCK_CARTPOLE
from ledger_lab.tasks.recipes import PpoRecipe
from ledger_lab.units import duration

STOCK_ANT = PpoRecipe(
    experiment_name="ledgerlab_ant",
    num_envs=4096,
    hidden_dims=(400, 200, 100),
    horizon=32,
    epochs=5,
    minibatches=4,
    learning_rate=5.0e-4,
    entropy_coef=0.0,
    max_iterations=1000,
    save_interval=50,
)
"""Isaac Lab's own recipe of ``Isaac-Ant``."""

RECIPES: dict[str, tuple[PpoRecipe, PpoRecipe]] = {
    "LedgerLab-Ant": (ANT, STOCK_ANT),
    "LedgerLab-Cartpole": (CARTPOLE, STOCK_CARTPOLE),
}
"""Tasks with both our recipe and Isaac Lab's own."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """One training to its proven target."""

    arm: str
    """``tuned`` or ``stock``."""
    seed: int
    target_reached: bool
    to_target_s: float | None
    """Seconds from the start of Python until the proof; ``None`` without one."""
    after_startup_s: float | None
    """The same time without start-up and compilation."""
    wall_s: float
    startup_s: float
    """Start-up and compilation."""
    iterations: int
    """Iterations of the policy that was proven, else of the whole training."""
    proofs: int


def bench_time_to_target(argv: Sequence[str]) -> int:
    """Train both recipes to a proven target, in turn, and print every run and the medians.

    Both arms are complete runs of ``scripts/train.py`` in separate processes, on the same task, judged on the same
    panel by the same rule. They differ only in the recipe and the number of environments.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If an argument makes no sense.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks time_to_target",
        description="Compare the time to the target with LedgerLab's recipe and with Isaac Lab's recipe. Isaac Lab's "
        "recipe has its own networks, hyperparameters, and numbers of environments and iterations. Trainings with the "
        "two recipes alternate. Each training ends when a policy is proven: when its score on fresh seeds proves "
        "that it reaches the target.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks time_to_target --task LedgerLab-Ant --seeds 1 2 3",
    )
    parser.add_argument(
        "--task",
        choices=list(RECIPES),
        default="LedgerLab-Cartpole",
        help="Task to train (default: LedgerLab-Cartpole).",
    )
    parser.add_argument(
        "--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5], help="Seeds of the trainings (default: 1 2 3 4 5)."
    )
    parser.add_argument(
        "--stock_num_envs",
        type=int,
        help="Number of environments with Isaac Lab's recipe (default: set by that recipe).",
    )
    parser.add_argument(
        "--max_iterations",
        type=int,
        help="Largest number of iterations with either recipe (default: set by Isaac Lab's recipe).",
    )
    parser.add_argument("--device", default=None, help="Device of the trainings (default: chosen by train.py).")
    parser.add_argument("--log_root", type=Path, help="Folder to keep the ledger in (default: the ledger is deleted).")
    add_json(parser, "every run")
    args = parser.parse_args(argv)
    if len(set(args.seeds)) != len(args.seeds):
        raise UserError("--seeds: each seed can be trained once")
    stock = RECIPES[args.task][1]
    for name, usual in (("stock_num_envs", stock.num_envs), ("max_iterations", stock.max_iterations)):
        if getattr(args, name) is None:
            setattr(args, name, usual)
        elif getattr(args, name) < 1:
            raise UserError(f"--{name} {getattr(args, name)}: must be at least 1")
    if args.log_root and args.log_root.exists() and any(args.log_root.iterdir()):
        raise UserError(f"--log_root {args.log_root}: is not empty; name another folder")

    console = make_console()
    trainings: list[Training] = []
    with ExitStack() as stack, Progress(console, "trainings", 2 * len(args.seeds)) as progress:
        root = args.log_root or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for index, seed in enumerate(args.seeds):
            for arm in ("tuned", "stock") if index % 2 == 0 else ("stock", "tuned"):
                trainings.append(_train(arm, seed, args, root))
                progress.advance(len(trainings), f"{arm} {duration(trainings[-1].to_target_s)}")
    table = Table("arm", "seed", "to target", "after start-up", "iterations", "proofs", box=None, pad_edge=False)
    for training in sorted(trainings, key=lambda each: (each.arm, each.seed)):
        table.add_row(
            training.arm,
            str(training.seed),
            _seconds(training.to_target_s, training.wall_s),
            _seconds(training.after_startup_s, training.wall_s),
            str(training.iterations),
            str(training.proofs),
        )
    console.print(table)
    medians = {name: _medians(trainings, name) for name in ("to_target_s", "after_startup_s")}
    for name, words in (("to_target_s", "start-up included"), ("after_startup_s", "after start-up")):
        tuned, stock_recipe = (medians[name][arm] for arm in ("tuned", "stock"))
        line = f"median time to proven target, {words}: tuned {_median(tuned)}, stock {_median(stock_recipe)}"
        if tuned.median_s is not None and stock_recipe.median_s is not None:
            line += f": {stock_recipe.median_s / tuned.median_s:.2f} times sooner"
        console.print(line)
    rows = [asdict(training) for training in trainings]
    found = {name: {arm: asdict(median) for arm, median in arms.items()} for name, arms in medians.items()}
    write_findings(args.json, hardware=hardware_facts(), medians=found, trainings=rows)
    return 0


def stock_overrides(task: str) -> list[str]:
    """Return the Hydra overrides that turn LedgerLab's recipe of a task into Isaac Lab's, for RSL-RL."""
    ours, stock = RECIPES[task]
    translate = dialect_of("rsl_rl").translate
    return _differences("agent", translate(ours), translate(stock))


def _train(arm: str, seed: int, args: argparse.Namespace, root: Path) -> Training:
    """Train once, in a new process and under a separate root."""
    log_root = root / f"{arm}-{seed}"
    command = [script("train.py"), "--task", args.task, "--rl_library", "rsl_rl"]
    command += ["--seed", str(seed), "--log_root", str(log_root), "--cohort", f"time-to-target-{arm}"]
    command += ["--max_iterations", str(args.max_iterations)]
    command += [] if args.device is None else ["--device", args.device]
    if arm == "stock":
        ours = ("agent.experiment_name", "agent.max_iterations", "agent.save_interval")
        command += ["--num_envs", str(args.stock_num_envs)]
        command += [override for override in stock_overrides(args.task) if not override.startswith(ours)]
    run_python(command, f"the {arm} training")
    (run,) = read_ledger(log_root).runs
    summary = summarize_run(run)
    startup_s = summary.phases.get("startup", 0.0) + summary.phases.get("compile", 0.0)
    to_target_s = summary.wall_to_target_s
    last = summary.proven or summary.checkpoints[-1]
    return Training(
        arm=arm,
        seed=seed,
        target_reached=summary.target_reached,
        to_target_s=to_target_s,
        after_startup_s=None if to_target_s is None else to_target_s - startup_s,
        wall_s=summary.wall_s,
        startup_s=startup_s,
        iterations=last.iteration,
        proofs=sum(row.purpose == "proof" for row in run.results),
    )


def _seconds(reached_s: float | None, wall_s: float) -> str:
    """Return a time to target in words; for a run that missed the target, its whole time as a lower bound."""
    return f"> {wall_s:.1f} s" if reached_s is None else f"{reached_s:.1f} s"


def _medians(trainings: Sequence[Training], name: str) -> dict[str, MedianTime]:
    """Return the median of each arm; a run that missed the target counts with the time that it was trained."""
    without_startup = name == "after_startup_s"
    return {
        arm: median_time_to_target(
            [
                RunTime(
                    wall_s=training.wall_s - (training.startup_s if without_startup else 0.0),
                    to_target_s=getattr(training, name),
                )
                for training in trainings
                if training.arm == arm
            ]
        )
        for arm in ("tuned", "stock")
    }


def _median(found: MedianTime) -> str:
    """Return a median in words; “≈” marks an estimate, “>” a lower bound."""
    if found.median_s is None:
        return f"> {found.more_than_s:.1f} s"
    return f"{'' if found.is_exact else '≈ '}{found.median_s:.1f} s"


def _differences(path: str, ours: Any, theirs: Any) -> list[str]:  # noqa: ANN401 - nested plain values
    """Return an override for every value that differs between two configurations."""
    if isinstance(ours, dict):
        return [line for key in theirs for line in _differences(f"{path}.{key}", ours.get(key), theirs[key])]
    return [] if ours == theirs else [f"{path}={json.dumps(theirs)}"]
