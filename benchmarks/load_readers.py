"""Readers of a ledger that many processes write, for ``python -m benchmarks load``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.comparison import script
from ledger_lab.ledger import Status

_PROGRAMS = ("report.py", "verify_ledger.py")
_NOTHING_YET = ("no journals under", "no runs under")
"""Errors of readers that come before all writers."""


@dataclass(frozen=True)
class Truth:
    """What is known about the writers at one moment, by their numbers."""

    begun: frozenset[int]
    """Those whose declaration and start are durable."""
    killed: frozenset[int]
    gone: frozenset[int]
    """Those that were killed, and whose process no longer exists."""
    ended: Mapping[int, Status]
    """How those have ended that have reported their end."""
    ending: Mapping[int, Status]
    """How those may end from now on that have not reported their end."""


@dataclass
class Reading:
    """One reading of the whole ledger by one program."""

    program: str
    wall_s: float
    processor_s: float
    """Processor time, child processes included [s]."""
    peak_memory_bytes: int
    """Peak resident memory of its largest process."""
    troubles: list[str] = field(default_factory=list)
    """What it found that is not true."""


def read_while(root: Path, scratch: Path, truth: Callable[[], Truth]) -> Generator[Reading | None]:
    """Read a ledger without end, by each program in turn. Each step of the iterator looks at the program that runs.

    Args:
        root: Root of the ledger.
        scratch: Folder for what the programs print.
        truth: Returns what is true at this moment.

    Yields:
        A reading that has ended, or ``None``.
    """
    output, said = scratch / "report.json", scratch / "said"
    number = 0
    while True:
        program = _PROGRAMS[number % len(_PROGRAMS)]
        number += 1
        command = [sys.executable, script(program), "--log_root", str(root)]
        command += ["--json", str(output)] if program == "report.py" else []
        before, began_s = truth(), time.monotonic()
        with said.open("w", encoding="utf-8") as to:
            process = subprocess.Popen(command, stdout=to, stderr=to)
        try:
            while not (found := os.wait4(process.pid, os.WNOHANG))[0]:
                yield None
            process.returncode = os.waitstatus_to_exitcode(found[1])
        finally:
            if process.returncode is None:
                process.kill()
                process.wait()
        usage, wall_s = found[2], time.monotonic() - began_s
        text = said.read_text(encoding="utf-8")
        reading = Reading(program, wall_s, usage.ru_utime + usage.ru_stime, 1024 * usage.ru_maxrss)
        if not before.begun and any(each in text for each in _NOTHING_YET):
            yield None
            continue
        if process.returncode != 0 or "left out:" in text or "damaged:" in text:
            reading.troubles.append(f"{program}: exit status {process.returncode}: {text[-1000:]}")
        elif program == "report.py":
            reading.troubles += wrong_statuses(json.loads(output.read_text(encoding="utf-8")), before, truth())
        yield reading


def wrong_statuses(report: Mapping[str, Any], before: Truth, after: Truth) -> list[str]:
    """Return what a report says about the writers that was true at no moment while it was made.

    Args:
        report: The report as JSON.
        before: The truth when the reader began.
        after: The truth when it had ended.
    """
    found: dict[int, str] = {}
    troubles = []
    for run in report["runs"]:
        if run["seed"] in found:
            troubles.append(f"report.py: writer {run['seed']} has two runs")
        found[run["seed"]] = run["status"]
    troubles += [f"report.py: writer {number} is missing" for number in sorted(before.begun - found.keys())]
    for number, status in found.items():
        if status not in (allowed := _possible(number, before, after)):
            troubles.append(f"report.py: writer {number} is {status}, and it was {' or '.join(sorted(allowed))}")
    return troubles


def _possible(number: int, before: Truth, after: Truth) -> set[Status]:
    """Return the statuses of a writer that were true at some moment."""
    if number in before.gone:
        return {Status.LOST}
    if number in before.ended:
        return {before.ended[number]}
    possible = {Status.RUNNING}
    if number in after.killed:
        possible.add(Status.LOST)
    else:
        possible |= {each[number] for each in (after.ended, after.ending) if number in each}
    return possible
