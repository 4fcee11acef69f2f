"""Programs as scripts: their exit statuses, and what they print at the end."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

WRITES = """
import sys
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.script import run_script

def program(argv):
    if argv == ["a socket"]:
        raise BrokenPipeError(argv[0])
    tell = make_console().print if argv else print
    for _ in range(20_000):
        tell("a line of a long report")

run_script(program)
"""


@pytest.mark.parametrize("arguments", [[], ["with a console"]])
def test_a_reader_that_goes_early_ends_a_program_quietly(arguments: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run([sys.executable, "-c", WRITES, *arguments], stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (ended.returncode, ended.stderr) == (141, "")


def test_another_broken_pipe_is_no_reader_that_went() -> None:
    ended = subprocess.run([sys.executable, "-c", WRITES, "a socket"], capture_output=True, text=True)
    assert ended.returncode == 1
    assert "BrokenPipeError: a socket" in ended.stderr
