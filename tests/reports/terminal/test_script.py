"""Programs as scripts: their exit statuses, and what they print at the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.conftest import ROOT

RECORDS = ["--log_root", "records/cartpole-cpu"]

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


def run_unread(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a program whose output nobody reads any more."""
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run([sys.executable, *command], stdout=write, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    os.close(write)
    return ended


@pytest.mark.parametrize("arguments", [[], ["with a console"]])
def test_a_reader_that_goes_early_ends_a_program_quietly(arguments: list[str]) -> None:
    ended = run_unread("-c", WRITES, *arguments)
    assert (ended.returncode, ended.stderr) == (141, "")


@pytest.mark.parametrize(
    "command",
    [["--help"], ["train", "--help"], ["watch", "--help"], ["report", "query"], ["doctor"], ["watch", *RECORDS]],
)
def test_no_command_complains_of_a_reader_that_has_gone(command: list[str]) -> None:
    ended = run_unread("-m", "ledger_lab", *command)
    assert ended.stderr == "" and ended.returncode in (141, -signal.SIGPIPE, 0), "argparse ends its help with 0"


def test_another_broken_pipe_is_no_reader_that_went() -> None:
    ended = subprocess.run([sys.executable, "-c", WRITES, "a socket"], capture_output=True, text=True)
    assert ended.returncode == 1
    assert "BrokenPipeError: a socket" in ended.stderr
