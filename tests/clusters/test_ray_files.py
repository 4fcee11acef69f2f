"""The files of a Ray job, what is refused before anything is written, and which ends of a training are final."""

from __future__ import annotations

import dataclasses
import json
import shlex
import socket
import sys
from pathlib import Path

import pytest

from ledger_lab.clusters.ray import ENGINE, RaySite
from ledger_lab.clusters.ray_job import RayJob, starts_again
from ledger_lab.clusters.submissions import Submission
from ledger_lab.errors import UserError
from tests.clusters.test_slurm_files import plan
from tests.conftest import ROOT

GOLDEN = Path(__file__).parent / "golden"
SIMPLE = RaySite(
    name="simple", log_root=Path("/shared/ledger"), environment={}, address="head:6379", python="/lab/bin/python"
)
FULL = RaySite(
    name="full",
    log_root=Path("/shared/ledger"),
    environment={"WARP_CACHE_PATH": "/shared/cache", "QUOTED": 'it\'s "here"'},
    address="[fd00::1]:6379",
    python="/lab/bin/python",
    gpus=4,
    cpus=32,
    memory_gb=64.5,
    resources={"fast_disk": 1},
    retries=0,
    grace_s=300,
)


@pytest.mark.parametrize(
    ("name", "site", "count", "at_once"), [("ray_simple.json", SIMPLE, 1, None), ("ray_full.json", FULL, 15, 4)]
)
def test_the_file_is_the_golden_one_and_reads_back(name: str, site: RaySite, count: int, at_once: int | None) -> None:
    files = ENGINE.files(site, plan(count, at_once), "ledger_lab-study-001")
    assert files == {"job.json": (GOLDEN / name).read_text()}
    job = RayJob(**json.loads(files["job.json"]))
    assert (job.trainings, job.at_once, job.environment) == (count, at_once, site.environment)


@pytest.mark.parametrize(
    ("status", "again"), [(0, False), (1, False), (2, False), (75, True), (130, False), (143, True), (None, True)]
)
def test_only_trainings_that_the_system_ended_start_again(status: int | None, again: bool) -> None:
    assert starts_again(status, parts=3, retries=3) is again
    assert starts_again(status, parts=4, retries=3) is False


def test_a_process_learns_its_place_from_the_task() -> None:
    environ = {
        "LEDGER_LAB_RAY_JOB": "head:6379/ledger_lab-s-001-0badc0de",
        "LEDGER_LAB_RAY_PART": "2",
        "LEDGER_LAB_RAY_NODE": "one",
        "LEDGER_LAB_RAY_QUEUE_S": "1.500",
    }
    place = ENGINE.place(environ, 4, 1)
    assert (place.job.job, place.job.index, place.job.restarts) == (environ["LEDGER_LAB_RAY_JOB"], 4, 2)
    assert (place.job.nodes, place.job.queue_s, place.rendezvous) == (["one"], 1.5, None)
    with pytest.raises(UserError, match="LEDGER_LAB_RAY_PART is not set"):
        ENGINE.place({"LEDGER_LAB_RAY_JOB": "x"}, 4, 1)


def test_without_ray_a_submission_is_refused_in_one_line() -> None:
    with pytest.raises(UserError, match=r"Ray is not installed for .*ledger_lab\[ray\]") as refused:
        ENGINE.check(SIMPLE, plan(1))
    assert "\n" not in str(refused.value)


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Let a script stand for the Python that has Ray."""
    program = folder / "python"
    program.write_text(f"#!/bin/bash\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))


def submission(folder: Path) -> Submission:
    (folder / "started").mkdir(exist_ok=True)
    return Submission.new(folder, "ray", "lab", plan(1), "head:6379")


def test_the_job_of_an_interrupted_call_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = submission(tmp_path)
    made = f"{SIMPLE.address}/{begun.job_name}"
    stand_in(tmp_path, monkeypatch, """echo '{"0":[false,"waiting"]}'""")
    assert ENGINE.find(begun) == made
    stand_in(tmp_path, monkeypatch, "echo null")
    assert ENGINE.find(begun) is None, "it was never submitted"
    (tmp_path / "started" / "0").touch()
    assert ENGINE.find(begun) == made, "it has ended"


def test_states_are_read_and_a_job_that_has_ended_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, """echo '{"0":[true,"running on one"],"3":[false,"waiting"]}'""")
    states = {index: (each.runs, each.said) for index, each in ENGINE.queued(submission(tmp_path)).items()}
    assert states == {0: (True, "running on one"), 3: (False, "waiting")}
    stand_in(tmp_path, monkeypatch, "echo null")
    assert ENGINE.queued(submission(tmp_path)) == {}
    stand_in(tmp_path, monkeypatch, "echo nonsense")
    with pytest.raises(UserError, match="nonsense"):
        ENGINE.queued(submission(tmp_path))


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("noise\nerror: no Ray at head:6379: start it\n======", "no Ray at head:6379: start it"),
        ("InvalidAuthToken\nerror: Ray refuses", "Ray refuses: the cluster has another token"),
        ("Fatal error: out\n=====\n", "Ray: Fatal error: out"),
    ],
)
def test_a_refusal_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: str, said: str) -> None:
    stand_in(tmp_path, monkeypatch, f"printf %s {shlex.quote(printed)} >&2; exit 7")
    with pytest.raises(UserError) as refused:
        ENGINE.check(SIMPLE, plan(1))
    assert str(refused.value).startswith(said) and "\n" not in str(refused.value)


@pytest.mark.skipif(
    not (ROOT / ".venv-engines" / "bin" / "python").exists(),
    reason="needs .venv-engines, which .ci/run builds from tools/requirements/engines.lock",
)
def test_an_address_where_nothing_listens_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(ROOT / ".venv-engines" / "bin" / "python"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "source"))
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        site = RaySite(name="s", log_root=Path("/l"), environment={}, address=f"127.0.0.1:{port}", python="python")
        with pytest.raises(UserError, match=rf"no Ray at 127.0.0.1:{port} .*: start it, or correct address"):
            ENGINE.check(site, plan(1))
    with pytest.raises(UserError, match="no Ray at head:x .*: start it, or correct address"):
        ENGINE.queued(dataclasses.replace(submission(tmp_path), target="head:x"))
