"""``python -m benchmarks ledger``: appending rows and reporting on them, beside MLflow and Weights & Biases."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import psutil
from rich.table import Table

from benchmarks import neighbour_appends
from benchmarks.comparison import add_json, script
from benchmarks.ledger_stages import STAGES, measure_stages
from benchmarks.synthetic_ledger import EPISODES, checkpoint, least_rows, window, write_ledger
from ledger_lab.errors import UserError
from ledger_lab.ledger import Journal, Row
from ledger_lab.ledger.meters.host import hardware_facts
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.reports.terminal.progress import Progress
from ledger_lab.units import quantity

_BYTES_PER_ROW = 900
"""Largest size of a row of a synthetic ledger with the usual panel [B]."""

_BYTES_PER_RUN = 16_000
"""Largest size of the other rows of a run, and of what its files take on a disk [B]."""


@dataclass(frozen=True, kw_only=True)
class Appending:
    """Speed of appending rows to one store."""

    name: str
    how: str
    fsync: Literal["each row", "each batch", "each MiB", "none"]
    """When rows are forced to disk."""
    p50_us: float | None
    """Median time of a call [µs]; ``None`` if a call takes many rows."""
    p99_us: float | None
    rows_per_s: float
    """Rows per second, until the last row is written."""


@dataclass(frozen=True, kw_only=True)
class Reporting:
    """Time of a program over a whole ledger."""

    runs: int
    rows: int
    program: str
    wall_s: float
    peak_memory_mb: float
    """Peak resident memory of all its processes, sampled 50 times a second [MB = 10⁶ bytes]."""
    stages_s: dict[str, float] | None
    """Processor time of each of the stages of a report, in a process of their own [s]; ``None`` for other programs."""


def bench_ledger(argv: Sequence[str]) -> int:
    """Append rows, report on ledgers, and print times and memory.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If an argument makes no sense, or the disk is too small.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks ledger",
        description="Measure how fast rows are appended to a ledger, and how fast ledgers of different sizes are read. "
        "First, rows are appended one by one. Durable rows are on the disk when the call returns. Telemetry rows are "
        "forced to the disk once per MiB. With --neighbours, rows of nine numbers are also logged to MLflow with "
        "SQLite, and to Weights & Biases offline. MLflow gets them one row at a time, and then in its largest batches. "
        "Then the benchmark writes ledgers of the sizes in --runs and --rows. It measures the time of "
        "scripts/report.py, of each stage of a report, and of scripts/verify_ledger.py on "
        "each ledger. The largest ledger needs about 0.8 kB of disk per row.",
        epilog="Examples: ./isaaclab.sh -p -m benchmarks ledger --runs 1000 --rows 1000000; many small runs: --runs "
        "100000 --rows 2000000 --episodes 16 --other_files 8",
    )
    parser.add_argument(
        "--appends",
        type=int,
        default=1000,
        help="Number of durable rows to append, also with --neighbours (default: 1000).",
    )
    parser.add_argument(
        "--runs",
        type=int,
        nargs="*",
        default=[1_000, 10_000],
        help="Numbers of runs; one ledger is written for each (default: 1000 10000).",
    )
    parser.add_argument(
        "--rows",
        type=int,
        nargs="*",
        default=[1_000_000, 10_000_000],
        help="Numbers of rows; one ledger is written for each (default: 1000000 10000000).",
    )
    parser.add_argument(
        "--episodes",
        type=int,
        default=EPISODES,
        help=f"Number of held-out episodes of the panel (default: {EPISODES}).",
    )
    parser.add_argument(
        "--other_files",
        type=int,
        default=0,
        help="Number of empty files beside the two journals of each run, such as checkpoints (default: 0).",
    )
    parser.add_argument(
        "--folder", type=Path, help="Folder to write to, on the disk to measure (default: a temporary folder)."
    )
    parser.add_argument(
        "--neighbours",
        metavar="PYTHON",
        help="Python executable of an environment with mlflow and wandb (default: measure only LedgerLab).",
    )
    add_json(parser, "all figures")
    args = parser.parse_args(argv)
    _check(args)

    console = make_console()
    with tempfile.TemporaryDirectory(dir=args.folder, prefix="bench-ledger-") as name:
        folder = Path(name)
        disk = _filesystem(folder)
        appendings = [_append(folder, "durable rows", checkpoint_row, args.appends)]
        appendings.append(_append(folder, "telemetry", window, 50 * args.appends))
        neighbours = _neighbours(args.neighbours, folder, args.appends) if args.neighbours else {}
        appendings += _neighbours_appending(neighbours, args.appends)
        console.print(_appending_table(appendings), f"(on {disk})")
        reportings: list[Reporting] = []
        for runs, rows in zip(args.runs, args.rows, strict=True):
            with Progress(console, f"runs written, of {quantity(rows)} rows together", runs) as progress:
                root = folder / f"ledger-{runs}-{rows}"
                root.mkdir()
                write_ledger(root, runs, rows, progress.advance, episodes=args.episodes, other_files=args.other_files)
            reportings += _report(root, runs, rows)
            shutil.rmtree(root)
        if reportings:
            console.print(_reporting_table(reportings), _stages_table(reportings))
        if "mlflow" in neighbours and "read_s" in neighbours["mlflow"]:
            found = neighbours["mlflow"]
            console.print(f"MLflow returns the history of {found['read_rows']} rows in {found['read_s']:.2f} s")
    for neighbour, found in neighbours.items():
        found.pop("one_by_one_s", None)
        if "error" in found:
            console.print(f"{neighbour}: not measured: {found['error']}", markup=False, soft_wrap=True)
    write_findings(
        args.json,
        hardware=hardware_facts(),
        filesystem=disk,
        load_average=os.getloadavg(),
        appending=[asdict(each) for each in appendings],
        reporting=[asdict(each) for each in reportings],
        neighbours=neighbours,
    )
    return 0


