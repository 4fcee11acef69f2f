"""``scripts/doctor.py``: checks whether this machine is fit for trainings, with a way out for each problem."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from pathlib import Path

from ledger_lab.cli.doctor import disk, gpu, machine, packages
from ledger_lab.cli.doctor.child import Answer, Child
from ledger_lab.cli.doctor.finding import Check, Finding, within
from ledger_lab.errors import UserError
from ledger_lab.ledger.control_groups import cpu_quota
from ledger_lab.names import visible
from ledger_lab.reports.terminal.flags import Program
from ledger_lab.reports.terminal.request import Request, flag, log_root_flag
from ledger_lab.reports.terminal.surroundings import accept_surroundings

_ROOT = Path(__file__).resolve().parents[4]
"""The source tree, if this is one."""
_ONE_CHECK_S = 15.0
_PROBE_S = 20.0
"""How long to wait for a check, and for a library of the system [s]."""
_KEPT_S = 1.0
"""Part of the time that is kept for the end [s]."""


@dataclass(frozen=True, kw_only=True)
class DoctorRequest(Request):
    """What a user asks of ``scripts/doctor.py``: each field is a flag of the same name."""

    program = Program(
        name="doctor.py",
        description=(
            "Check whether this machine is fit for trainings, and say for each problem what to do. The checks cover "
            "Python, packages, GPU driver, rendering without a screen, caches, the disk of the ledger, connections "
            "between processes, cores, memory, limits and the clock. At the end, a few cart-poles are simulated on "
            "the CPU and on each GPU. Nothing is left on the disk, except for compiled kernels in their cache. The "
            "exit status is 0 if trainings work (there may be warnings), otherwise 1."
        ),
        terms=("ledger",),
        examples=("doctor.py", "doctor.py --log_root /data/logs --json"),
    )

    log_root: Path = log_root_flag("Root folder of the ledger, whose disk is checked (default: logs).")
    limit_s: float = flag(
        60.0,
        "Longest time of all checks [s] (default: 60). On a new machine, the first simulation compiles kernels, which "
        "can take longer.",
        metavar="S",
    )
    json: bool = flag(False, "Print one JSON object instead of lines.")

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UserError: If the time is not positive.
        """
        if not 0 < self.limit_s < float("inf"):
            raise UserError(f"--limit_s {self.limit_s:g}: must be above 0")


def examine_machine(argv: Sequence[str]) -> int:
    """Check the machine, and print a line per check.

    Args:
        argv: Command line without the program's name.

    Returns:
        0 if the machine is fit, 1 if it is not, 2 for a wrong command line.
    """
    accept_surroundings()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: sys.exit(128 + number))  # so that the children are killed
    try:
        request = DoctorRequest.parse(argv)
    except UserError as error:
        print(visible(f"error: {error}"), file=sys.stderr)
        return 2
    began_s = time.monotonic()
    findings: dict[str, Finding] = {}
    with closing(_examine(request)) as found:
        for name, finding in found:
            findings[name] = finding
            if not request.json:
                print(line_of(name, finding), flush=True)
    levels = [finding.level for finding in findings.values()]
    fit = "fail" not in levels
    if request.json:
        print(
            json.dumps(
                {
                    "fit": fit,
                    "wall_s": round(time.monotonic() - began_s, 1),
                    "checks": {name: asdict(finding) for name, finding in findings.items()},
                },
                indent=2,
            )
        )
    else:
        verdict = "this machine is fit for trainings" if fit else "this machine is not fit for trainings"
        print(f"{verdict}: {len(levels)} checks, {levels.count('warn')} warnings, {levels.count('fail')} failed")
    return 0 if fit else 1


def line_of(name: str, finding: Finding) -> str:
    """Return the line about a check.

    Args:
        name: Name of the check.
        finding: What it found.
    """
    text = finding.text if finding.way_out is None else f"{finding.text} → {finding.way_out}"
    return visible(f"{finding.level:4}  {name:12}  {text}")


