"""A run starts when its Python starts, whatever the process did before."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from ledger_lab.errors import UserError
from ledger_lab.ledger.meters.process import PART_STARTED, part_environ, part_started_ns, python_started_ns

BEGIN = "import os, sys, time; began = time.perf_counter_ns()\n"
BEFORE_IT = "print(began - python_started_ns())"
STARTED = f"from ledger_lab.ledger.meters.process import python_started_ns; {BEFORE_IT}"
WORK = "while time.process_time() < 1: pass\n"


def before_s(program: str, before: str = "") -> float:
    """Return how long before its first line a program says that it started [s]; a shell did something else before."""
    command = ["sh", "-c", f'{before} exec "$0" -c "$1"', sys.executable, BEGIN + program]
    return int(subprocess.check_output(command)) / 1e9


def test_python_starts_after_what_a_shell_did_and_before_its_imports() -> None:
    assert -0.5 < before_s(WORK + STARTED, before="sleep 3;") < 2


def test_a_program_did_not_start_before_its_process() -> None:
    forked = f"if os.fork() == 0: began = time.perf_counter_ns(); {BEFORE_IT}\nelse: os.wait()"
    assert -0.5 < before_s(f"{WORK}from ledger_lab.ledger.meters.process import python_started_ns\n{forked}") < 0.5


def test_a_part_of_a_job_starts_with_the_program_that_the_job_runs() -> None:
    environ = part_environ()
    assert part_started_ns(environ) == pytest.approx(python_started_ns(), abs=1e7)
    assert environ == {}, "programs that the training starts are measured from their own start"
    assert part_started_ns(environ) == pytest.approx(python_started_ns(), abs=1e7)
    age_ns = time.perf_counter_ns() - part_started_ns({PART_STARTED: "0"})  # when the machine started
    assert age_ns == pytest.approx(time.clock_gettime_ns(time.CLOCK_BOOTTIME), abs=1e9)


def test_launchers_of_processes_begin_with_the_program_that_they_replace() -> None:
    ask = "from ledger_lab.ledger.meters.process import part_started_ns\nprint(began - part_started_ns(os.environ))"
    later = f"{BEGIN}{ask}"
    became = f"os.execve(sys.executable, [sys.executable, '-c', {later!r}], {{**os.environ, **part_environ()}})"
    assert before_s(f"from ledger_lab.ledger.meters.process import part_environ\ntime.sleep(1)\n{became}") > 1


@pytest.mark.parametrize("value", ["", "soon", "-1", "9" * 19, "9" * 5000])
def test_a_wrong_start_of_the_part_is_refused(value: str) -> None:
    with pytest.raises(UserError, match=f"{PART_STARTED}=.*: unset it"):
        part_started_ns({PART_STARTED: value})
