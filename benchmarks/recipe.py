"""``python -m benchmarks recipe``: the effect of one changed recipe field on speed, or on the time to the target."""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.comparison import add_json, differences, run_python, script
from ledger_lab.errors import UserError, nearest
from ledger_lab.ledger import read_ledger
from ledger_lab.ledger.costs import RunTime, median_time_to_target
from ledger_lab.ledger.libraries import LIBRARIES, dialect_of
from ledger_lab.ledger.meters import hardware_facts
from ledger_lab.reports import summarize_run
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.reports.terminal.progress import Progress
from ledger_lab.tasks.pack import TASKS
from ledger_lab.tasks.recipes import PpoRecipe
from ledger_lab.units import duration

_AS_IT_IS = "as it is"


@dataclass(frozen=True, kw_only=True)
class Training:
    """One training."""

    change: str
    """Change to the recipe, like ``minibatches=2``."""
    round: int
    """Number of the round; also the training seed."""
    wall_s: float
    to_target_s: float | None
    """Seconds until a policy was confirmed; ``None`` without a confirmation."""
    compile_s: float
    loop_ms: float
    """Training per iteration, without start-up, compilation and evaluation [ms]."""
    update_ms: float
    """Returns and gradient steps per iteration [ms]."""


def bench_recipe(argv: Sequence[str]) -> int:
    """Train a task's recipe as it is and with single fields changed, in turn, and print the ratios.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If a change makes no sense, or the library can't follow it.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks recipe",
        description="Measure how one changed field of a recipe affects speed, or the time to the target. A recipe is "
        "the set of hyperparameters of a task. The benchmark trains the task with its recipe, and with each change of "
        "--change. In each round, every variant trains once, in a process of its own. The output is the time of an "
        "iteration and of its policy update, compared with the unchanged recipe. With --to_target, it is the time "
        "until a policy is confirmed: until its score on fresh seeds proves that it reaches the target.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks recipe --rl_library rl_games --change torch_compile=true "
        "--change minibatches=2",
    )
    parser.add_argument("--task", default="LedgerLab-Cartpole", help="Task to train (default: LedgerLab-Cartpole).")
    parser.add_argument("--rl_library", choices=list(LIBRARIES), default="rsl_rl", help="RL library (default: rsl_rl).")
    parser.add_argument(
        "--change",
        action="append",
        required=True,
        metavar="FIELD=VALUE",
        help="Field of the recipe, and its new value as JSON. Can be repeated.",
    )
    parser.add_argument(
        "--to_target", action="store_true", help="Score policies, and train until a policy is confirmed."
    )
    parser.add_argument(
        "--max_iterations",
        type=int,
        help="Number of iterations per training (default: 40; with --to_target: set by the recipe).",
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=3,
        help="Number of rounds (default: 3). The seed of a training is the number of its round.",
    )
    parser.add_argument("--device", default="cpu", help="Device (default: cpu).")
    parser.add_argument("--log_root", type=Path, help="Folder to keep the ledger in (default: the ledger is deleted).")
    add_json(parser, "every training")
    args = parser.parse_args(argv)
    if args.rounds < 1 or (args.max_iterations is not None and args.max_iterations < 2):
        raise UserError("--rounds must be at least 1, and --max_iterations at least 2")
    if args.task not in TASKS:
        raise UserError(
            f"--task {args.task}: LedgerLab has no recipe for this task ({nearest(args.task, list(TASKS))})"
        )
    recipe = TASKS[args.task].recipe
    arms: dict[str, list[str]] = {_AS_IT_IS: []} | {
        change: overrides(recipe, args.rl_library, change) for change in args.change
    }

    console = make_console()
    trainings: list[Training] = []
    with ExitStack() as stack, Progress(console, "trainings", args.rounds * len(arms)) as progress:
        root = args.log_root or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for number in range(1, args.rounds + 1):
            names = [*arms]
            for change in names if number % 2 else reversed(names):
                log_root = root / args.rl_library / f"{number}-{names.index(change)}"
                trainings.append(_train(change, arms[change], number, args, log_root))
                progress.advance(len(trainings), change)
    findings = [finding(trainings, change) for change in arms]
    console.print(_table(findings))
    write_findings(
        args.json,
        hardware=hardware_facts(),
        task=args.task,
        rl_library=args.rl_library,
        changes=findings,
        trainings=[asdict(training) for training in trainings],
    )
    return 0


def overrides(recipe: PpoRecipe, library: str, change: str) -> list[str]:
    """Translate the change of a recipe's field into overrides of a library's configuration.

    Args:
        recipe: The recipe.
        library: Name of the library.
        change: Field and JSON value, like ``torch_compile=true``.

    Returns:
        Overrides for the command line.

    Raises:
        UserError: If there is no such field, the value doesn't fit or is what the recipe says anyway, or the library
            can't follow it.
    """
    name, _, text = change.partition("=")
    known = {each.name for each in fields(PpoRecipe)} - {"num_envs", "experiment_name", "max_iterations"}
    if name not in known:
        raise UserError(f"--change {change}: no field {name!r} of a recipe; there are {', '.join(sorted(known))}")
    usual = getattr(recipe, name)
    try:
        value = json.loads(text)
        value = tuple(value) if isinstance(value, list) else float(value) if isinstance(usual, float) else value
    except (ValueError, TypeError) as error:
        raise UserError(f"--change {change}: {error}") from error
    if type(value) is not type(usual):
        raise UserError(f"--change {change}: {name} of the recipe is {json.dumps(usual)}")
    try:
        changed = PpoRecipe(**asdict(recipe) | {name: value})
    except ValueError as error:
        raise UserError(f"--change {change}: {error}") from error
    dialect_of(library).require(changed)
    translate = dialect_of(library).translate
    found = differences("agent", translate(recipe), translate(changed))
    if not found:
        raise UserError(f"--change {change}: the recipe has this value for {library} already: name another value")
    return found


def finding(trainings: Sequence[Training], change: str) -> dict[str, Any]:
    """Return the effect of a change: medians over the rounds, and ratios within each round.

    Args:
        trainings: All trainings.
        change: The change.

    Returns:
        Medians [ms, s], and the ratios to the recipe as it is as ``[least, median, greatest]``. The ratios are ``None``
        if a training missed the target. The median time to the target is then that of
        :func:`~ledger_lab.ledger.costs.median_time_to_target`; it is ``None`` if too many trainings missed the target.
    """
    changed = [training for training in trainings if training.change == change]
    plain = {training.round: training for training in trainings if training.change == _AS_IT_IS}
    result: dict[str, Any] = {"change": change, "compile_s": statistics.median(each.compile_s for each in changed)}
    for name in ("loop_ms", "update_ms", "to_target_s"):
        pairs = [(getattr(each, name), getattr(plain[each.round], name)) for each in changed]
        known = [(ours, theirs) for ours, theirs in pairs if ours is not None and theirs is not None]
        if len(known) < len(pairs):
            result |= {name: None, f"{name}_ratio": None}
            continue
        ratios = sorted(ours / theirs for ours, theirs in known)
        result[name] = statistics.median(ours for ours, _ in known)
        result[f"{name}_ratio"] = [ratios[0], statistics.median(ratios), ratios[-1]]
    times = [RunTime(wall_s=each.wall_s, to_target_s=each.to_target_s) for each in changed]
    median = median_time_to_target(times)
    return result | {"to_target_s": median.median_s, "to_target_is_exact": median.is_exact}


def _train(change: str, arm: Sequence[str], number: int, args: argparse.Namespace, log_root: Path) -> Training:
    """Train once, in a new process and under a separate root."""
    iterations = args.max_iterations or (TASKS[args.task].recipe.max_iterations if args.to_target else 40)
    command = [script("train.py"), "--task", args.task, "--rl_library", args.rl_library]
    command += ["--seed", str(number), "--max_iterations", str(iterations), "--device", args.device]
    command += ["--log_root", str(log_root), *([] if args.to_target else ["--no_eval"]), *arm]
    run_python(command, f"the training with {change}")
    (run,) = read_ledger(log_root).runs
    summary = summarize_run(run)
    assert summary.updates_per_min is not None and summary.seconds_per_update is not None, "it trained to its end"
    return Training(
        change=change,
        round=number,
        wall_s=summary.wall_s,
        to_target_s=summary.wall_to_target_s,
        compile_s=summary.phases.get("compile", 0.0),
        loop_ms=60e3 / summary.updates_per_min,
        update_ms=1e3 * summary.seconds_per_update,
    )


def _table(findings: Sequence[dict[str, Any]]) -> Table:
    """Return the findings as a table."""
    table = Table("recipe", "iteration", "", "update", "", "compilation", "to target", "", box=None, pad_edge=False)
    for found in findings:
        cells = [found["change"]]
        for name in ("loop_ms", "update_ms"):
            cells += [f"{found[name]:.1f} ms", _ratio(found[f"{name}_ratio"])]
        target_s = found["to_target_s"]
        about = "" if found["to_target_is_exact"] else "≈ "
        cells += [f"{found['compile_s']:.1f} s", "–" if target_s is None else about + duration(target_s)]
        ratio = found["to_target_s_ratio"]
        table.add_row(*cells, "" if ratio is None else _ratio(ratio))
    return table


def _ratio(values: Sequence[float]) -> str:
    """Return a ratio with its range over the rounds."""
    least, median, greatest = values
    return f"× {median:.2f} ({least:.2f}–{greatest:.2f})"
