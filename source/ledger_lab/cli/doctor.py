"""``scripts/doctor.py``: checks whether this machine is fit for trainings, with a way out for each problem."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from ledger_lab.cli.probes import REINSTALL, Finding, check_packages, check_python, fail, installed_version, ok, warn
from ledger_lab.errors import UserError
from ledger_lab.ledger.control_groups import cpu_quota, usable_bytes
from ledger_lab.ledger.meters.host import git_facts
from ledger_lab.ledger.storage import try_storage
from ledger_lab.reports.terminal.console import make_console, write_json
from ledger_lab.reports.terminal.durations import parse_period
from ledger_lab.reports.terminal.request import Program, Request, flag, log_root_flag
from ledger_lab.reports.terminal.script import require_kernel_cache
from ledger_lab.units import counted

_SOURCE = Path(__file__).resolve().parents[2]
"""Folder that contains the package; in a source tree, beside ``tools``."""
_ONE_CHECK_S = 15.0
_PROBE_S = 20.0
"""How long to wait for a check, and for a library of the system [s]."""
_KEPT_S = 1.0
"""Part of the time that is kept for the end [s]."""
_MIB, _GIB = 1 << 20, 1 << 30
_LEAST_DISK, _LITTLE_DISK = 100 * _MIB, 2 * _GIB
_LEAST_MEMORY, _LITTLE_MEMORY = int(1.5 * _GIB), 4 * _GIB
"""Memory for the smallest training, and for a training of a robot with 512 environments [B]."""
_SLOW_S = 1.0
"""Time of a write that reaches the disk above which trainings wait noticeably for it [s]."""
_MOST_AHEAD_S = 30.0
"""Largest difference between the clocks of two machines that readers of a shared ledger can do without [s]."""
_DRIVER = "install NVIDIA's driver; start a container with --gpus all, and a batch job with a GPU (--gpus-per-node)"
_LONGER = "run this again, or with --limit_s 300"
_LATE = "no answer"


@dataclass(frozen=True, kw_only=True)
class DoctorRequest(Request):
    """What a user asks of ``scripts/doctor.py``: each field is a flag of the same name."""

    program = Program(
        name="doctor.py",
        description=(
            "Check whether this machine is fit for trainings, and say for each problem what to do. The checks cover "
            "Python, packages, GPU driver, rendering without a screen, caches, the disk of the ledger, cores and "
            "memory. At the end, a few cart-poles are simulated on the CPU and on each GPU. The program leaves "
            "only the cache of compiled kernels on the disk. The exit status is 0 if trainings work, even with "
            "warnings, otherwise 1."
        ),
        examples=("doctor.py", "doctor.py --log_root /data/logs --json"),
    )

    log_root: Path = log_root_flag("Root folder of the ledger, whose disk is checked (default: logs).")
    limit_s: float = flag(
        60.0,
        "Time limit of all checks together [s] (default: 60). On a new machine, the first simulation compiles "
        "kernels, which can take longer.",
        metavar="S",
        parse=parse_period,
    )
    json: bool = flag(False, "Print one JSON object instead of lines.")


def examine_machine(argv: Sequence[str]) -> int:
    """Check the machine, and print a line per check.

    Args:
        argv: Command line without the program's name.

    Returns:
        0 if the machine is fit, 1 if it is not.

    Raises:
        UserError: If the command line is wrong.
    """
    request = DoctorRequest.parse(argv)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that the children are killed
    began_s, console = time.monotonic(), make_console()
    findings: dict[str, Finding] = {}
    with closing(_examine(request)) as found:
        for name, finding in found:
            findings[name] = finding
            if not request.json:
                console.print(finding.line(name), soft_wrap=True)
    levels = [finding.level for finding in findings.values()]
    fit = "fail" not in levels
    if request.json:
        checks = {name: asdict(finding) for name, finding in findings.items()}
        write_json("-", {"fit": fit, "wall_s": round(time.monotonic() - began_s, 1), "checks": checks})
    else:
        verdict = "this machine is fit for trainings" if fit else "this machine is not fit for trainings"
        console.print(
            f"{verdict}: {len(levels)} checks, {levels.count('warn')} warnings, {levels.count('fail')} failed"
        )
    return 0 if fit else 1


def _examine(request: DoctorRequest) -> Generator[tuple[str, Finding]]:
    """Yield the checks with their results, as soon as they are known."""
    began_s = time.monotonic()

    def left_s(most_s: float) -> float:
        return max(0.0, min(most_s, request.limit_s - _KEPT_S - (time.monotonic() - began_s)))

    with ExitStack() as stack:

        def ask(*arguments: str) -> Child:
            child = Child("-m", "ledger_lab.cli.probes", *arguments)
            stack.callback(child.close)
            return child

        # The slow questions begin first, and are answered in processes of their own.
        egl, gpu, steps = ask("egl"), ask("gpu"), {"cpu": ask("step", "cpu")}
        for name, check in quick_checks(request.log_root).items():
            yield name, within(check, left_s(_ONE_CHECK_S))
        yield "EGL", check_egl(egl.answer(left_s(_PROBE_S)))
        answer = gpu.answer(left_s(request.limit_s))
        for index in range(len((answer.found or {}).get("devices", ()))):
            steps[f"cuda:{index}"] = ask("step", f"cuda:{index}")
        yield "GPU", check_gpu(has_gpu(), answer, os.environ.get("CUDA_VISIBLE_DEVICES"))
        for device, child in steps.items():
            yield f"step {device}", check_step(device, child.answer(left_s(request.limit_s)), request.limit_s)


def quick_checks(log_root: Path) -> Mapping[str, Callable[[], Finding]]:
    """Return the checks that need no other process, by name.

    Args:
        log_root: Root of the ledger.
    """
    lock = _SOURCE.parent / "tools" / "requirements" / "main.lock"
    return {
        "Python": check_python,
        "packages": lambda: check_packages(lock.read_text("utf-8") if lock.is_file() else None),
        "LedgerLab": lambda: check_ledger_lab(installed_version("ledger_lab")),
        "git": lambda: check_git(_SOURCE.parent),
        "cores": lambda: check_cores(len(os.sched_getaffinity(0)), cpu_quota(), os.environ.get("OMP_NUM_THREADS", "")),
        "memory": lambda: check_memory(usable_bytes()),
        "log root": lambda: check_log_root(log_root),
        "caches": lambda: check_caches(os.environ),
        "temporary": check_temporary,
    }


def within(check: Callable[[], Finding], limit_s: float) -> Finding:
    """Run a check with a time limit; an error or a time-out becomes a finding.

    Args:
        check: The check.
        limit_s: How long to wait for it, for example if a file server does not answer [s].
    """
    way_out = "find out which disk or server does not answer (dmesg)"
    found = [fail(f"no answer in {limit_s:.0f} s", way_out)]

    def carry_out() -> None:
        try:
            found.append(check())
        except Exception as error:  # noqa: BLE001 - a check that breaks must not stop the others
            text = " ".join(f"cannot be checked: {type(error).__name__}: {error}".split())
            found.append(fail(text, "see the other lines; the cause may be a missing package"))

    thread = threading.Thread(target=carry_out, daemon=True)  # a hanging one must not keep the program alive
    thread.start()
    thread.join(limit_s)
    return found[-1]


class Answer(NamedTuple):
    """What a process has found out."""

    found: dict[str, Any] | None
    """The JSON object in its last line; ``None`` if it failed or was not finished in time."""
    reason: str
    """Its last line; ``no answer`` if it was not finished in time."""


class Child:
    """A Python process that works while other checks are made. Its answer may be a crash, or never come."""

    def __init__(self, *arguments: str) -> None:
        """Start it.

        Args:
            arguments: Arguments of Python.
        """
        path = [str(_SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
            text=True,
            errors="replace",
            start_new_session=True,
        )

    def answer(self, limit_s: float) -> Answer:
        """Wait for its end, and return its answer. A process that takes longer is killed.

        Args:
            limit_s: How long to wait [s].
        """
        try:
            output, _ = self._process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            return Answer(None, _LATE)
        finally:
            self.close()
        last = (output.strip() or "no output").splitlines()[-1].strip()
        with suppress(ValueError):
            return Answer(dict(json.loads(last)) if self._process.returncode == 0 else None, last)
        return Answer(None, last)

    def close(self) -> None:
        """Kill the process and its children."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)


