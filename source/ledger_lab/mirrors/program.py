"""``scripts/mirror.py``: sends a run to another dashboard. Imports neither torch nor Isaac Lab."""

from __future__ import annotations

import argparse
import atexit
import os
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from ledger_lab.errors import UserError, nearest
from ledger_lab.ledger import RunDeclared, Status
from ledger_lab.ledger.digest import find_journals
from ledger_lab.ledger.find import telling_damage
from ledger_lab.ledger.redaction import RedactedStream
from ledger_lab.mirrors import (
    SINKS,
    JournalEntry,
    RunFollower,
    RunInfo,
    Sink,
    SinkUnavailableError,
    Translator,
    load_sink,
)
from ledger_lab.terminal.console import make_console
from ledger_lab.terminal.flags import Program

_LONGEST_WAIT_S = 60.0
"""Longest time between two attempts to reach a destination [s]."""


def mirror_run(argv: Sequence[str]) -> int:
    """Follow a run's journals to its end, and send their rows.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If there is no such run, or the destination refuses it.
    """
    args = _parser().parse_args(argv)
    if args.every <= 0 or args.patience < 0:
        raise UserError("--every must be above 0, and --patience at least 0 seconds")
    run_dir = _find(args.run, args.log_root)
    follower = RunFollower(run_dir)
    sink = load_sink(args.to, {"project": args.project, "uri": args.uri, "dir": args.dir})
    os.nice(10)  # training on this host takes priority
    with telling_damage():
        _mirror(follower, run_dir, sink, args)
    return 0


def _parser() -> argparse.ArgumentParser:
    """Return the command line of ``scripts/mirror.py``."""
    parser = Program(
        name="mirror.py",
        description=(
            "Send a run to a dashboard: TensorBoard, Weights & Biases (W&B) or MLflow. The dashboard gets training "
            "metrics, times of phases, held-out scores, telemetry, health events, and how the run ended. You can start "
            "the program during the run or later. It only reads the journals of the run, so it cannot disturb the "
            "training. If you start it again, it sends only the missing data to MLflow and W&B. For TensorBoard, and "
            "for W&B with WANDB_MODE=offline, it writes all data again. For W&B, set the environment variable "
            "WANDB_API_KEY. For MLflow, set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and "
            "MLFLOW_TRACKING_PASSWORD. With WANDB_MODE=offline, the files of W&B stay in the directory of the run, and "
            "`wandb sync` sends them later."
        ),
        terms=("run", "phase", "held-out", "telemetry", "journal", "ledger"),
        examples=(
            "mirror.py RUN --to tensorboard",
            "mirror.py RUN --to mlflow --uri http://localhost:5000 --project my_project",
        ),
    ).parser()
    parser.add_argument(
        "run", metavar="RUN", help="Run id or run directory. The first characters of the id are enough."
    )
    parser.add_argument("--to", required=True, choices=SINKS, help="Dashboard to send to.")
    parser.add_argument(
        "--project", help="Name of the W&B project or MLflow experiment (default: ledger_lab).", metavar="NAME"
    )
    parser.add_argument("--uri", help="Address of the MLflow server (default: $MLFLOW_TRACKING_URI).")
    parser.add_argument(
        "--dir", type=Path, help="Folder for the files of TensorBoard or W&B (default: in the directory of the run)."
    )
    parser.add_argument(
        "--once", action="store_true", help="Send the data that exists now, and exit, even if the run continues."
    )
    parser.add_argument(
        "--every",
        type=float,
        default=2.0,
        metavar="S",
        help="Time between two checks for new data [s] (default: 2).",
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=600.0,
        metavar="S",
        help="Time to keep retrying after the run has ended, if the dashboard cannot be reached [s] (default: 600).",
    )
    parser.add_argument(
        "--log_root", type=Path, default=Path("logs"), help="Root folder of the ledger (default: logs)."
    )
    return parser


def _mirror(follower: RunFollower, run_dir: Path, sink: Sink, args: argparse.Namespace) -> None:
    """Send new rows until the run is over."""
    entries = follower.poll()
    facts = _facts(entries, run_dir)
    has = dict(sink.open(facts))
    translator = Translator()
    status, sent = Status.RUNNING, 0
    newest = facts.declared_at
    console = make_console()
    console.print(f"mirroring run {facts.declared.run_id} to {args.to}", soft_wrap=True)
    while True:
        came: list[JournalEntry] = []
        if entries:
            batch = translator.translate(entries, has)
            newest = max(newest, entries[-1].time)
            if batch.cursor != has:
                came = _insist(lambda: sink.send(batch), follower, args)  # noqa: B023 - called before the next turn
                sent += sum(batch.cursor.values()) - sum(has.values())
                has = batch.cursor
        elif args.once or (status := follower.status) is not Status.RUNNING:
            break
        else:
            time.sleep(args.every)
        entries = came + follower.poll()
    status = follower.status
    _insist(lambda: sink.close(status, newest), follower, args)
    console.print(f"run {facts.declared.run_id} is {status.replace('_', ' ')}: {sent} rows sent", soft_wrap=True)


def _insist(attempt: Callable[[], None], follower: RunFollower, args: argparse.Namespace) -> list[JournalEntry]:
    """Repeat an attempt until it succeeds; once the run is over, only as long as ``--patience`` allows.

    Returns:
        Rows that were read meanwhile to find out whether the run is over.

    Raises:
        UserError: If the time of ``--patience`` is over.
    """
    wait_s, over_since = 1.0, None
    came: list[JournalEntry] = []
    while True:
        try:
            attempt()
            return came
        except SinkUnavailableError as error:
            now = f"{datetime.now(UTC):%H:%M:%S}"
            make_console().print(f"{now} {error}; trying again in {wait_s:.0f} s", soft_wrap=True)
            came += follower.poll()
            if args.once or follower.status is not Status.RUNNING:
                over_since = time.monotonic() if over_since is None else over_since
                if time.monotonic() - over_since + wait_s > args.patience:
                    raise UserError(f"{error}; run the command again later: it continues where it stopped") from error
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)


def _facts(entries: Sequence[JournalEntry], run_dir: Path) -> RunInfo:
    """Return the declaration among the rows of a run."""
    for entry in entries:
        if isinstance(entry.row, RunDeclared):
            return RunInfo(entry.row, entry.time, run_dir)
    raise UserError(f"{run_dir} has no declaration of a run: name the directory of a run")


def _find(name: str, log_root: Path) -> Path:
    """Return the directory of the run that the user named; the directory's name ends with the run's id."""
    if Path(name).is_dir():
        return Path(name).resolve()
    run_dirs = {path.parent: path.parent.name.rpartition("_")[2] for path in find_journals(log_root)}
    found = sorted(run_dir for run_dir, run_id in run_dirs.items() if run_id.startswith(name))
    if len(found) == 1:
        return found[0].resolve()
    if found:
        raise UserError(f"{name!r} begins the ids of {len(found)} runs: give more characters")
    known = nearest(name, run_dirs.values())
    raise UserError(f"no run directory and no run id {name!r} (run ids under {log_root}: {known})")


if __name__ == "__main__":
    from ledger_lab.terminal.script import run_script

    # Output of a destination's client may contain its key.
    sys.stdout = sys.stderr = log = RedactedStream(sys.stderr)
    atexit.register(log.finish)
    run_script(mirror_run)
