"""A search on a cluster submits trainings one by one, some at a time, and goes on while they run."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from ledger_lab.commands import search as program
from ledger_lab.commands.search import run_search
from ledger_lab.errors import UserError
from ledger_lab.launch.local import ENGINE
from ledger_lab.launch.submissions import read_submissions
from ledger_lab.ledger import read_ledger
from ledger_lab.search.declaration import load_search
from tests.conftest import ROOT
from tests.fakes.searches import search_file
from tests.fakes.waiting import wait_until

TRAINER = """
import sys, time
sys.path.insert(0, {root!r})
from ledger_lab.ledger import Status
from tests.fakes.searches import train
if "--recipe" in sys.argv and {refuses}:
    sys.exit(2)
if "--resume" in sys.argv:
    sys.exit(1)
time.sleep({sleep_s})
if not {resumes}:
    sys.exit(train([sys.executable, *sys.argv], interrupted_after_s=1.0))
sys.exit(train([sys.executable, *sys.argv], status=Status.LIMIT_REACHED if "--recipe" in sys.argv else None))
"""
PROGRAM = """
import sys
sys.argv = {argv!r}
from ledger_lab.commands import search
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


def trainer(folder: Path, sleep_s: float = 0.0, refuses: bool = False, resumes: bool = True) -> None:
    text = TRAINER.format(root=str(ROOT), sleep_s=sleep_s, refuses=refuses, resumes=resumes)
    (folder / "scripts" / "train.py").write_text(text)


def test_trainings_are_submitted_until_the_search_ends(
    cluster: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = search_file(tmp_path, budget_h=0.08)
    asked = [str(path), "--on", str(cluster), "--at_once", "2"]
    assert run_search(asked) == 0
    said = capfd.readouterr().out
    assert "submitted to here as job" in said and "waiting: " in said
    assert "no trial besides the stock recipe reached the target on all search seeds" in said
    runs = read_ledger(tmp_path / "ledger").runs
    assert len({(run.cohort, run.declared.seed) for run in runs}) == len(runs), "each training was made once"
    assert len(runs) > 3
    assert run_search([*asked, "--status"]) == 0


def test_trainings_that_run_are_neither_started_again_nor_lost(
    cluster: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    trainer(tmp_path, sleep_s=600.0)
    path, log_root = search_file(tmp_path, budget_h=0.08), tmp_path / "ledger"
    asked = [str(path), "--on", str(cluster), "--at_once", "2"]
    stem = load_search(path).cohort_stem
    for _ in range(2):
        with subprocess.Popen([sys.executable, "-c", PROGRAM.format(argv=sys.argv, asked=asked)]) as killed:
            wait_until(lambda: len(read_submissions(log_root, stem)) == 2, "two trainings are submitted", 60)
            time.sleep(1.0)  # it looks several times
            killed.kill()
    submissions = read_submissions(log_root, stem)
    assert len(submissions) == 2, "the second program has found the trainings of the first one"
    assert run_search([*asked, "--status"]) == 0
    assert "race: 2 trainings of 1 trials" in capfd.readouterr().out
    assert run_search([*asked, "--cancel"]) == 0
    wait_until(lambda: not any(ENGINE.queued(each) for each in submissions), "the trainings end", 60)
    trainer(tmp_path)
    assert run_search(asked) == 0, "what was cancelled is submitted again"


def test_a_training_that_leaves_no_run_ends_the_search(cluster: Path, tmp_path: Path) -> None:
    trainer(tmp_path, refuses=True)
    with pytest.raises(UserError, match=r"trial 1 seed 1 ended before it began to train: see .*/output/0\.log"):
        run_search([str(search_file(tmp_path, budget_h=0.08)), "--on", str(cluster)])


def test_a_training_that_can_not_be_resumed_is_not_submitted_for_ever(cluster: Path, tmp_path: Path) -> None:
    trainer(tmp_path, resumes=False)
    path = search_file(tmp_path, budget_h=0.08)
    with pytest.raises(UserError, match=r"trial 0 seed 1 ended before it began to train: see .*/002/output/0\.log"):
        run_search([str(path), "--on", str(cluster)])
    assert len(read_submissions(tmp_path / "ledger", load_search(path).cohort_stem)) == 2