def check_ledger_lab(installed: str | None) -> Finding:
    """Check that LedgerLab itself is installed.

    Args:
        installed: Its installed version; ``None`` if it is not installed.
    """
    if installed is None:
        text = "not installed: scripts work from the source tree, but `isaaclab train` does not find the tasks"
        return warn(text, "python -m pip install -e . in the source tree")
    return ok(f"version {installed}")


def check_git(root: Path) -> Finding:
    """Check that runs can record the commit of the code.

    Args:
        root: Folder of the source.
    """
    facts = git_facts(root)
    if facts["commit"] is not None:
        return ok(f"commit {facts['commit'][:7]}{'' if facts['changes_sha256'] is None else ' with changes'}")
    command = ["git", "-C", str(root), "rev-parse", "HEAD"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False).stderr
    except FileNotFoundError:
        return warn("git is not on PATH: runs do not record the commit of the code", "install git")
    if "dubious ownership" in said:
        text = f"git refuses {root}, because it belongs to another user: runs do not record the commit of the code"
        return warn(text, f"git config --global --add safe.directory {root}")
    return ok(f"{root} is not in a git repository: runs record no commit")


def check_cores(allowed: int, quota: float | None, threads: str) -> Finding:
    """Check how many threads can compute at a time.

    Args:
        allowed: Cores that the process may use.
        quota: Limit of its control group [cores]; ``None`` without one.
        threads: The environment variable ``OMP_NUM_THREADS``.
    """
    text, usable = counted(allowed, "core"), allowed
    if quota is not None and quota < allowed:
        text, usable = f"{text}, of which the control group allows {quota:g} at a time", max(1, int(quota))
    if quota is not None and quota < 1:
        return warn(f"{text}: a thread has to wait even alone", "raise the limit of the container")
    if threads.isdecimal() and int(threads) > usable:
        return warn(f"{text}, but OMP_NUM_THREADS={threads}", f"set OMP_NUM_THREADS to at most {usable}, or unset it")
    return ok(text)


