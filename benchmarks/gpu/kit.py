"""Runs the parts of the GPU kit one after the other, and writes what they found after each part."""

from __future__ import annotations

import argparse
import shutil
import signal
import tempfile
import textwrap
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import NoReturn

from rich.console import Console

from benchmarks.comparison import writable_file
from benchmarks.gpu.compared import compared
from benchmarks.gpu.part import GRACE_S, Figures, Outcome, Part, keep_journals, run_part
from benchmarks.gpu.parts import all_parts
from benchmarks.gpu.surroundings import cached_kernels, environ_of_parts
from ledger_lab.errors import UserError, nearest
from ledger_lab.ledger.endings import Terminated
from ledger_lab.ledger.meters.host import hardware_facts
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.exit_status import ENDING
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.training.supervision.attempt import handling

BUDGET_S = 540.0
"""Time for all parts together [s]."""
_REST_S = 5.0
"""Part of the budget that is kept for the last figures [s]."""


def run_kit(argv: Sequence[str]) -> int:
    """Run the parts that fit into the time, and write what they found.

    Args:
        argv: Command line without the program's name.

    Returns:
        0 if all parts that ran are done; else 1.

    Raises:
        UserError: If an argument makes no sense.
    """
    args = _parse(argv)
    parts = _chosen(all_parts(args.device, quick=args.quick), args.part)
    logs = args.logs or args.out.with_name(f"{args.out.stem}-logs")
    if logs.exists():
        raise UserError(f"{logs} exists already: remove it, or name another folder with --logs")
    if args.caches is not None and args.caches.exists() and not args.caches.is_dir():
        raise UserError(f"--caches {args.caches} is not a folder: name a folder for compiled kernels")
    console, began_s = make_console(), time.monotonic()
    started = datetime.now(UTC).isoformat(timespec="seconds")
    outcomes: dict[str, Outcome] = {}
    cached: dict[str, int | None] = {}

    def write() -> None:
        write_findings(
            args.out,
            hardware=hardware_facts(),
            started=started,
            device=args.device,
            quick=args.quick,
            budget_s=args.budget_s,
            spent_s=round(time.monotonic() - began_s, 1),
            compared=_compared(outcomes),
            parts={
                name: {**asdict(each), "cached_kernels_before": cached.get(name)} for name, each in outcomes.items()
            },
            not_run=[part.name for part in parts if part.name not in outcomes],
        )

    write()  # a file that can't be written shows before the work
    with (
        handling(ENDING, _terminate),
        tempfile.TemporaryDirectory(prefix="gpu-kit-", dir=_parent(args.out), ignore_cleanup_errors=True) as folder,
    ):
        scratch = Path(folder)
        caches = args.caches or (None if args.quick else scratch / "caches")
        environ = environ_of_parts(scratch, caches=caches)
        for part in parts:
            left_s = args.budget_s - (time.monotonic() - began_s) - _REST_S
            cached[part.name] = cached_kernels(environ)
            reason = _obstacle(part, left_s, outcomes)
            if reason is None:
                limit_s = min(part.limit_s, left_s - GRACE_S)
                try:
                    outcome = run_part(part, scratch / part.name, environ, limit_s)
                finally:  # also if the kit is ended meanwhile
                    _keep(scratch / part.name, logs / part.name, console)
            else:
                outcome = Outcome(status="skipped", what=part.what, error=reason)
            outcomes[part.name] = outcome
            _tell(console, part, outcome)
            try:
                write()
            except UserError as error:  # it may be possible later
                console.print(str(error), markup=False)
    write()
    return 0 if {each.status for each in outcomes.values()} <= {"done", "skipped"} else 1


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="benchmarks gpu",
        description=textwrap.fill(
            "Measure and check on the first GPU of this machine what LedgerLab claims about GPUs, in at most nine "
            "minutes. Each part runs in a process of its own with a time limit; the most important parts come first. "
            "If a part fails or takes too long, the others still run. FILE is replaced after each part. It contains "
            "the figures and the error of each part, and the names of the parts for which no time was left. The kit "
            "only needs the installed packages: neither network, nor git, nor a writable home folder.",
            79,
        ),
        epilog="\n".join(
            [
                "parts, in this order:",
                *(f"  {part.name:31}{part.what}" for part in all_parts("cuda")),
                "",
                "example: ./isaaclab.sh -p -m benchmarks gpu --out gpu.json",
            ]
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=writable_file, required=True, metavar="FILE", help="JSON file to write.")
    parser.add_argument(
        "--logs",
        type=Path,
        metavar="FOLDER",
        help="Folder for the journals of all trainings and the output of all parts (default: beside FILE, NAME-logs).",
    )
    parser.add_argument(
        "--part",
        nargs="+",
        metavar="NAME",
        help="Run these parts only. A name that ends in - stands for all parts whose names begin with it.",
    )
    parser.add_argument(
        "--caches",
        type=Path,
        metavar="FOLDER",
        help="Folder for compiled kernels, which remains. With it, a second call need not compile them again (default: "
        "a new folder, which is removed).",
    )
    parser.add_argument("--device", default="cuda", help="Device: cuda, cuda:N or cpu (default: cuda).")
    parser.add_argument(
        "--budget_s", type=float, default=BUDGET_S, metavar="S", help=f"Time for all parts [s] (default: {BUDGET_S:g})."
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="Run one small part of each kind, which says nothing about speed. With --device cpu, this checks the kit "
        "on a machine without a GPU.",
    )
    args = parser.parse_args(argv)
    if not 0 < args.budget_s < float("inf"):
        raise UserError("--budget_s must be above 0")
    if args.device == "cpu" and not args.quick:
        raise UserError("the parts are made for a GPU: with --device cpu, add --quick")
    return args


