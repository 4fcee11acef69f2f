"""Every program ends after a signal, even if its libraries replace signal handlers."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from ledger_lab.cli.programs import COMMANDS

ROOT = Path(__file__).parents[3]
SIMULATES = {"evaluate", "export_policy", "new_panel", "play", "profile_run", "train"}
DEAF = str(ROOT / "tests" / "fakes" / "deaf.py")


def test_a_program_that_ignores_signals_is_killed() -> None:
    with subprocess.Popen([sys.executable, DEAF], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "working\n"
        (child,) = psutil.Process(process.pid).children()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
        assert not child.is_running()


@pytest.mark.parametrize("status", [0, 75])
def test_a_watched_program_keeps_its_exit_status(status: int) -> None:
    assert subprocess.run([sys.executable, DEAF, str(status)], check=False).returncode == status


def test_every_command_that_opens_a_simulation_is_watched() -> None:
    """It has a request of its own. The supervisor imports no module that could replace its signal handlers."""
    assert {name for name, command in COMMANDS.items() if command.request is not None} == SIMULATES
    program = (
        "import sys, ledger_lab.cli.programs, ledger_lab.training.supervision.start\nprint('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "False\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("play", "--pretrained", "--device", "cpu", "--viz", "newton_gl", "--video", "--video_length", "1000000"),
        ("report", "query", "SELECT count(*) FROM range(1000000000000) AS a, range(1000) AS b"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_program_of_each_kind_ends_on_sigterm(arguments: tuple[str, ...], tmp_path: Path) -> None:
    script, *rest = arguments
    command = [sys.executable, str(ROOT / "scripts" / f"{script}.py"), *rest]
    command += ["--log_root", str(ROOT / "records" / "processes-cpu" if script == "report" else tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT) as process:
        deadline_s = time.monotonic() + 120
        library = b"duckdb" if script == "report" else b"torch"
        while True:  # until a library that takes its time is there
            assert process.poll() is None and time.monotonic() < deadline_s
            family = [process.pid, *(child.pid for child in psutil.Process(process.pid).children())]
            if any(library in Path(f"/proc/{pid}/maps").read_bytes() for pid in family):
                break
            time.sleep(0.05)
        time.sleep(1.0)
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) in (143, -signal.SIGTERM)
        assert not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children)