def check_memory(available_bytes: int) -> Finding:
    """Check the memory that this process can still take.

    Args:
        available_bytes: Memory of the host, or less in a limited control group [B].
    """
    text = f"{available_bytes / _GIB:.1f} GiB available"
    if available_bytes < _LEAST_MEMORY:
        way_out = "end other programs, or raise the limit of the container"
        return fail(f"{text}: a small training needs 1.5 GiB", way_out)
    if available_bytes < _LITTLE_MEMORY:
        return warn(f"{text}: trainings of robots need up to 4 GiB", "use fewer environments (--num_envs)")
    return ok(text)


def file_system(folder: Path) -> str:
    """Return the type of the file system of a folder, such as ``ext4`` or ``nfs4``.

    Args:
        folder: A folder.
    """
    real = folder.resolve()
    mounts = [each for each in psutil.disk_partitions(all=True) if real.is_relative_to(each.mountpoint)]
    innermost = max(reversed(mounts), key=lambda each: len(Path(each.mountpoint).parts), default=None)
    return "unknown" if innermost is None else innermost.fstype  # a later mount covers an earlier one


def check_log_root(log_root: Path, free_bytes: int | None = None, slow_s: float = _SLOW_S) -> Finding:
    """Check that a file system can hold a ledger, and that its clock agrees with this machine's.

    Nothing remains of it.

    Args:
        log_root: Root of the ledger, which need not exist.
        free_bytes: Free space; by default that of the disk [B].
        slow_s: Time above which a write is slow [s].
    """
    folder = next(each for each in (log_root.absolute(), *log_root.absolute().parents) if each.exists())
    kind, elsewhere = file_system(folder), "name another folder with --log_root"
    try:
        with tempfile.TemporaryDirectory(prefix=".doctor-", dir=folder) as scratch:
            began_s = time.monotonic()
            try_storage(Path(scratch))
            spent_s = time.monotonic() - began_s
            ahead_s = Path(scratch).stat().st_mtime - time.time()
    except OSError as error:
        return fail(f"{folder} ({kind}) can't hold a ledger: {error.strerror}", elsewhere)
    free = shutil.disk_usage(folder).free if free_bytes is None else free_bytes
    text = f"{folder} ({kind}), {free / _GIB:.1f} GiB free"
    if free < _LEAST_DISK:
        return fail(f"{text}: a run needs 100 MiB", f"free some space, or {elsewhere}")
    if free < _LITTLE_DISK:
        return warn(f"{text}: checkpoints of many runs need more", f"free some space, or {elsewhere}")
    if kind in ("tmpfs", "ramfs"):
        return warn(f"{text}: it is in memory, and lost when the machine goes down", elsewhere)
    if spent_s > slow_s:
        return warn(f"{text}: a durable write takes {spent_s:.1f} s", f"{elsewhere}, on a faster disk")
    if abs(ahead_s) > _MOST_AHEAD_S:
        differs = f"its clock and this machine's differ by {abs(ahead_s):.0f} s"
        way_out = "synchronize the clocks of all machines, for example with chrony"
        return warn(f"{text}: {differs}: other machines may take a live run for a lost one", way_out)
    return ok(f"{text}, durable write in {1e3 * spent_s:.0f} ms")


