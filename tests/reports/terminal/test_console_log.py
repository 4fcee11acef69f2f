"""The output of libraries goes to a log that may fail."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, resource, sys
from pathlib import Path
from ledger_lab.reports.terminal.console import Terminal
terminal = Terminal(recorded=True, quiet_libraries=sys.argv[2:] != ["loud"])
print("before the log has a name")
if sys.argv[2:] == ["only Python"]:
    resource.setrlimit(resource.RLIMIT_FSIZE, (40, 40))
terminal.keep_log(Path(sys.argv[1]))
for number in range(3):
    print("a library", number)
    os.write(1, b"from C\\n") if not sys.argv[2:] else None
terminal.console.print("the end")
terminal.restore()
"""


def run(*arguments: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    return subprocess.run(command, text=True, check=False, stderr=subprocess.PIPE, **options)  # type: ignore[call-overload, no-any-return]


def test_output_is_kept_without_a_temporary_folder(tmp_path: Path) -> None:
    nowhere = {"TMPDIR": str(tmp_path / "missing"), "PATH": "", "PYTHONPATH": ":".join(sys.path)}
    done = run(tmp_path / "console.log", stdout=subprocess.PIPE, env=nowhere, cwd="/proc")
    assert (done.returncode, done.stdout, done.stderr) == (0, "the end\n", "")
    lines = (tmp_path / "console.log").read_text().splitlines()
    assert lines[0] == "before the log has a name" and lines.count("from C") == 3 and "a library 2" in lines


def test_a_log_that_cannot_be_written_is_told_once_and_ends_nothing(tmp_path: Path) -> None:
    done = run(tmp_path / "console.log", "only Python", stdout=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, "")
    *told, end = done.stdout.splitlines()
    assert len(told) == 1 and "File too large" in told[0] and end == "the end"


def test_a_terminal_on_a_full_disk_ends_nothing(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = run(tmp_path / "console.log", stdout=full)
    assert (done.returncode, done.stderr) == (0, "")
    assert "terminal is lost: No space left on device" in (tmp_path / "console.log").read_text()


@pytest.mark.parametrize("how", [[], ["loud"]], ids=["quiet", "loud"])
def test_a_reader_that_goes_away_ends_nothing(tmp_path: Path, how: list[str]) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "console.log"), *how]
    shell = ["bash", "-c", 'set -o pipefail; (sleep 0.5; "$@") | true', "bash", *command]
    done = subprocess.run(shell, text=True, check=False, capture_output=True)
    said = done.stderr if how else (tmp_path / "console.log").read_text()
    assert done.returncode == 0 and said.count("output for the terminal is lost: Broken pipe\n") == 1
