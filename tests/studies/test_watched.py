"""``watch.py`` asks engines about submitted trainings, and studies tell the alerts about themselves."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger_lab.cli.watch import EXIT_ALERTS, watch
from ledger_lab.clusters.engine import load_site
from ledger_lab.clusters.local import ENGINE, LocalSite
from ledger_lab.clusters.plans import Plan, PlannedTraining
from ledger_lab.clusters.submissions import Submission, new_folder
from ledger_lab.clusters.submit import hand_over
from ledger_lab.errors import UserError
from ledger_lab.studies.declared import load_study
from ledger_lab.studies.watched import watch_study
from tests.conftest import script
from tests.fakes.watched import make_run


def test_an_unknown_study_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="'unheard'"):
        watch(["--log_root", str(tmp_path), "--study", "unheard"])


@pytest.fixture
def submitted(tmp_path: Path) -> Iterator[Submission]:
    """A plan of two trainings that make no run, on this machine, one at a time."""
    (tmp_path / "train.py").write_text("import time\ntime.sleep(600)\n")
    (tmp_path / "here.toml").write_text(f'version = 1\nengine = "local"\nlog_root = "{tmp_path}/ledger"\n')
    (tmp_path / "s.toml").write_text('version = 1\nseeds = [1, 2]\narguments = ["--task", "T"]\nbudget_usd = 5\n')
    site = load_site(str(tmp_path / "here.toml"))[1]
    assert isinstance(site, LocalSite)
    trainings = tuple(
        PlannedTraining(what=f"s seed {seed}", start=(), resume=(), program="train.py", directory=str(tmp_path))
        for seed in (1, 2)
    )
    plan = Plan(name="s", trainings=trainings)
    submission = hand_over(ENGINE, site, plan, new_folder(site.log_root, "s"))
    yield submission
    ENGINE.cancel(submission)
    until = time.monotonic() + 60
    while ENGINE.queued(submission) and time.monotonic() < until:
        time.sleep(0.1)


def test_engines_are_asked_about_trainings_without_a_run(
    submitted: Submission, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    until = time.monotonic() + 60
    while not (submitted.folder / "started" / "0").exists() and time.monotonic() < until:
        time.sleep(0.05)
    root = str(tmp_path / "ledger")
    assert watch(["--log_root", root, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["notes"] == [], "the file of the cluster is not needed"
    assert watch(["--log_root", root, "--study", str(tmp_path / "s.toml")]) == 0
    said = capsys.readouterr().out
    assert "2 queued" in said and "s seed 1  queued (running)" in said and "s seed 2  queued (waiting)" in said
    assert "study s: 0 runs, 0 live, 2 of 2 trainings still to start" in said and "budget $5.00" in said
    an_hour_ago = time.time() - 3600
    os.utime(submitted.folder / "started" / "0", (an_hour_ago, an_hour_ago))
    assert watch(["--log_root", root, "--quiet"]) == EXIT_ALERTS
    told = capsys.readouterr().out
    assert (
        f"silent: queue {submitted.job}_0: its job runs (running), and s seed 1 has written no row for 1:00:0" in told
    )
    assert watch(["--log_root", root, "--no_ask", "--quiet"]) == 0
    found = watch_study(load_study(str(tmp_path / "s.toml")), tmp_path / "ledger", ask=True)
    assert [alert.kind for alert in found.alerts] == ["silent"]


def test_the_study_tells_alerts_and_the_report_the_status(tmp_path: Path) -> None:
    make_run(tmp_path / "ledger", "bb", ago_s=1000.0, cohort="s", seed=1)
    (tmp_path / "s.toml").write_text('version = 1\nseeds = [1]\narguments = ["--task", "T"]\nbudget_h = 0.1\n')
    finished = script("study", tmp_path / "s.toml", "--log_root", tmp_path / "ledger", "--dry_run")
    assert finished.returncode == 0, finished.stderr
    assert "study s: 1 run, 0 live, 1 of 1 trainings still to start" in finished.stdout
    assert "!! over budget: study s: 0.167 h of a budget of 0.1 h are spent, forecast " in finished.stdout
    assert "! lost: run bb: no row for " in finished.stdout
    reported = script("report", "--log_root", tmp_path / "ledger")
    assert " lost " in reported.stdout and "!" not in reported.stdout, reported.stderr