def _chosen(parts: Sequence[Part], names: Sequence[str] | None) -> list[Part]:
    """Return the parts that a user named, in the order of the kit.

    Raises:
        UserError: If a name fits no part.
    """
    if names is None:
        return list(parts)
    chosen: set[str] = set()
    for name in names:
        fitting = {
            part.name for part in parts if part.name == name or (name[-1:] == "-" and part.name.startswith(name))
        }
        if not fitting:
            raise UserError(f"no part {name!r}: {nearest(name, [part.name for part in parts])}")
        chosen |= fitting
    return [part for part in parts if part.name in chosen]


def _obstacle(part: Part, left_s: float, outcomes: Mapping[str, Outcome]) -> str | None:
    """Return why a part cannot run; ``None`` if it can.

    Args:
        part: The part.
        left_s: Time left [s].
        outcomes: What came of the parts before it.
    """
    needed_s = part.least_s + GRACE_S
    if left_s < needed_s:
        return (
            f"{max(0.0, left_s):.0f} s were left, and it needs {needed_s:.0f} s: run it alone with --part {part.name}"
        )
    device = outcomes.get("device")
    if part.needs_device and device is not None and device.status in ("failed", "timed out"):
        return f"the device cannot be used: {(device.error or '').splitlines()[-1]}"
    return None


def _compared(outcomes: Mapping[str, Outcome]) -> Figures:
    """Compare the parts so far; figures that can't be compared must not stop the parts that follow."""
    try:
        return compared({name: each.result for name, each in outcomes.items() if each.result})
    except Exception as error:  # noqa: BLE001 - see above; the error is in the file
        return {"error": f"{type(error).__name__}: {error}"}


def _parent(out: Path) -> Path | None:
    """Return the folder for files of the parts: ``None`` for the usual one; if that can't be written, beside a file."""
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        return out.absolute().parent
    return None


def _keep(folder: Path, into: Path, console: Console) -> None:
    """Copy the journals of a part, whatever it left behind, and remove its other files."""
    try:
        keep_journals(folder, into)
    except Exception as error:  # noqa: BLE001 - the next part must run
        console.print(f"journals of {folder.name} are not kept: {type(error).__name__}: {error}")
    shutil.rmtree(folder, ignore_errors=True)  # checkpoints of all parts may not fit on the disk


def _tell(console: Console, part: Part, outcome: Outcome) -> None:
    """Print a line about a part."""
    spent = "" if outcome.wall_s is None else f" in {outcome.wall_s:.0f} s"
    console.print(f"{part.name:31} {outcome.status}{spent}  {(outcome.error or '')[:160]}".rstrip(), soft_wrap=True)


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    """End the kit and the part that runs. A second signal must not interrupt this."""
    for ending in ENDING:
        signal.signal(ending, signal.SIG_IGN)
    raise KeyboardInterrupt if number == signal.SIGINT else Terminated(signal.Signals(number).name)
