"""A submission has a name before it has a job, so an interrupted call loses nothing and submits nothing twice."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ledger_lab.clusters import local, skypilot, slurm
from ledger_lab.clusters.local import LocalSite
from ledger_lab.clusters.plans import PLAN, Plan, PlannedTraining, read_plan, read_run_dir, run_file
from ledger_lab.clusters.queues import ask_queues
from ledger_lab.clusters.submissions import Submission, new_folder, read_submissions
from ledger_lab.clusters.submit import hand_over, known_submissions
from ledger_lab.errors import UserError
from tests.fakes.programs import install
from tests.fakes.waiting import wait_until

TRAINING = PlannedTraining(what="s seed 1", start=(), resume=(), program="train.py", directory="/")
TRAININGS = Plan(name="s", trainings=(TRAINING,))


def begun(root: Path, engine: str = "slurm", *, age_s: float = 0.0) -> Submission:
    """Begin to submit a training, and be interrupted."""
    made = Submission.new(new_folder(root, "s"), engine, "lab", TRAININGS)
    made = replace(made, submitted_at=datetime.now(UTC) - timedelta(seconds=age_s))
    made.write(TRAININGS, {"job.sbatch": "#!/bin/bash\n"})
    return made


def test_submissions_are_numbered_and_have_names_of_their_own(tmp_path: Path) -> None:
    first, second = begun(tmp_path), begun(tmp_path)
    assert read_submissions(tmp_path, "s") == [first, second] and not first.job
    assert first.job_name != second.job_name and first.job_name.startswith("ledger_lab-s-001-")
    with pytest.raises(UserError, match="another program submitted at the same time"):
        first.write(TRAININGS, {})
    assert [path.name for path in sorted(first.folder.parent.iterdir())] == ["001", "002"]
    assert second.noted("18").job == "18"
    assert [each.job for each in read_submissions(tmp_path, "s")] == ["", "18"]
    run_file(second.folder, 0).write_text(str(tmp_path / "refused"))
    assert read_run_dir(second.folder, 0) is None, "a refused run has no directory"
    assert read_plan(second.folder, TRAININGS.sha256) == [TRAINING]


@pytest.mark.parametrize(("engine", "appears_s"), [("slurm", 60), ("skypilot", 900)])
def test_a_submission_without_a_job_is_removed_when_its_job_can_no_longer_appear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, appears_s: float
) -> None:
    for name, answer in (("squeue", ""), ("sky", "echo '[]'")):
        install(tmp_path, name, {"": answer or ":"}, monkeypatch)
    assert {"slurm": slurm.ENGINE, "skypilot": skypilot.ENGINE}[engine].appears_s == appears_s
    young = begun(tmp_path, engine)
    with pytest.raises(UserError, match=rf"another program .* or was interrupted.*: call again in {appears_s} s"):
        known_submissions(tmp_path, "s")
    young.drop()
    old = begun(tmp_path, engine, age_s=appears_s + 1)
    assert known_submissions(tmp_path, "s") == [] and [*old.folder.parent.iterdir()] == []


def test_the_process_on_this_machine_is_found_and_can_be_cancelled(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import time\ntime.sleep(600)\n")
    training = replace(TRAINING, program=str(tmp_path / "train.py"), directory=str(tmp_path))
    site = LocalSite(name="here", log_root=tmp_path / "ledger", environment={})
    plan = Plan(name="s", trainings=(training,))
    submission = hand_over(local.ENGINE, site, plan, new_folder(site.log_root, "s"))
    try:
        wait_until((submission.folder / "started" / "0").exists, "the training has started", 60)
        assert local.ENGINE.find(submission) == submission.job
        assert local.ENGINE.queued(submission)[0].said == "running"
    finally:
        local.ENGINE.cancel(submission)
    wait_until(lambda: not local.ENGINE.queued(submission), "the job has ended", 60)
    elsewhere = replace(submission, job=submission.job.replace(submission.job.split(":")[0], "another"))
    with pytest.raises(UserError, match="runs on another: ask there"):
        local.ENGINE.queued(elsewhere)


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        (PLAN, '{"what"', '{"WHAT"', "plan.jsonl was changed after its submission: restore it"),
        (PLAN, None, "", "plan.jsonl was changed after its submission"),
        ("submission.json", '"17"', '"--me"', "submission.json can't be read .*: restore it; or look for jobs whose"),
        ("submission.json", '"lab"', '"a b"', "submission.json can't be read"),
        ("submission.json", 'Z","plan', '","plan', "submission.json can't be read"),
        ("submission.json", None, "[]", "submission.json can't be read"),
        ("submission.json", None, "\ufffd", "submission.json can't be read"),
    ],
)
def test_files_that_were_changed_are_refused(tmp_path: Path, file: str, old: str | None, new: str, said: str) -> None:
    path = begun(tmp_path).noted("17").folder / file
    content = path.read_text()
    assert old is None or old in content
    path.write_text(new if old is None else content.replace(old, new))
    with pytest.raises(UserError, match=said) as refused:
        known_submissions(tmp_path, "s")[0].trainings()
    assert "\n" not in str(refused.value)


def test_others_cannot_write_to_a_submission_or_read_its_environment(tmp_path: Path) -> None:
    former = os.umask(0)
    try:
        folder = begun(tmp_path).folder
    finally:
        os.umask(former)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (folder, *folder.iterdir())}
    assert folder.parent.stat().st_mode & 0o002 == 0, "nobody else can replace the folder"
    assert modes.pop("job.sbatch") == 0o600
    assert {modes.pop(name) for name in ("plan.jsonl", "submission.json")} == {0o644}
    assert set(modes.values()) == {0o755}


def test_submissions_that_cannot_be_listed_are_not_taken_for_none(tmp_path: Path) -> None:
    folder = begun(tmp_path).folder.parent
    folder.rename(tmp_path / "away")
    folder.write_text("")
    with pytest.raises(UserError, match=r"submissions/s can't be read \(Not a directory\): ask its owner for access"):
        read_submissions(tmp_path, "s")
    found, notes = ask_queues(tmp_path)
    assert found == [] and "can't be read" in notes[0]
