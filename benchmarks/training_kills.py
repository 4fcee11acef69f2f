"""``python -m benchmarks training_kills``: trainings killed at random times leave a true ledger."""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from benchmarks.comparison import add_json, script
from ledger_lab.errors import UserError
from ledger_lab.ledger import CheckpointSaved, LedgerDamageError, Status, read_ledger
from ledger_lab.ledger.meters.host import hardware_facts
from ledger_lab.reports import summarize_run
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.reports.terminal.progress import Progress

_VICTIMS = ("training", "supervisor", "both")
_TRUE_STATUSES = {"training": {Status.KILLED}, "supervisor": {Status.LOST}, "both": {Status.LOST}}


@dataclass(frozen=True, kw_only=True)
class KilledTraining:
    """State of the ledger after a killed training."""

    victim: str
    after_s: float
    """Age of the training when it was killed [s]."""
    exit_status: int
    """Exit status of the supervisor; if a signal killed it, the negative signal number."""
    rows: int
    checkpoints: int
    """Checkpoints on the disk. All but the newest were finished, and must have their rows."""
    status: str | None
    """Status of its only attempt; ``None`` if it was killed before the declaration."""
    wall_s: float | None
    """Billed time [s]."""
    trouble: str | None
    """Fault of the ledger; ``None`` if there is none."""


def bench_training_kills(argv: Sequence[str]) -> int:
    """Kill trainings at random times, and check their ledgers.

    Args:
        argv: Command line without the program's name.

    Returns:
        0 if every ledger is whole and true, else 1.

    Raises:
        UserError: If an argument makes no sense.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks training_kills",
        description="Check that the ledger stays correct when trainings are killed. The benchmark starts trainings, "
        "and kills the training, its supervisor process or both with SIGKILL at a random moment. Then it checks that "
        "the journals are valid, that every finished checkpoint has its row, and the billed time and the status. The "
        "status must be killed, or lost if no process was left to record the end.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks training_kills --count 5 --within_s 20",
    )
    parser.add_argument("--count", type=int, default=20, help="Number of trainings (default: 20).")
    parser.add_argument(
        "--within_s",
        type=float,
        default=40.0,
        help="Longest time from the start of a training to its kill [s] (default: 40).",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        help="Seed of the random moments, and of the choice of processes to kill (default: 0).",
    )
    parser.add_argument("--device", default="cpu", help="Device (default: cpu).")
    add_json(parser, "every training")
    args = parser.parse_args(argv)
    if args.count < 1 or args.within_s <= 0:
        raise UserError("--count must be at least 1, and --within_s positive")
    console, chance = make_console(), random.Random(args.seed)
    killed: list[KilledTraining] = []
    with Progress(console, "trainings", args.count) as progress:
        for index in range(args.count):
            with tempfile.TemporaryDirectory() as folder:
                victim = _VICTIMS[index % len(_VICTIMS)]
                killed.append(_kill(Path(folder), victim, chance.uniform(0.0, args.within_s), args.device))
            progress.advance(index + 1, f"{sum(each.trouble is not None for each in killed)} in trouble")
    statuses = Counter(str(each.status or "nothing declared") for each in killed)
    console.print(
        f"{len(killed)} trainings killed · {sum(each.rows for each in killed)} rows and "
        f"{sum(each.checkpoints for each in killed)} checkpoints found · "
        f"{', '.join(f'{count} {status}' for status, count in statuses.items())}",
        soft_wrap=True,
    )
    for each in killed:
        if each.trouble is not None:
            console.print(f"{each.victim} killed after {each.after_s:.1f} s: {each.trouble}", style="red", markup=False)
    write_findings(args.json, hardware=hardware_facts(), trainings=[asdict(each) for each in killed])
    return int(any(each.trouble is not None for each in killed))


def _kill(root: Path, victim: str, after_s: float, device: str) -> KilledTraining:
    """Start a training, kill it, and check its ledger."""
    arguments = ["--num_envs", "64", "--max_iterations", "100000", "--no_stop_at_target", "--device", device]
    arguments += ["agent.save_interval=1", "--log_root", str(root)]
    process = subprocess.Popen(
        [sys.executable, script("train.py"), *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    time.sleep(after_s)
    if process.poll() is not None:
        raise RuntimeError(f"the training ended by itself, with exit status {process.returncode}")
    workers = psutil.Process(process.pid).children()
    if victim != "training" or not workers:
        process.send_signal(signal.SIGKILL)
    if victim != "supervisor":
        for worker in workers:
            worker.kill()
    exit_status = process.wait()
    psutil.wait_procs(workers, timeout=60)
    saved = [path.name for path in sorted(root.rglob("model_*.pt"), key=lambda path: path.stat().st_mtime_ns)]
    rows, status, wall_s = 0, None, None
    try:
        runs = read_ledger(root).runs
        attempts = [attempt for run in runs for attempt in run.attempts]
        rows = sum(len(journal.rows) for attempt in attempts for journal in attempt.journals)
        status = attempts[0].status if attempts else None
        wall_s = summarize_run(runs[0]).wall_s if attempts else None
        recorded = {row.path for attempt in attempts for row in attempt.of(CheckpointSaved)}
        trouble = _trouble(saved[:-1], recorded, victim, len(attempts), status, wall_s)
    except LedgerDamageError as error:
        trouble = str(error)
    return KilledTraining(
        victim=victim,
        after_s=after_s,
        exit_status=exit_status,
        rows=rows,
        checkpoints=len(saved),
        status=None if status is None else str(status),
        wall_s=wall_s,
        trouble=trouble,
    )


def _trouble(
    finished: Sequence[str],
    recorded: Set[str],
    victim: str,
    attempts: int,
    status: Status | None,
    wall_s: float | None,
) -> str | None:
    """Return the fault of a killed training's ledger, if any.

    Args:
        finished: Names of the checkpoints that must have rows.
        recorded: Names of those that have.
        victim: What was killed.
        attempts: Number of attempts in the ledger.
        status: Status of the attempt.
        wall_s: Billed time [s].
    """
    if lost := [name for name in finished if name not in recorded]:
        return f"no row of {', '.join(lost)}"
    if attempts > 1:
        return f"{attempts} attempts"
    if status is not None and status not in _TRUE_STATUSES[victim]:
        return f"its status is {status}"
    if status is not None and not wall_s:
        return "it can't be billed"
    return None
