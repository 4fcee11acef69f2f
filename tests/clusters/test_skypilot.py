"""SkyPilot reads the file of the jobs as it was meant. Whatever ``sky`` answers, no job is lost or submitted twice.

No job can be started here, because that needs a cluster. SkyPilot's own parser reads the file, and the real ``sky``
takes the commands. A stand-in for ``sky`` answers in the form that SkyPilot 0.14.1 prints.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger_lab.clusters import skypilot
from ledger_lab.clusters.containers import PART_SCRIPT, unique_name
from ledger_lab.clusters.engine import Queued, UnclearSubmissionError
from ledger_lab.clusters.plans import Plan, PlannedTraining
from ledger_lab.clusters.skypilot import ENGINE, SKY, SkyPilotSite
from ledger_lab.clusters.submissions import Submission, new_folder
from ledger_lab.clusters.submit import hand_over
from ledger_lab.errors import UserError
from tests.conftest import ROOT
from tests.fakes.programs import failing, install

GOLDEN = Path(__file__).parent / "golden"
NAME = "ledger_lab-study-001"
SIMPLE = SkyPilotSite(
    name="simple", container="ledger_lab:1", volume="ledger", log_root=Path("/ledger"), environment={}
)
FULL = SkyPilotSite(
    name="full",
    infra="k8s/arn:aws:eks:us-east-1:1:cluster/lab",
    container="registry.example.com:5000/ledger_lab:1",
    volume="shared",
    mount=Path("/shared"),
    log_root=Path("/shared/my ledger"),
    environment={"WARP_CACHE_PATH": "$(id)/$HOME", "QUOTED": 'it\'s "here": {#}', "NUMBER": "1e3", "NO": "no"},
    accelerators="L4:4",
    cpus=32,
    memory_gb=64,
    use_spot=True,
)
TRAINING = PlannedTraining(
    what="cohort seed 1",
    start=("--task", "env.name='; touch /tmp/owned #"),
    resume=(),
    program="/workspace/ledger_lab/scripts/train.py",
    directory="/workspace/ledger_lab",
)
PLAN = Plan(name="study", trainings=(TRAINING,) * 3)


@pytest.mark.parametrize(("name", "site"), [("simple", SIMPLE), ("full", FULL)])
def test_the_file_is_the_golden_one(name: str, site: SkyPilotSite) -> None:
    files = ENGINE.files(site, PLAN, NAME)
    assert files["task.yaml"] == (GOLDEN / f"{name}.task.yaml").read_text()
    assert "owned" not in str(files)


READ = """
import json, sys
import sky
from sky.skylet import log_lib
found = []
for path in sys.argv[1:]:
    task = sky.Task.from_yaml(path)
    (resources,) = task.resources
    found.append({
        "name": task.name, "run": task.run, "envs": task.envs, "volumes": task.volumes, "nodes": task.num_nodes,
        "spot": resources.use_spot, "recovery": resources.job_recovery, "image": resources.image_id,
        "accelerators": resources.accelerators, "cpus": resources.cpus, "memory": resources.memory,
        "infra": resources.infra.to_str(), "overrides": resources.cluster_config_overrides,
        "script": log_lib.make_task_bash_script(task.run, env_vars=task.envs),
    })
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def understood(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Returns what SkyPilot has understood of the two files."""
    python = ROOT / ".venv-engines" / "bin" / "python"
    if not python.exists():
        pytest.skip("the environment of the engines is not installed (tools/requirements/engines.lock)")
    home = tmp_path_factory.mktemp("home")
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), "SKYPILOT_DISABLE_USAGE_COLLECTION": "1"}
    files = [str(GOLDEN / f"{name}.task.yaml") for name in ("simple", "full")]
    said = subprocess.run([python, "-c", READ, *files], capture_output=True, text=True, env=environ, cwd=home)
    assert said.returncode == 0, said.stderr
    simple, full = json.loads(said.stdout.splitlines()[-1])
    return {"simple": simple, "full": full}


def test_skypilot_understands_the_file(understood: dict[str, dict[str, Any]]) -> None:
    full, simple = understood["full"], understood["simple"]
    assert full["recovery"]["recover_on_exit_codes"] == [75] and full["recovery"]["max_restarts_on_errors"] == 0
    assert (full["spot"], simple["spot"]) == (True, False)
    assert full["accelerators"] == {"L4": 4} and (full["cpus"], full["memory"]) == ("32+", "64+")
    assert full["volumes"] == {"/shared": "shared"} and full["nodes"] == 1
    assert [*full["image"].values()] == ["docker:registry.example.com:5000/ledger_lab:1"]
    assert full["infra"].lower().endswith("arn:aws:eks:us-east-1:1:cluster/lab")
    user = full["overrides"]["kubernetes"]["pod_config"]["spec"]["securityContext"]
    assert user == {"runAsUser": 0, "runAsGroup": 0}
    assert {key: full["envs"][key] for key in FULL.environment} == FULL.environment
    assert full["run"].endswith(PART_SCRIPT)


def test_the_script_that_skypilot_makes_carries_the_training_out(
    understood: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    script = understood["full"]["script"]
    folder, python = tmp_path / "it's $HOME", tmp_path / "python"
    for name in ("started", "output", "exits"):
        (folder / name).mkdir(parents=True)
    python.write_text('#!/bin/bash\nprintf "%s\\n" "$@" "$LEDGER_LAB_PARTS" "$WARP_CACHE_PATH" "$QUOTED"\nexit 75\n')
    python.chmod(0o755)
    there = dataclasses.replace(FULL, mount=None, log_root=tmp_path / "l", python=str(python))
    moved = yaml.safe_load(ENGINE.files(there, PLAN, NAME)["task.yaml"])["run"].replace(
        str(tmp_path / "l" / "submissions" / "study" / "001"), f'"{tmp_path}/it\'s \\$HOME"'
    )
    assert understood["full"]["run"] in script
    (tmp_path / "script").write_text(script.replace(understood["full"]["run"], moved))
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SKYPILOT_JOB_RANK": "2"}
    ran = subprocess.run(["bash", tmp_path / "script"], capture_output=True, text=True, env=environ, cwd=tmp_path)
    assert ran.returncode == 75, ran.stderr
    assert (folder / "output" / "2.log").read_text().splitlines() == [
        *("-P", "-m", "ledger_lab.clusters.planned", "skypilot", str(folder), "2", PLAN.sha256),
        "1",
        *(FULL.environment[key] for key in ("WARP_CACHE_PATH", "QUOTED")),
    ]
    assert (folder / "exits" / "2").read_text() == "75\n"


PRINTABLE = st.text().filter(str.isprintable) | st.text("$()ab{}:#-'\"\\ \U0001f600", max_size=20)


@settings(max_examples=40)  # each example reads a whole file
@given(st.dictionaries(st.from_regex(r"[A-Z_][A-Z0-9_]{0,8}", fullmatch=True), PRINTABLE, max_size=4))
def test_any_environment_is_read_back_as_it_was_written(environment: dict[str, str]) -> None:
    task = yaml.safe_load(ENGINE.files(dataclasses.replace(SIMPLE, environment=environment), PLAN, NAME)["task.yaml"])
    assert task["envs"] == {**environment, "LEDGER_LAB_SKYPILOT_JOB": task["name"]}
    assert task["run"].endswith(PART_SCRIPT) and task["run"].count("\n") == PART_SCRIPT.count("\n") + 1


VOLUME = [{"name": "ledger", "type": "k8s-pvc", "config": {"access_mode": "ReadWriteMany"}, "status": "READY"}]
LISTED = f"echo '{json.dumps(VOLUME)}'"
LAUNCHED = "sed -n 's/^name: //p' task.yaml >/NAME; echo 'Jobs submitted with IDs: 7-8.'"
"""Notes the name of the jobs for the next question."""
QUEUED = """n=$(cat /NAME 2>/dev/null) && echo '[{"job_id": 8, "status": "PENDING", "job_name": "'$n'"},
{"job_id": 7, "status": "PENDING", "job_name": "'$n'"}, {"job_id": 9, "job_name": "x"}]' || echo '[]'"""

