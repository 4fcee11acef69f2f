"""A call that was killed while it submitted a plan: its job is found, and nothing is submitted twice."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from ledger_lab.clusters import kubernetes, local, ray, skypilot, slurm
from ledger_lab.clusters.drafts import Draft, draft_submission, read_drafts, write_folder
from ledger_lab.clusters.engine import Engine, Site
from ledger_lab.clusters.kubernetes_job import KubernetesSite
from ledger_lab.clusters.local import LocalSite
from ledger_lab.clusters.plans import PLAN, Plan, PlannedTraining
from ledger_lab.clusters.programs import programs_in
from ledger_lab.clusters.ray import RaySite
from ledger_lab.clusters.skypilot import SkyPilotSite
from ledger_lab.clusters.slurm_site import SlurmSite
from ledger_lab.clusters.submission_folders import new_folder
from ledger_lab.clusters.submissions import Submission
from ledger_lab.clusters.submit import complete_drafts
from ledger_lab.errors import UserError
from tests.fakes.programs import install
from tests.fakes.waiting import wait_until

SITES: dict[str, tuple[Engine, Site]] = {
    "kubernetes": (
        kubernetes.ENGINE,
        KubernetesSite(
            name="k", log_root=Path("/shared"), environment={}, context="lab", claim="shared", container="lab:1", user=1
        ),
    ),
    "ray": (
        ray.ENGINE,
        RaySite(name="r", log_root=Path("/shared"), environment={}, address="head:6379", python="python"),
    ),
    "skypilot": (
        skypilot.ENGINE,
        SkyPilotSite(name="s", log_root=Path("/shared"), environment={}, container="lab:1", volume="shared"),
    ),
    "slurm": (slurm.ENGINE, SlurmSite(name="l", log_root=Path("/shared"), environment={}, time="10")),
}


def begun(folder: Path, engine: Engine, site: Site) -> Draft:
    """Begin to submit a training that waits for ever."""
    program = folder / "train.py"
    program.write_text("import time\ntime.sleep(600)\n")
    training = PlannedTraining(what="t", start=(), resume=(), program=str(program), directory=str(folder))
    plan = Plan(name="s", trainings=(training,))
    draft = draft_submission(new_folder(folder / "ledger", "s"), engine.name, site.name, plan)
    write_folder(draft, {PLAN: plan.to_lines(), **engine.files(site, plan, draft.job_name)})
    return draft


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Draft]:
    """A submission to this machine, which is cancelled in the end."""
    draft = begun(tmp_path, local.ENGINE, LocalSite(name="here", log_root=tmp_path / "ledger", environment={}))
    job = local.ENGINE.submit(draft.folder)
    yield draft
    submission = Submission(
        folder=draft.folder, engine="local", site="here", job=job, submitted_at="", plan_sha256=draft.plan_sha256
    )
    local.ENGINE.cancel(submission)
    wait_until(lambda: not local.ENGINE.queued(submission), "the job has ended", 60)


def test_the_process_on_this_machine_is_found_and_can_be_cancelled(here: Draft) -> None:
    (found,) = complete_drafts([here])
    assert local.ENGINE.job_id.fullmatch(found.job) and 0 in local.ENGINE.queued(found)
    wait_until((here.folder / "started" / "0").exists, "the training has started", 60)
    assert local.ENGINE.find(here.folder) == found.job, "not the process of the training"


def test_a_process_that_becomes_another_program_has_a_command_line(tmp_path: Path) -> None:
    (tmp_path / "again.sh").write_text('[ "$1" -lt 500 ] && exec bash again.sh $(($1 + 1))')
    with subprocess.Popen(["bash", "again.sh", "0"], cwd=tmp_path) as process:
        while process.poll() is None:
            assert all("again.sh" in command for command in programs_in(tmp_path).values())


def test_the_process_on_another_machine_is_not_taken_for_ended(here: Draft) -> None:
    file = here.folder / "submission.json"
    content = msgspec.json.decode(file.read_bytes())
    content["process"]["boot_id"] = "of another machine"
    file.write_bytes(msgspec.json.encode(content))
    with pytest.raises(UserError, match="on another machine .* end the processes there .* and remove it"):
        complete_drafts([here])
    assert here.folder.is_dir()


def test_a_submission_is_kept_while_a_program_still_submits_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "squeue", {"": ":"}, monkeypatch)
    draft = begun(tmp_path, *SITES["slurm"])
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], cwd=draft.folder) as left:
        with pytest.raises(UserError, match=f"process {left.pid} still works in this folder: call again when it has"):
            complete_drafts([draft])
        left.kill()
    assert read_drafts(tmp_path / "ledger", "s") == [draft]
    assert complete_drafts([draft]) == [] and not draft.folder.exists()


def test_the_server_of_skypilot_is_given_time_to_make_its_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "sky", {"jobs queue": "echo '[]'"}, monkeypatch)
    draft = begun(tmp_path, *SITES["skypilot"])
    with pytest.raises(UserError, match="its job may still appear: call again in 15 min"):
        complete_drafts([draft])
    before = (datetime.now(UTC) - timedelta(minutes=16)).isoformat()
    assert complete_drafts([dataclasses.replace(draft, submitted_at=before)]) == []


@pytest.mark.parametrize(
    ("engine", "file"), [("kubernetes", "job.yaml"), ("kubernetes", "submit.sh"), ("ray", "job.json")]
)
@pytest.mark.parametrize("content", [None, b"", b"[]", b"\xff", b'{"name": 1}'])
def test_damaged_files_of_a_submission_end_in_one_line(
    tmp_path: Path, engine: str, file: str, content: bytes | None
) -> None:
    draft = begun(tmp_path, *SITES[engine])
    (draft.folder / file).unlink()
    if content is not None:
        (draft.folder / file).write_bytes(content)
    with pytest.raises(UserError, match=f"{file} (was changed|can't be read).*: restore it; or cancel the job ledger_"):
        complete_drafts([draft])
    assert draft.folder.is_dir()