def _examine(request: DoctorRequest) -> Generator[tuple[str, Finding]]:
    """Yield the checks with their results, as soon as they are known."""
    began_s, began_time_s = time.monotonic(), time.time()

    def left_s(most_s: float) -> float:
        return max(0.0, min(most_s, request.limit_s - _KEPT_S - (time.monotonic() - began_s)))

    with ExitStack() as stack:
        # The slow questions begin first, and are answered in processes of their own.
        asked = {name: Child(*_probe(name)) for name in ("torch", "cuda", "nvml", "egl")}
        steps = {"cpu": Child(*_probe("step", "cpu"))}
        stack.callback(lambda: _close(*asked.values(), *steps.values()))
        for name, check in quick_checks(request.log_root).items():
            yield name, within(check, left_s(_ONE_CHECK_S))
        answers = {name: asked[name].answer(left_s(_PROBE_S)) for name in ("cuda", "nvml", "egl")}
        yield "EGL", gpu.check_egl(answers["egl"])
        answers["torch"] = asked["torch"].answer(left_s(request.limit_s))
        for index in range(len((gpu.json_of(answers["torch"]) or {}).get("devices", ()))):
            steps[f"cuda:{index}"] = Child(*_probe("step", f"cuda:{index}"))
        for name, check in gpu_checks(answers, gpu.has_gpu()).items():
            yield name, within(check, _ONE_CHECK_S)
        for device, child in steps.items():
            yield f"step {device}", gpu.check_step(device, child.answer(left_s(request.limit_s)), request.limit_s)
    passed_s = time.monotonic() - began_s
    drift_s = time.time() - began_time_s - passed_s
    yield "clock", within(lambda: machine.check_clock(time.time(), drift_s, passed_s, machine.clock_source()), 5.0)


def _close(*children: Child) -> None:
    """End processes that are still at work."""
    for child in children:
        child.close()


def _probe(*arguments: str) -> tuple[str, ...]:
    """Return the arguments of Python that ask a question."""
    return "-m", "ledger_lab.cli.doctor.probes", *arguments


def quick_checks(log_root: Path) -> Mapping[str, Check]:
    """Return the checks that need no other process, by name.

    Args:
        log_root: Root of the ledger.
    """
    lock = _ROOT / "tools" / "requirements" / "main.lock"

    def mounts() -> str:
        return Path("/proc/self/mountinfo").read_text("utf-8", errors="replace")

    return {
        "Python": packages.check_python,
        "packages": lambda: packages.check_packages(
            packages.locked_versions(lock.read_text("utf-8")) if lock.is_file() else None
        ),
        "LedgerLab": lambda: packages.check_ledger_lab(
            packages.installed_version("ledger_lab"), packages.version_of_tree(_ROOT)
        ),
        "git": lambda: packages.check_git(_ROOT),
        "cores": lambda: machine.check_cores(len(os.sched_getaffinity(0)), cpu_quota()),
        "threads": lambda: machine.check_threads(4 * len(os.sched_getaffinity(0)) + 16),
        "memory": lambda: machine.check_memory(_usable_bytes()),
        "files": machine.check_files,
        "terminal": machine.check_terminal,
        "loopback": machine.check_loopback,
        "log root": lambda: disk.check_log_root(log_root, mounts()),
        "caches": lambda: disk.check_caches(os.environ),
        "temporary": lambda: disk.check_temporary(disk.temporary_folder()),
    }


def gpu_checks(answers: Mapping[str, Answer], hardware: bool) -> Mapping[str, Check]:
    """Return the checks of GPUs, by name.

    Args:
        answers: Answers of the probes.
        hardware: Whether there is NVIDIA hardware.
    """
    return {
        "driver": lambda: gpu.check_driver(hardware, answers["cuda"]),
        "NVML": lambda: gpu.check_nvml(hardware, answers["nvml"]),
        "CUDA": lambda: gpu.check_cuda(hardware, answers["cuda"], answers["torch"]),
    }


def _usable_bytes() -> int:
    """Return the memory that this process can still take [B]."""
    from ledger_lab.ledger.meters.memory_limits import usable_bytes  # its package needs others, which may be broken

    return usable_bytes()
