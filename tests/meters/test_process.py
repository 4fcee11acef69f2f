"""A run starts when its Python starts, whatever the process did before."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from ledger_lab.errors import UserError
from ledger_lab.meters import PART_STARTED, part_environ, part_started_ns, python_started_ns

AGE_NS = "time.perf_counter_ns() - python_started_ns()"
AGE = f"import time; from ledger_lab.meters import python_started_ns; print({AGE_NS})"
WORK = "import os, time\nwhile time.process_time() < 1: pass\n"


def age_s(program: str, before: str = "") -> float:
    """Return the age that a Python program prints. It replaces a shell, which does something else before."""
    command = ["sh", "-c", f'{before} exec "$0" -c "$1"', sys.executable, program]
    return int(subprocess.check_output(command)) / 1e9


def test_what_a_shell_did_before_it_became_python_does_not_count() -> None:
    assert 0 < age_s(AGE, before="sleep 3;") < 2


def test_imports_before_ledger_lab_count() -> None:
    assert 1 <= age_s(WORK + AGE, before="sleep 3;") < 3


def test_a_program_did_not_start_before_its_process() -> None:
    forked = f"if os.fork() == 0: time.sleep(0.1); print({AGE_NS})\nelse: os.wait()"
    assert 0.1 <= age_s(f"{WORK}from ledger_lab.meters import python_started_ns\n{forked}") < 0.9


def test_a_part_of_a_job_starts_with_the_program_that_the_job_runs() -> None:
    environ = part_environ()
    assert part_started_ns(environ) == pytest.approx(python_started_ns(), abs=1e7)
    assert environ == {}, "programs that the training starts are measured from their own start"
    assert part_started_ns(environ) == pytest.approx(python_started_ns(), abs=1e7)
    age_ns = time.perf_counter_ns() - part_started_ns({PART_STARTED: "0"})  # when the machine started
    assert age_ns == pytest.approx(time.clock_gettime_ns(time.CLOCK_BOOTTIME), abs=1e9)


def test_launchers_of_processes_begin_with_the_program_that_they_replace() -> None:
    later = "import os, time; from ledger_lab.meters import part_started_ns as started;"
    later += "print(time.perf_counter_ns() - started(os.environ))"
    became = "import os, sys, time; from ledger_lab.meters import part_environ; time.sleep(1);"
    became += f"os.execve(sys.executable, [sys.executable, '-c', {later!r}], {{**os.environ, **part_environ()}})"
    assert 1 < age_s(became) < 4


@pytest.mark.parametrize("value", ["", "soon", "-1", "9" * 19, "9" * 5000])
def test_a_wrong_start_of_the_part_is_refused(value: str) -> None:
    with pytest.raises(UserError, match=f"{PART_STARTED}=.*: unset it"):
        part_started_ns({PART_STARTED: value})
