"""The rooms that must work on a laptop without torch and Isaac Lab do, and no room looks into the pipeline."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "source" / "ledger_lab"

LIGHT = [
    "ledger_lab.ledger",
    "ledger_lab.costs",
    "ledger_lab.launch",
    "ledger_lab.meters",
    "ledger_lab.recipes",
    "ledger_lab.reports",
    "ledger_lab.reports.bundle",
    "ledger_lab.reports.export",
    "ledger_lab.reports.records",
    "ledger_lab.pretrained",
    "ledger_lab.recording",
    "ledger_lab.studies",
    "ledger_lab.mirrors",
    "ledger_lab.mirrors.mlflow_sink",
    "ledger_lab.mirrors.tensorboard_sink",
    "ledger_lab.panels",
    "ledger_lab.runners",
    "ledger_lab.pipeline.build_report",
    "ledger_lab.pipeline.export_ledger",
    "ledger_lab.pipeline.import_prices",
    "ledger_lab.pipeline.launcher",
    "ledger_lab.pipeline.mirror_run",
    "ledger_lab.pipeline.run_study",
    "ledger_lab.pipeline.supervisor",
    "ledger_lab.pipeline.verify_ledger",
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


def imports(path: Path) -> set[str]:
    """Return the names of all modules that a file imports, wherever in the file."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


def test_light_rooms_load_where_heavy_packages_are_missing() -> None:
    program = f"import sys\nfor name in {HEAVY!r}: sys.modules[name] = None\nfor name in {LIGHT!r}: __import__(name)\n"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_report_does_not_wait_for_what_few_reports_need() -> None:
    seldom = ("duckdb", "numpy", "plotly", "psutil")
    program = f"import sys, ledger_lab.pipeline.build_report\nprint([n for n in {seldom!r} if n in sys.modules])\n"
    finished = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert finished.stdout == "[]\n"


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_rooms_keep_the_law(path: Path) -> None:
    room = path.relative_to(PACKAGE).parts[0]
    found = imports(path)
    if room != "pipeline":
        assert not [name for name in found if name.startswith("ledger_lab.pipeline")]
    if not path.name.endswith("_adapter.py"):
        libraries = ("rsl_rl", "rl_games", "skrl", "isaaclab_rl.rsl_rl", "isaaclab_rl.rl_games", "isaaclab_rl.skrl")
        assert not [name for name in found if name.split(".")[0] in libraries or name in libraries]
    if room in ("ledger", "costs", "reports", "recipes", "recording", "mirrors", "launch"):
        assert not [name for name in found if name.split(".")[0] in HEAVY]


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_files_stay_readable(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 400
