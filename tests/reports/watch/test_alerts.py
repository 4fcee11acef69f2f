"""Each alert appears when its rule holds, says what is known, and stays away otherwise."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ledger_lab.ledger import Health, Journal, SchedulerJob, Status, read_ledger
from ledger_lab.ledger.liveness import identify_process
from ledger_lab.reports.watch.model import Alert, AlertKind, PlannedStudy, QueuedTraining, Severity, State, Watch
from ledger_lab.reports.watch.view import watch_ledger
from tests.fakes.ledgers import SECOND, declared
from tests.fakes.watched import G6, make_run, written

HERE = socket.gethostname()
DONE = Status.COMPLETED


def look(root: Path, queues: Sequence[QueuedTraining] = (), *studies: PlannedStudy, later_s: float = 0.0) -> Watch:
    now = datetime.now(UTC) + timedelta(seconds=later_s)
    return watch_ledger(read_ledger(root), now=now, queues=queues, studies=studies)


def one(root: Path, queues: Sequence[QueuedTraining] = ()) -> Alert:
    (alert,) = look(root, queues).alerts
    return alert


def queued(
    run_directory: Path | None = None, *, runs: bool = True, ago_s: float = 0.0, **changes: object
) -> QueuedTraining:
    since = datetime.now(UTC) - timedelta(seconds=ago_s)
    return replace(
        QueuedTraining(
            name="s seed 1",
            plan="s",
            job="77",
            index=0,
            runs=runs,
            said="running on n1" if runs else "pending (Priority)",
            submitted_at=since,
            started_at=since if runs else None,
            run_directory=None if run_directory is None else run_directory.resolve(),
            output=Path("/ledger/submissions/s/001/output/0.log"),
            cancel="scancel 77",
        ),
        **changes,  # type: ignore[arg-type]
    )


def test_a_training_that_writes_nothing_beside_its_supervisor_is_hung(tmp_path: Path) -> None:
    make_run(tmp_path, "aa", ago_s=1000.0, supervised_ago_s=1.0)
    alert = one(tmp_path)
    assert (alert.kind, alert.severity, alert.subject) == ("hung", "critical", "aa")
    assert "has written none for 16:4" in alert.sentence and "kill 4194305 on elsewhere" in alert.way_out
    assert alert.usd_per_hour == pytest.approx(G6.usd_per_hour)


@pytest.mark.parametrize(
    ("ago_s", "iterations", "took_s"), [(800.0, 50, 600), (1000.0, 5, 2010)], ids=["compiles", "slow iterations"]
)
def test_a_training_may_be_silent_for_long_while_it_works(
    ago_s: float, iterations: int, took_s: int, tmp_path: Path
) -> None:
    make_run(tmp_path, "aa", ago_s=ago_s, supervised_ago_s=1.0, iterations=iterations, took_s=took_s)
    found = look(tmp_path)
    assert [each.state for each in found.runs] == [State.RUNNING] and not found.alerts


def test_a_process_that_exists_and_writes_nothing_is_silent(tmp_path: Path) -> None:
    make_run(tmp_path, "aa", ago_s=1000.0, host=HERE, process=identify_process(os.getpid()))
    alert = one(tmp_path)
    assert (alert.kind, alert.severity) == ("silent", "critical")
    assert f"exists on {HERE}" in alert.sentence and alert.way_out.startswith(f"kill -CONT {os.getpid()} ")


def test_a_lost_run_is_told_until_it_is_resumed_made_again_or_old(tmp_path: Path) -> None:
    make_run(tmp_path, "aa", ago_s=1000.0, cohort="c", state=True)
    alert = one(tmp_path)
    assert (alert.kind, alert.severity) == ("lost", "warning")
    assert "can't see whether elsewhere is still paid for" in alert.sentence
    assert alert.way_out == f"./isaaclab.sh -p scripts/train.py --resume aa --log_root {tmp_path}"
    assert look(tmp_path).alerts == (replace(alert, sentence=look(tmp_path).alerts[0].sentence),), "nothing is stored"
    assert not look(tmp_path, later_s=24 * 3600.0).alerts
    make_run(tmp_path, "bb", cohort="c", host="other")
    assert [each.run_id for each in look(tmp_path).runs] == ["bb"]


def test_a_lost_run_whose_job_has_just_started_again_is_resumed(tmp_path: Path) -> None:
    directory = make_run(tmp_path, "aa", ago_s=1000.0)
    assert not look(tmp_path, [queued(directory, ago_s=60.0)]).alerts
    alert = one(tmp_path, [queued(directory, ago_s=1000.0)])
    assert (alert.kind, alert.severity, alert.subject) == ("silent", "critical", "77_0")
    assert alert.way_out.endswith("end it: scancel 77")


def test_a_run_that_is_only_declared_starts_and_is_then_lost(tmp_path: Path) -> None:
    for run_id, ago_s in (("aa", 5.0), ("bb", 1000.0)):
        (tmp_path / run_id).mkdir()
        with written(ago_s), Journal(tmp_path / run_id / "journal-1-0.jsonl") as journal:
            journal.append(declared(run_id))
    found = look(tmp_path)
    assert [(each.run_id, each.state) for each in found.runs] == [("bb", State.LOST), ("aa", State.RUNNING)]
    assert [(each.kind, each.subject) for each in found.alerts] == [("lost", "bb")]


def test_a_job_without_a_run_is_silent_after_a_while(tmp_path: Path) -> None:
    make_run(tmp_path, "aa", status=DONE)
    assert not look(tmp_path, [queued(ago_s=800.0)]).alerts
    found = look(tmp_path, [queued(ago_s=1000.0)])
    assert [each.kind for each in found.alerts] == ["silent"]
    assert [(each.name, each.state, each.said) for each in found.runs] == [("s seed 1", State.QUEUED, "running on n1")]


@pytest.mark.parametrize(
    ("host", "severity", "words"),
    [(HERE, "warning", "other work on it is unknown"), ("elsewhere", "notice", "was given back")],
)
def test_a_rented_machine_is_idle_after_its_last_run(host: str, severity: Severity, words: str, tmp_path: Path) -> None:
    make_run(tmp_path, "aa", ago_s=1200.0, status=DONE, host=host)
    alert = one(tmp_path)
    assert (alert.kind, alert.severity, alert.subject) == ("idle", severity, host)
    assert words in alert.sentence and "for run aa, 20:00 ago" in alert.sentence
    make_run(tmp_path, "bb", host=host, process=identify_process(os.getpid()) if host == HERE else None)
    assert not look(tmp_path).alerts, "it works again"


def test_a_queue_is_stuck_only_if_nothing_of_it_runs(tmp_path: Path) -> None:
    make_run(tmp_path, "aa", status=DONE)
    waiting = [queued(runs=False, ago_s=5 * 3600.0), queued(runs=False, ago_s=5 * 3600.0, index=1)]
    alert = one(tmp_path, waiting)
    assert (alert.kind, alert.severity, alert.subject) == ("stuck_queue", "warning", "77")
    assert alert.sentence == "2 trainings of s wait, and none has run for 5:00:00: pending (Priority)"
    moving = [*waiting, queued(runs=True, ago_s=60.0, index=2)]
    assert not look(tmp_path, moving).alerts, "some wait because others run"
    make_run(tmp_path, "bb", ago_s=1800.0, status=DONE, job=SchedulerJob(engine="slurm", job="77", index=3, restarts=0))
    assert not look(tmp_path, waiting).alerts, "one has ended half an hour ago"


def test_a_run_is_overdue_after_the_slowest_of_five_that_reached_the_target(tmp_path: Path) -> None:
    for number in range(5):
        make_run(tmp_path, f"e{number}", took_s=600 + number, reached=True, status=Status.TARGET_REACHED, ago_s=5000.0)
    live = make_run(tmp_path, "live", took_s=604, host="n1")
    assert not [each for each in look(tmp_path).alerts if each.subject == "live"]
    for path in live.iterdir():
        path.unlink()
    live.rmdir()
    make_run(tmp_path, "live", took_s=700, host="n1")
    (alert,) = [each for each in look(tmp_path).alerts if each.subject == "live"]
    assert (alert.kind, alert.severity) == ("overdue", "warning")
    assert "11:40 and $0.16 without its target; the slowest of 5 earlier runs" in alert.sentence
    assert "needed 10:04; by chance alone, 1 of 6 runs takes longer" in alert.sentence
    assert alert.since is not None and 90 < (datetime.now(UTC) - alert.since).total_seconds() < 130


def test_runs_with_other_settings_say_nothing(tmp_path: Path) -> None:
    for number in range(5):
        make_run(
            tmp_path,
            f"e{number}",
            reached=True,
            status=Status.TARGET_REACHED,
            ago_s=5000.0,
            config_sha256={"env": "0", "agent": "other"},
        )
    make_run(tmp_path, "live", took_s=700, host="n1")
    found = look(tmp_path)
    (progress,) = found.runs
    assert progress.left_s is not None and progress.left_s.expected is None
    assert "0 of 0 earlier runs with the same settings" in progress.left_s.basis
    assert "overdue" not in [each.kind for each in found.alerts]


@pytest.mark.parametrize(("event", "severity"), [("no_convergence", "warning"), ("slowdown", "notice")])
def test_health_events_are_passed_on_while_the_run_goes_on(event: str, severity: str, tmp_path: Path) -> None:
    health = Health(
        event=event, iteration=40, wall_ns=600 * SECOND, evidence="figures", advice="change it", stops=False
    )
    make_run(tmp_path, "aa", health=health)
    alert = one(tmp_path)
    assert (alert.kind, alert.severity) == ("health", severity)
    assert (alert.sentence, alert.way_out) == (f"{event} at iteration 40: figures", "change it")
    make_run(tmp_path / "ended", "aa", health=health, status=DONE)
    assert not look(tmp_path / "ended").alerts


@pytest.mark.parametrize(
    ("budget", "kind", "severity"),
    [
        ({"budget_usd": 1.00}, None, None),
        ({"budget_usd": 0.947}, "budget_at_risk", "warning"),
        ({"budget_usd": 0.80}, "over_budget", "critical"),
        ({"budget_usd": 0.10}, "over_budget", "critical"),
        ({"budget_h": 0.5}, "over_budget", "critical"),
        ({"budget_h": 2}, None, None),
    ],
)
def test_a_study_that_cannot_finish_in_its_budget_is_told(
    budget: dict[str, float], kind: AlertKind | None, severity: Severity | None, tmp_path: Path
) -> None:
    took = (600, 610, 605, 600, 610)
    for seed, took_s in enumerate(took, start=1):
        make_run(tmp_path, f"e{seed}", took_s=took_s, status=DONE, ago_s=100.0, cohort="s", seed=seed, reached=True)
    found = look(tmp_path, (), PlannedStudy(name="s", cohorts=("s",), seeds=(1, 2, 3, 4, 5, 6, 7), **budget))  # type: ignore[arg-type]
    (study,) = found.studies
    assert (study.runs, study.live_runs, study.planned, study.missing) == (5, 0, 7, 2)
    assert study.spent_usd == pytest.approx(sum(took) / 3600 * (G6.usd_per_hour or 0))
    assert study.forecast_usd is not None and study.forecast_usd.expected is not None
    assert study.forecast_usd.expected == pytest.approx(study.spent_usd * 7 / 5)
    assert [(each.kind, each.severity) for each in found.alerts] == ([] if kind is None else [(kind, severity)])