def check_caches(environ: Mapping[str, str]) -> Finding:
    """Check that compiled kernels can be kept.

    Args:
        environ: Environment variables.
    """
    try:
        kernels = require_kernel_cache(environ)
    except UserError as error:
        text, _, way_out = str(error).rpartition(": ")
        return fail(text, way_out)
    if os.access(kernels, os.W_OK):
        return ok(str(kernels))
    return warn(f"{kernels} can't be written: start-ups take longer", "set WARP_CACHE_PATH")


def check_temporary(memory: Path = Path("/dev/shm")) -> Finding:
    """Check the folders for temporary files, on disk and in memory.

    Args:
        memory: The folder in memory.
    """
    try:
        usual = tempfile.gettempdir()
    except FileNotFoundError:
        return fail("no folder for temporary files can be written", "set TMPDIR to a writable folder")
    if not os.access(memory, os.W_OK):
        text = f"{memory} can't be written: trainings with --nproc on several GPUs may not start"
        return warn(text, "start the container with --shm-size 1g or --ipc host")
    return ok(f"{usual} and {memory}")


def has_gpu(root: Path = Path("/")) -> bool:
    """Tell whether there is NVIDIA hardware, or a driver for it.

    Args:
        root: Folder that contains ``sys`` and ``dev``.
    """
    if any((root / "dev" / name).exists() for name in ("nvidiactl", "dxg")):
        return True
    for device in (root / "sys/bus/pci/devices").glob("*"):
        with suppress(OSError):
            vendor, kind = ((device / name).read_text("ascii").strip() for name in ("vendor", "class"))
            if vendor == "0x10de" and kind.startswith("0x03"):  # NVIDIA, a display
                return True
    return False


def check_gpu(hardware: bool, gpu: Answer, visible: str | None) -> Finding:
    """Check that torch can use the GPUs, and that the driver measures them. Without an answer, no GPU is stepped.

    Args:
        hardware: Whether there is NVIDIA hardware.
        gpu: Answer of the probe ``gpu``.
        visible: The environment variable ``CUDA_VISIBLE_DEVICES``.
    """
    if (found := gpu.found) is None:
        if gpu.reason == _LATE:
            return warn(f"torch was not imported in time{'; no GPU was tried' if hardware else ''}", _LONGER)
        return fail(f"torch can't be used: {gpu.reason}", REINSTALL)
    torch, driver = f"torch {found['torch']}", found["driver"]
    if found["devices"] and driver is not None:
        return ok(f"{torch}, {driver}, {', '.join(found['devices'])}")
    if found["devices"]:
        return warn(f"{torch} sees GPUs that can't be measured: {found['reason']}", _DRIVER)
    if not hardware and driver is None:
        return ok(f"{torch}; no NVIDIA GPU: trainings run on the CPU")
    if visible in ("", "-1"):
        return ok(f"{torch}; CUDA_VISIBLE_DEVICES hides all GPUs")
    named = "" if visible is None else f", and CUDA_VISIBLE_DEVICES={visible}"
    text = f"{torch} for CUDA {found['cuda']} sees no GPU; there is {driver or found['reason']}{named}"
    return warn(text, f"{_DRIVER}; the driver must support the CUDA of torch")


def check_egl(egl: Answer) -> Finding:
    """Check that videos can be recorded without a screen.

    Args:
        egl: Answer of the probe ``egl``.
    """
    if egl.found is not None:
        return ok(f"{egl.found['renderer']}: videos can be recorded without a screen")
    way_out = (
        "install libegl1, libgl1 and libegl-mesa0 (Debian, Ubuntu), or the graphics part of NVIDIA's driver "
        "(NVIDIA_DRIVER_CAPABILITIES=all in a container)"
    )
    return warn(f"no videos without a screen: {egl.reason}", way_out)


def check_step(device: str, step: Answer, limit_s: float) -> Finding:
    """Check that a simulation can be stepped.

    Args:
        device: ``cpu`` or ``cuda:N``.
        step: Answer of the probe ``step``.
        limit_s: How long was waited [s].
    """
    what = f"16 cart-poles on {device} were"
    if step.found is not None:
        return ok(f"{what} stepped")
    if step.reason == _LATE:
        return warn(f"{what} not stepped in {limit_s:.0f} s; the first start compiles kernels", _LONGER)
    way_out = f"see all of its output: python -m ledger_lab.cli.probes step {shlex.quote(device)}"
    return fail(f"a simulation on {device} fails: {step.reason}", way_out)
