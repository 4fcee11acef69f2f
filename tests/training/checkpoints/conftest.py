"""An exported policy that several tests look at."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from ledger_lab.ledger import read_ledger
from ledger_lab.reports import summarize_run
from tests.conftest import one_run_dir, script


@dataclass(frozen=True)
class Exported:
    """An export of a run's best checkpoint."""

    checkpoint: str
    """Path of the checkpoint, relative to the run's directory."""
    folder: Path
    stdout: str


@pytest.fixture(scope="session")
def exported(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """The best checkpoint of the trained run, exported by ``export_policy.py`` into a copy of the run's directory."""
    run_dir = shutil.copytree(one_run_dir(trained), tmp_path_factory.mktemp("exported") / "run")
    (run,) = read_ledger(run_dir).runs
    best = summarize_run(run).best
    assert best is not None
    finished = script("export_policy", run_dir / best.path, "--device", "cpu")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return Exported(best.path, run_dir / "exported", finished.stdout)