type Sky = Callable[[Mapping[str, str]], SkyPilotSite]


def jobs(*records: dict[str, object]) -> str:
    return f"echo 'Checking managed jobs'\ncat <<'END'\n{json.dumps([*records], indent=2)}\nEND"


def record(number: int, status: str, **more: object) -> dict[str, object]:
    return {"job_id": number, "task_id": 0, "job_name": "NAME", "status": status, "recovery_count": 0, **more}


@pytest.fixture
def infra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sky:
    """Returns a site whose ``sky`` answers as a test says."""
    (tmp_path / "shared").mkdir()

    def make(answers: Mapping[str, str]) -> SkyPilotSite:
        usual = {"volumes ls": LISTED, "jobs launch": LAUNCHED, "jobs queue": QUEUED}
        said = {key: each.replace("/NAME", f"{tmp_path}/name") for key, each in {**usual, **answers}.items()}
        install(tmp_path, "sky", said, monkeypatch)
        mount = tmp_path / "shared"
        return dataclasses.replace(SIMPLE, mount=mount, log_root=mount / "ledger")

    return make


TWO = Plan(name="s", trainings=(TRAINING,) * 2)


def submit(site: SkyPilotSite, plan: Plan = TWO) -> Submission:
    return hand_over(ENGINE, site, plan, new_folder(site.log_root, plan.name))


