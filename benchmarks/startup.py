"""``python -m benchmarks startup``: processor time of the start and the end of a training."""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from rich.table import Table

from benchmarks.comparison import add_json
from ledger_lab.errors import UserError
from ledger_lab.ledger.libraries import LIBRARIES
from ledger_lab.ledger.meters.host import hardware_facts
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.reports.terminal.progress import Progress

_HELP, _END = "--help", "end"
_STAGES: dict[str, tuple[str, ...]] = {
    "check": ("run ",),
    "simulation": ("training",),
    "training": ("✓", "✗", "task "),
}
"""Each stage of a training, and how the first line may begin that ``train.py`` of any checkout prints after it."""


@dataclass(frozen=True)
class Spent:
    """Time of a stage."""

    cpu_s: float
    """Processor time of all processes of the command [s]."""
    wall_s: float
    """Wall-clock time [s]."""


def stages(moments: Iterable[tuple[str, Spent]]) -> dict[str, Spent]:
    """Return how long each stage of a training took.

    Args:
        moments: The lines that it printed, each with the time until then; last, an empty line at its end.

    Raises:
        RuntimeError: If the lines of a stage are missing.
    """
    found: dict[str, Spent] = {}
    waiting, before, now = list(_STAGES.items()), Spent(0.0, 0.0), Spent(0.0, 0.0)
    for line, now in moments:
        if waiting and line.startswith(waiting[0][1]):
            found[waiting.pop(0)[0]] = Spent(now.cpu_s - before.cpu_s, now.wall_s - before.wall_s)
            before = now
    if waiting:
        raise RuntimeError(f"the training printed no line that begins with {waiting[0][1]!r}")
    return {**found, _END: Spent(now.cpu_s - before.cpu_s, now.wall_s - before.wall_s)}


def _moments(root: Path, arguments: Sequence[str]) -> Iterator[tuple[str, Spent]]:
    """Run ``train.py`` of a checkout; yield each line with the time until then, and an empty line at the end."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "source"), str(root)])}
    command = [sys.executable, str(root / "scripts" / "train.py"), *arguments]
    began_s, lines = time.perf_counter(), []
    process = subprocess.Popen(
        command, cwd=root, env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line)
        yield line, Spent(_cpu_s(process.pid), time.perf_counter() - began_s)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"train.py of {root} failed: {''.join(lines)[-2000:]}")
    yield "", Spent(used.ru_utime + used.ru_stime, time.perf_counter() - began_s)


def _cpu_s(pid: int) -> float:
    """Return the processor time of a process and its descendants, ended ones included [s]."""
    with suppress(psutil.NoSuchProcess):
        family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        return sum(sum(member.cpu_times()[:4]) for member in family)
    return 0.0


def bench_startup(argv: Sequence[str]) -> int:
    """Start short trainings, and print the time of each stage.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If an argument makes no sense.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks startup",
        description="Measure how long the stages of a training of one iteration take: the check of the request, the "
        "simulation (until the training starts), the training and the end. Times are processor times, so a busy "
        "machine matters little. Run it twice: the first call may compile kernels.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks startup --against ../older_checkout",
    )
    parser.add_argument("--rl_library", choices=LIBRARIES, default="rsl_rl", help="Library (default: rsl_rl).")
    parser.add_argument("--physics", help="Physics engine (default: the one of the task).")
    parser.add_argument("--repeats", type=int, default=3, help="Trainings per checkout (default: 3).")
    parser.add_argument(
        "--against", type=Path, help="Another checkout; its trainings alternate with those of this one."
    )
    add_json(parser, "every training")
    args = parser.parse_args(argv)
    if args.repeats < 1:
        raise UserError("--repeats must be at least 1")
    if args.against is not None and not (args.against / "scripts" / "train.py").is_file():
        raise UserError(f"--against {args.against}: there is no scripts/train.py")

    roots = {"this": Path(__file__).parents[1]} | ({} if args.against is None else {"other": args.against.absolute()})
    short = ["--num_envs", "256", "--max_iterations", "1", "--no_eval", "--device", "cpu"]
    short += [] if args.physics is None else [f"physics={args.physics}"]
    found: dict[str, list[dict[str, Spent]]] = {name: [] for name in roots}
    console = make_console()
    with (
        tempfile.TemporaryDirectory() as folder,
        Progress(console, "trainings", len(roots) * args.repeats) as progress,
    ):
        for repeat in range(args.repeats):
            for name in sorted(roots, reverse=repeat % 2 == 1):
                *_, (_, helped) = _moments(roots[name], [_HELP])
                training = [*short, "--rl_library", args.rl_library, "--log_root", folder]
                found[name].append({_HELP: helped, **stages(_moments(roots[name], training))})
                progress.advance(sum(map(len, found.values())))
    console.print(_table(found))
    each = {name: [{stage: asdict(spent) for stage, spent in run.items()} for run in found[name]] for name in found}
    write_findings(args.json, hardware=hardware_facts(), trainings=each)
    return 0


def _table(found: Mapping[str, Sequence[Mapping[str, Spent]]]) -> Table:
    """Return a table with the medians of all stages."""
    names = {"this": "this checkout", "other": "the other"}
    table = Table("stage (processor time)", *(names[name] for name in found), box=None, pad_edge=False)
    for stage in (_HELP, *_STAGES, _END):
        medians = [statistics.median(run[stage].cpu_s for run in found[name]) for name in found]
        table.add_row(stage, *(f"{median:.2f} s" for median in medians))
    return table
