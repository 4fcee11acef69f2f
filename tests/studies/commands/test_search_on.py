"""A search on a cluster submits trainings one by one, some at a time, and goes on while they run."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from ledger_lab.clusters.local import ENGINE
from ledger_lab.clusters.plans import train_file
from ledger_lab.clusters.submissions import Submission, read_submissions
from ledger_lab.ledger import read_ledger
from ledger_lab.studies.commands import search as program
from ledger_lab.studies.commands.search import run_search
from ledger_lab.studies.search.declaration import load_search
from tests.fakes.searches import search_file, trainer
from tests.fakes.waiting import wait_until

PROGRAM = """
import sys
sys.argv = {argv!r}
from ledger_lab.studies.commands import search
search._LOOK_EVERY_S = 0.3
search.run_search({asked!r})
"""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the file of a cluster whose trainer writes its run at once; only the stock recipe reaches the target."""
    (tmp_path / "scripts").mkdir()
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "scripts" / "search.py")])
    monkeypatch.setattr(program, "_LOOK_EVERY_S", 0.3)
    path = tmp_path / "here.toml"
    path.write_text(f'version = 1\nengine = "local"\nlog_root = "{tmp_path}/ledger"\n')
    trainer(tmp_path)
    return path


def taken(log_root: Path, stem: str) -> list[Submission]:
    """Return the submissions that the cluster has taken."""
    return [each for each in read_submissions(log_root, stem) if each.job]


def test_trainings_are_submitted_until_the_search_ends(
    cluster: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = search_file(tmp_path, budget_h=0.08)
    asked = [str(path), "--on", str(cluster), "--at_once", "2"]
    assert run_search(asked) == 0
    said = capfd.readouterr().out
    assert "submitted to here as job" in said and "waiting: " in said
    assert "nothing to compare: no trial reached the target on all its search seeds" in said
    runs = read_ledger(tmp_path / "ledger").runs
    assert len({(run.cohort, run.declared.seed) for run in runs}) == len(runs), "each training was made once"
    assert len(runs) > 3
    assert run_search([*asked, "--status"]) == 0

    first, *_ = read_submissions(tmp_path / "ledger", load_search(str(path)).cohort_stem)
    assert first.exit_status(0) == 0 and train_file(first.folder, 0).exists() and not first.is_refused(0)
    (first.folder / "exits" / "0").write_text("2")
    assert first.is_refused(0)
    train_file(first.folder, 0).unlink()
    assert not first.is_refused(0), "its node could not start train.py"


def test_trainings_that_run_are_neither_started_again_nor_lost(
    cluster: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    trainer(tmp_path, sleep_s=600.0)
    path, log_root = search_file(tmp_path, budget_h=0.08), tmp_path / "ledger"
    asked = [str(path), "--on", str(cluster), "--at_once", "2"]
    stem = load_search(str(path)).cohort_stem
    for _ in range(2):
        with subprocess.Popen([sys.executable, "-c", PROGRAM.format(argv=sys.argv, asked=asked)]) as killed:
            wait_until(lambda: len(taken(log_root, stem)) == 2, "two trainings are submitted", 60)
            time.sleep(1.0)  # it looks several times
            killed.kill()
    submissions = read_submissions(log_root, stem)
    assert len(submissions) == 2, "the second program has found the trainings of the first one"
    assert run_search([*asked, "--status"]) == 0
    assert "race: 2 trainings of 1 trial," in capfd.readouterr().out
    assert run_search([*asked, "--cancel"]) == 0
    wait_until(lambda: not any(ENGINE.queued(each) for each in submissions), "the trainings end", 60)