def checkpoint_row(number: int) -> Row:
    """Return a durable row."""
    return checkpoint(number, number)


def _check(args: argparse.Namespace) -> None:
    """Check the arguments and the disk space.

    Raises:
        UserError: If an argument makes no sense, or the disk is too small.
    """
    if args.appends < 100:
        raise UserError(f"--appends {args.appends}: a 99th percentile needs at least 100")
    if len(args.runs) != len(args.rows):
        raise UserError(f"--runs names {len(args.runs)} ledgers, --rows {len(args.rows)}: each needs both")
    for runs, rows in zip(args.runs, args.rows, strict=True):
        if runs < 1 or rows < runs * least_rows():
            raise UserError(f"{runs} runs have at least {least_rows()} rows each: --rows {max(runs, 1) * least_rows()}")
    if args.episodes < 1 or args.other_files < 0:
        raise UserError(f"--episodes {args.episodes} --other_files {args.other_files}: at least 1 and 0")
    if args.folder is not None and not args.folder.is_dir():
        raise UserError(f"--folder {args.folder} is not a folder: name another folder")
    needed, free = (
        max(args.rows, default=0) * _BYTES_PER_ROW + max(args.runs, default=0) * _BYTES_PER_RUN,
        shutil.disk_usage(args.folder or tempfile.gettempdir()).free,
    )
    if needed > free:
        raise UserError(
            f"--rows {max(args.rows)} need {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free: name a folder on "
            "another disk with --folder"
        )
    if args.neighbours is not None and shutil.which(args.neighbours) is None:
        raise UserError(
            f"--neighbours {args.neighbours} is not a program: name the Python executable of an environment with "
            "mlflow and wandb"
        )


def _append(folder: Path, how: str, row_of: Callable[[int], Row], count: int) -> Appending:
    """Append rows to LedgerLab's own journal."""
    rows = [row_of(number) for number in range(1, count + 1)]
    seconds = np.empty(count)
    journal = Journal(folder / f"journal-{how.replace(' ', '_')}.jsonl")
    began_s = time.perf_counter()
    for index, row in enumerate(rows):
        call_s = time.perf_counter()
        journal.append(row)
        seconds[index] = time.perf_counter() - call_s
    journal.close()
    wall_s = time.perf_counter() - began_s
    return _appending("LedgerLab", how, seconds, wall_s, "each row" if rows[0].DURABLE else "each MiB")


def _appending(
    name: str,
    how: str,
    seconds: Sequence[float] | np.ndarray,
    wall_s: float,
    fsync: Literal["each row", "each MiB", "none"],
) -> Appending:
    """Return the speed from the times of single calls [s]."""
    p50, p99 = np.percentile(seconds, [50, 99]) * 1e6
    rate = len(seconds) / wall_s
    return Appending(name=name, how=how, fsync=fsync, p50_us=float(p50), p99_us=float(p99), rows_per_s=rate)


def _neighbours(python: str, folder: Path, rows: int) -> dict[str, dict[str, Any]]:
    """Append to MLflow and W&B; report the reason if one fails."""
    found: dict[str, dict[str, Any]] = {}
    # Their environment must not see our modules.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    for name in ("mlflow", "wandb"):
        own = folder / name
        own.mkdir()
        finished = subprocess.run(
            [python, neighbour_appends.__file__, name, str(own), str(rows)],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )
        if finished.returncode == 0:
            found[name] = json.loads(finished.stdout.splitlines()[-1])
        else:
            found[name] = {"error": next(iter(finished.stderr.strip().splitlines()[-1:]), "no message")}
    return found


