"""``python -m benchmarks shared_ledger``: a ledger on a shared file system, compared with the same ledger locally."""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

from benchmarks.comparison import ROOT, add_json, script
from benchmarks.synthetic_ledger import least_rows, write_ledger
from ledger_lab.cli.doctor import file_system
from ledger_lab.errors import UserError
from ledger_lab.ledger.meters.host import hardware_facts
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.reports.terminal.progress import Progress
from ledger_lab.units import quantity

_STAND_IN = ROOT / "tests" / "faults" / "shared_disk.py"
_STAND_IN_CACHE_S = 30.0
"""How long the stand-in keeps attributes and names, as NFS does for folders [s]."""
_MOUNT_WITHIN_S = 60.0
_PROGRAMS = ("report.py", "verify_ledger.py")


@dataclass(frozen=True, kw_only=True)
class SharedReading:
    """One call of a program over the whole ledger."""

    where: str
    """``shared`` or ``local``."""
    program: str
    wall_s: float
    processor_s: float
    """Processor time of the program, child processes included, the file system's own process excluded [s]."""
    file_system_s: float
    """Processor time of the stand-in for the shared file system [s]; 0 for all other file systems."""
    peak_memory_bytes: int
    """Peak resident memory of its largest process."""


def bench_shared_ledger(argv: Sequence[str]) -> int:
    """Report on a large ledger over a shared file system and locally, in turns.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If an argument makes no sense, or the stand-in can't be mounted.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks shared_ledger",
        description="Measure how fast a ledger is read over a shared file system. The benchmark writes a ledger, "
        "copies it to the shared file system, and calls scripts/report.py (first call and second call) and "
        "scripts/verify_ledger.py on both copies in turns. --shared names a folder on a shared file system, such as an "
        "NFS mount. Without it, a stand-in with the semantics of NFS is mounted through FUSE. The stand-in is a Python "
        "program with one thread, so it takes longer than a file server; its processor time is shown separately. "
        "Before each round, the page cache of the system is dropped, if this user may do so.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks shared_ledger --shared /mnt/nfs/me --rounds 3",
    )
    parser.add_argument("--runs", type=int, default=1000, help="Number of runs (default: 1000).")
    parser.add_argument("--rows", type=int, default=1_000_000, help="Number of rows (default: 1000000).")
    parser.add_argument("--rounds", type=int, default=2, help="Number of rounds (default: 2).")
    parser.add_argument("--shared", type=Path, help="Folder on a shared file system (default: a stand-in is mounted).")
    parser.add_argument("--folder", type=Path, help="Folder on a local disk (default: a temporary folder).")
    add_json(parser, "all times")
    args = parser.parse_args(argv)
    _check(args)

    console = make_console()
    with tempfile.TemporaryDirectory(dir=args.folder, prefix="bench-shared-") as name:
        scratch, local = Path(name), Path(name) / "ledger"
        local.mkdir()
        with Progress(console, f"runs written, of {quantity(args.rows)} rows together", args.runs) as progress:
            write_ledger(local, args.runs, args.rows, progress.advance)
        with _shared(args.shared, local, scratch) as (shared, server):
            disks = [_kind(shared), _kind(local)]
            readings: list[SharedReading] = []
            for number in range(args.rounds):
                cold = _drop_caches()
                for where, root in (("shared", shared), ("local", local))[:: 1 if number % 2 == 0 else -1]:
                    readings += _read(where, root, server)
    console.print(_table(readings), f"(shared: {disks[0]}, local: {disks[1]})")
    write_findings(
        args.json,
        hardware=hardware_facts(),
        shared_filesystem=disks[0],
        local_filesystem=disks[1],
        page_cache_dropped=cold,
        load_average=os.getloadavg(),
        runs=args.runs,
        rows=args.rows,
        readings=[asdict(each) for each in readings],
    )
    return 0


def _check(args: argparse.Namespace) -> None:
    """Check the arguments.

    Raises:
        UserError: If one makes no sense.
    """
    if args.runs < 1 or args.rows < args.runs * least_rows():
        raise UserError(f"{args.runs} runs have at least {least_rows()} rows each: --rows {args.runs * least_rows()}")
    if args.rounds < 1:
        raise UserError(f"--rounds {args.rounds}: must be at least 1")
    for flag, folder in (("--shared", args.shared), ("--folder", args.folder)):
        if folder is not None and not folder.is_dir():
            raise UserError(f"{flag} {folder} is not a folder: name another folder")


def _kind(folder: Path) -> str:
    """Return the type of the file system of a folder."""
    return file_system(folder)


@contextmanager
def _shared(asked: Path | None, local: Path, scratch: Path) -> Iterator[tuple[Path, int | None]]:
    """Yield the ledger on a shared file system, and the process of the stand-in if there is one."""
    if asked is not None:
        with tempfile.TemporaryDirectory(dir=asked, prefix="bench-shared-") as name:
            root = Path(name) / "ledger"
            shutil.copytree(local, root)
            yield root, None
        return
    behind, mount_point, switches = (scratch / each for each in ("behind", "shared", "switches"))
    shutil.copytree(local, behind)
    mount_point.mkdir()
    switches.touch()
    command = [sys.executable, str(_STAND_IN), *map(str, (behind, mount_point, switches, _STAND_IN_CACHE_S))]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        deadline_s = time.monotonic() + _MOUNT_WITHIN_S
        while not os.path.ismount(mount_point):
            if server.poll() is not None or time.monotonic() > deadline_s:
                server.kill()
                _, said = server.communicate()
                raise UserError(
                    f"the stand-in for a shared file system can't be mounted ({said.strip()[-300:]}): it needs root, "
                    "/dev/fuse and libfuse 3; or name a folder on a shared file system with --shared"
                )
            time.sleep(0.05)
        yield mount_point, server.pid
    finally:
        subprocess.run(["umount", "--lazy", str(mount_point)], check=False, capture_output=True)
        server.kill()
        server.communicate()


def _drop_caches() -> bool:
    """Drop the page cache of the system; return whether this user may do so."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("1", encoding="ascii")
    except OSError:
        return False
    return True


def _read(where: str, root: Path, server: int | None) -> Iterator[SharedReading]:
    """Call each program once."""
    for program in _PROGRAMS:
        served_s, began_s = _processor_s(server), time.monotonic()
        process = subprocess.Popen(
            [sys.executable, script(program), "--log_root", str(root)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise RuntimeError(f"{program} failed over {root}: exit status {process.returncode}")
        yield SharedReading(
            where=where,
            program=program,
            wall_s=time.monotonic() - began_s,
            processor_s=usage.ru_utime + usage.ru_stime,
            file_system_s=_processor_s(server) - served_s,
            peak_memory_bytes=1024 * usage.ru_maxrss,
        )


def _processor_s(pid: int | None) -> float:
    """Return the processor time of a process so far [s]; 0 without a process."""
    if pid is None:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _table(readings: Sequence[SharedReading]) -> Table:
    """Draw the median times."""
    table = Table("program", "where", "wall", "processor", "file system", "memory", box=None, pad_edge=False)
    for program in _PROGRAMS:
        for where in ("local", "shared"):
            own = [each for each in readings if (each.program, each.where) == (program, where)]
            times = (statistics.median(getattr(each, of) for each in own) for of in ("wall_s", "processor_s"))
            served_s = statistics.median(each.file_system_s for each in own)
            memory = max(each.peak_memory_bytes for each in own)
            cells = [f"{each:.1f} s" for each in (*times, served_s)]
            table.add_row(program, where, *cells, f"{memory / 1e6:.0f} MB")
    return table