def calls(tmp_path: Path) -> list[str]:
    return (tmp_path / "sky.calls").read_text().splitlines()


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({"volumes ls": "echo '[]'"}, "SkyPilot has no volume ledger: make it with `sky volumes apply`"),
        ({"volumes ls": "echo hello"}, "sky printed 'hello"),
        ({"volumes ls": failing("Could not connect to SkyPilot API server")}, "sky api status"),
        ({"jobs launch": failing("ValueError: Invalid accelerator L5")}, "Invalid accelerator"),
        ({"jobs launch": failing("k8s not enabled: `sky check`"), "jobs queue": "exit 1"}, "run `sky check`"),
        ({"jobs launch": failing("request failed")}, "sky: request failed"),
    ],
)  # fmt: skip
def test_a_refused_submission_ends_in_one_line_and_leaves_nothing(
    infra: Sky, answers: dict[str, str], said: str
) -> None:
    site = infra(answers)
    with pytest.raises(UserError, match=said) as refused:
        submit(site)
    assert not isinstance(refused.value, UnclearSubmissionError) and "\n" not in str(refused.value)
    assert [*(site.log_root / "submissions" / "s").glob("*")] == []


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({"jobs launch": failing("connection reset by peer"), "jobs queue": "exit 1"}, "connection reset"),
        ({"jobs launch": "echo hello"}, "sky has not made the jobs yet"),
        ({"jobs launch": LAUNCHED, "jobs queue": QUEUED.replace("9, ", '9, "status": 3, ')}, "has not made the jobs"),
    ],
)
def test_jobs_that_may_be_submitted_are_named(infra: Sky, answers: dict[str, str], said: str) -> None:
    site = infra(answers)
    with pytest.raises(
        UnclearSubmissionError,
        match=f"{said}.*: the job may be submitted .* ledger_lab-s-001-",
    ):
        submit(site)
    assert (site.log_root / "submissions" / "s" / "001" / "task.yaml").is_file()


def test_what_skypilot_cannot_do_is_refused(infra: Sky, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = infra({})
    with pytest.raises(UserError, match="--at_once 1: SkyPilot starts all managed jobs at once"):
        submit(site, dataclasses.replace(TWO, at_once=1))
    (tmp_path / "shared").rename(tmp_path / "other")
    with pytest.raises(UserError, match="is no folder here: mount the storage of volume ledger there"):
        submit(site)
    (tmp_path / "other").rename(tmp_path / "shared")
    monkeypatch.setattr(skypilot, "SKY", dataclasses.replace(SKY, answer_s=0.2))
    with pytest.raises(UserError, match="sky timed out after 0.2 s"):
        submit(infra({"volumes ls": "exec sleep 60"}))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="sky is not installed here: install SkyPilot"):
        submit(site)


@pytest.mark.slow
def test_the_real_sky_takes_the_commands(infra: Sky, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = ROOT / ".venv-engines" / "bin"
    if not (programs / "sky").exists():
        pytest.skip("the environment of the engines is not installed (tools/requirements/engines.lock)")
    submission = submit(infra({}))
    for name, value in {
        "PATH": f"{programs}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "SKYPILOT_API_SERVER_ENDPOINT": "http://127.0.0.1:1",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    nobody = "^sky: sky.exceptions.ApiServerConnectionError: Could not connect .*: the API server does not answer"
    with pytest.raises(UserError, match=nobody) as refused:
        ENGINE.submit(submission)
    assert not isinstance(refused.value, UnclearSubmissionError) and "\n" not in str(refused.value)
    for command in (ENGINE.queued, ENGINE.cancel):
        with pytest.raises(UserError, match=nobody):
            command(submission)


def test_each_state_of_a_job_is_told(infra: Sky, tmp_path: Path) -> None:
    submission = submit(infra({}))
    name = unique_name(submission.job_name)

    def answer(*records: dict[str, object]) -> None:
        infra({"jobs queue": jobs(*({**each, "job_name": name} for each in records))})

    answer(record(7, "RECOVERING", recovery_count=2), record(8, "RUNNING", infra="Kubernetes/lab"))
    assert {index: (each.runs, each.said) for index, each in ENGINE.queued(submission).items()} == {
        0: (False, "recovering, recovered 2 times"),
        1: (True, "running on Kubernetes/lab"),
    }
    assert calls(tmp_path)[-1] == "jobs queue --all --verbose --output=json"
    answer(record(7, "SUCCEEDED"), record(8, "FAILED", failure_reason="exit code 2\nmore"))
    assert ENGINE.queued(submission) == {}
    assert ENGINE.ending(submission, 0) == "succeeded"
    said = ENGINE.ending(submission, 1)
    assert said is not None and said.startswith(f"failed, exit code 2, the job wrote nothing into {submission.folder}")
    (submission.folder / "started" / "1").touch()
    assert ENGINE.ending(submission, 1) == "failed, exit code 2"
    answer(record(7, "SUCCEEDED"), record(8, "DREAMING"))
    assert ENGINE.queued(submission)[1] == Queued(False, "dreaming"), "a status of a newer version is no end"
    answer(record(7, "SUCCEEDED"))
    with pytest.raises(UserError, match="SkyPilot does not know all jobs 7,8 .* use the API server"):
        ENGINE.queued(submission)
    infra({"jobs queue": jobs(record(7, "RUNNING"), record(8, "RUNNING"))})  # the same ids, and another name
    with pytest.raises(UserError, match="does not know all jobs"):
        ENGINE.queued(submission)


def test_the_jobs_of_an_interrupted_call_are_found(infra: Sky) -> None:
    submission = submit(infra({}))
    mine = {**record(8, "PENDING"), "job_name": unique_name(submission.job_name)}
    assert ENGINE.find(submission) == "7,8"
    infra({"jobs queue": jobs(mine)})
    with pytest.raises(UserError, match="SkyPilot has 1 of 2 jobs named"):
        ENGINE.find(submission)
    infra({"jobs queue": "echo '[]'"})
    assert ENGINE.find(submission) is None


def test_a_job_tells_where_it_is() -> None:
    environ = {"LEDGER_LAB_SKYPILOT_JOB": "job", "SKYPILOT_NODE_IPS": "10.0.0.1\n", "LEDGER_LAB_PARTS": "2"}
    job = ENGINE.place(environ, 5, 1).job
    assert (job.engine, job.job, job.index, job.restarts, job.nodes) == ("skypilot", "job", 5, 1, ["10.0.0.1"])
    with pytest.raises(UserError, match="SKYPILOT_NODE_IPS is not set"):
        ENGINE.place({"LEDGER_LAB_SKYPILOT_JOB": "job"}, 5, 1)