def _neighbours_appending(neighbours: dict[str, dict[str, Any]], rows: int) -> list[Appending]:
    """Return the speed of appending to MLflow and W&B."""
    appendings = []
    mlflow, wandb = neighbours.get("mlflow", {}), neighbours.get("wandb", {})
    if "one_by_one_s" in mlflow:
        seconds = mlflow["one_by_one_s"]
        name = f"MLflow {mlflow['version']}, SQLite"
        appendings.append(_appending(name, "a transaction each", seconds, sum(seconds), "each row"))
        rate = rows / mlflow["batched_s"]
        batched = Appending(
            name=name, how="largest batches", fsync="each batch", p50_us=None, p99_us=None, rows_per_s=rate
        )
        appendings.append(batched)
    if "one_by_one_s" in wandb:
        seconds = wandb["one_by_one_s"]
        wall_s = sum(seconds) + wandb["finish_s"]
        name = f"Weights & Biases {wandb['version']}, offline"
        appendings.append(_appending(name, "one by one", seconds, wall_s, "none"))
    return appendings


def _report(root: Path, runs: int, rows: int) -> list[Reporting]:
    """Measure the time of our programs over a ledger."""
    reportings = []
    for program in ("report.py", "verify_ledger.py"):
        began_s = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, script(program), "--log_root", str(root)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        peak_mb = _peak_memory_mb(process)
        wall_s = time.perf_counter() - began_s
        if process.returncode != 0:
            raise RuntimeError(f"{program} failed over {rows} rows: exit status {process.returncode}")
        reportings.append(
            Reporting(
                runs=runs,
                rows=rows,
                program=program,
                wall_s=wall_s,
                peak_memory_mb=peak_mb,
                stages_s=measure_stages(root) if program == "report.py" else None,
            )
        )
    return reportings


def _peak_memory_mb(process: subprocess.Popen[bytes]) -> float:
    """Wait for a process, and return the peak memory of it and its children together [MB].

    Shared pages count once per process.
    """
    watched, peak_bytes = psutil.Process(process.pid), 0
    while process.poll() is None:
        with contextlib.suppress(psutil.NoSuchProcess):
            family = [watched, *watched.children(recursive=True)]
            peak_bytes = max(peak_bytes, sum(each.memory_info().rss for each in family))
        time.sleep(0.02)
    return peak_bytes / 1e6


def _filesystem(folder: Path) -> str:
    """Return the kind of the file system that holds a folder."""
    mounts = [each for each in psutil.disk_partitions(all=True) if folder.resolve().is_relative_to(each.mountpoint)]
    return max(mounts, key=lambda mount: len(mount.mountpoint)).fstype if mounts else "an unknown file system"


def _appending_table(appendings: Sequence[Appending]) -> Table:
    """Draw the speed of appending rows."""
    durable, telemetry = appendings[:2]
    table = Table("appending", "", "fsync", "p50", "p99", "rows/s", "ours", box=None, pad_edge=False)
    for each in appendings:
        p50, p99 = ("" if value is None else f"{value:.0f} µs" for value in (each.p50_us, each.p99_us))
        ours = durable if each.fsync == "each row" else telemetry
        ratio = "" if each is ours else f"{ours.rows_per_s / each.rows_per_s:.1f} × ({ours.how})"
        table.add_row(each.name, each.how, each.fsync, p50, p99, quantity(each.rows_per_s), ratio)
    return table


def _stages_table(reportings: Sequence[Reporting]) -> Table:
    """Draw the processor time of the stages of reports."""
    table = Table("runs", *(f"{stage} (processor)" for stage in STAGES), box=None, pad_edge=False)
    for each in reportings:
        if each.stages_s is not None:
            spent = (f"{each.stages_s[stage]:.1f} s" for stage in STAGES)
            table.add_row(quantity(each.runs), *spent)
    return table


def _reporting_table(reportings: Sequence[Reporting]) -> Table:
    """Draw the time and memory of our programs."""
    table = Table("runs", "rows", "program", "wall", "peak memory", box=None, pad_edge=False)
    for each in reportings:
        cells = (quantity(each.runs), quantity(each.rows), each.program)
        table.add_row(*cells, f"{each.wall_s:.1f} s", f"{each.peak_memory_mb:.0f} MB")
    return table
