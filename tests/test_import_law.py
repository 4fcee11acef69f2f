"""The import law, and packages that must work without torch and Isaac Lab."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

LIGHT = [
    "ledger_lab.ledger",
    *(f"ledger_lab.ledger.costs.{name}" for name in ("prices", "model", "cohorts", "time_to_target")),
    "ledger_lab.training.launch",
    *(f"ledger_lab.ledger.meters.{name}" for name in ("phases", "telemetry", "gpu", "host", "compilation")),
    "ledger_lab.tasks.recipes",
    "ledger_lab.reports",
    "ledger_lab.reports.bundle",
    "ledger_lab.reports.export",
    "ledger_lab.tasks.pretrained",
    "ledger_lab.training.recording",
    "ledger_lab.studies.declared",
    "ledger_lab.reports.loggers",
    "ledger_lab.reports.loggers.tensorboard_sink",
    "ledger_lab.panels",
    "ledger_lab.training.runners",
    "ledger_lab.cli.report",
    "ledger_lab.cli.export",
    "ledger_lab.training.launch.start",
    "ledger_lab.reports.loggers.program",
    "ledger_lab.studies.commands.study",
    "ledger_lab.training.supervision.start",
    "ledger_lab.cli.verify",
    "ledger_lab.cli.watch",
    "ledger_lab.reports.watch",
]

HEAVY = (
    "torch",
    "isaaclab",
    "isaaclab_tasks",
    "warp",
    "newton",
    "gymnasium",
    "pxr",
    "rsl_rl",
    "rl_games",
    "skrl",
    "scipy",
)


def test_light_rooms_load_where_heavy_packages_are_missing() -> None:
    program = f"import sys\nfor name in {HEAVY!r}: sys.modules[name] = None\nfor name in {LIGHT!r}: __import__(name)\n"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_report_does_not_wait_for_what_few_reports_need() -> None:
    seldom = ("duckdb", "numpy", "plotly", "psutil")
    program = f"import sys, ledger_lab.cli.report\nprint([n for n in {seldom!r} if n in sys.modules])\n"
    finished = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert finished.stdout == "[]\n"


def test_imports_run_downhill() -> None:
    checked = subprocess.run([Path(sys.executable).parent / "lint-imports"], cwd=ROOT, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout
