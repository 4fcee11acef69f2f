"""Whatever ``kubectl`` answers, no job is lost, submitted twice, or mistaken for another.

No Kubernetes can run here. A stand-in for ``kubectl`` notes its arguments, and answers with messages of its
documentation and source code, and with objects of the form that the API reference describes.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ledger_lab.clusters import kubernetes
from ledger_lab.clusters.engine import UnclearSubmissionError
from ledger_lab.clusters.kubernetes import ENGINE, KUBECTL, KubernetesSite
from ledger_lab.clusters.plans import Plan, PlannedTraining
from ledger_lab.clusters.submissions import Submission, new_folder
from ledger_lab.clusters.submit import hand_over
from ledger_lab.errors import UserError
from tests.fakes.programs import failing, install, printing

RECORDED = Path(__file__).parents[1] / "fakes" / "kubernetes"
TRAINING = PlannedTraining(what="s seed 1", start=(), resume=(), program="train.py", directory="/")
PLAN = Plan(name="s", trainings=(TRAINING,) * 2)
VERSION = """echo '{"clientVersion": {}, "serverVersion": {"major": "1", "minor": "31+", "gitVersion": "v1.31.2"}}'"""
CLAIM = """echo '{"kind": "PersistentVolumeClaim", "spec": {"accessModes": ["ReadWriteMany"]}}'"""
TARGET = "--context=lab --namespace=robots"
TIMED_OUT = "Error from server (Timeout): the server was unable to return a response in the time allotted"

type Cluster = Callable[[Mapping[str, str]], KubernetesSite]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Returns a cluster whose ``kubectl`` answers as a test says."""
    (tmp_path / "shared").mkdir()

    def make(answers: Mapping[str, str]) -> KubernetesSite:
        usual = {"version": VERSION, "persistentvolumeclaim": CLAIM, "create": "echo job.batch/x"}
        install(
            tmp_path, "kubectl", {**answers, **{key: usual[key] for key in usual if key not in answers}}, monkeypatch
        )
        return KubernetesSite(
            name="lab",
            context="lab",
            namespace="robots",
            container="ledger_lab:1",
            claim="ledger",
            mount=tmp_path / "shared",
            log_root=tmp_path / "shared" / "ledger",
            environment={},
            user=1000,
        )

    return make


def submit(site: KubernetesSite, plan: Plan = PLAN) -> Submission:
    return hand_over(ENGINE, site, plan, new_folder(site.log_root, plan.name))


def calls(tmp_path: Path) -> list[str]:
    return (tmp_path / "kubectl.calls").read_text().splitlines()


def left(site: KubernetesSite) -> list[Path]:
    return [*(site.log_root / "submissions" / "s").glob("*")]


@pytest.fixture
def recorded(cluster: Cluster) -> Submission:
    """Returns a submission whose job is the recorded one, of eight trainings."""
    return dataclasses.replace(submit(cluster({})), job="ledger-lab-s-001-0badc0de")


def recorded_answers(tmp_path: Path, **changes: object) -> dict[str, str]:
    job = json.loads((RECORDED / "job.json").read_text())
    for path, value in changes.items():
        section, key = path.split("__")
        job[section][key] = value
    (tmp_path / "job.json").write_text(json.dumps(job))
    return {"get job": printing(tmp_path / "job.json"), "get pods": printing(RECORDED / "pods.json")}


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({"version": failing('error: context "lab" does not exist')}, "does not exist: correct context"),
        ({"version": "echo hello"}, "kubectl printed 'hello"),
        ({"create": failing('Error from server (NotFound): namespaces "robots" not found')}, "correct namespace"),
        ({"create": failing('Error from server (Forbidden): jobs.batch is forbidden: User "eve" cannot create')},
         "ask the administrators for the right"),
        ({"create": failing('Error from server (Forbidden): exceeded quota: gpus')}, "exceeded quota"),
        ({"create": failing('error: error validating "job.yaml"; strict decoding error: unknown field "spec.x"')},
         "too old"),
    ],
)  # fmt: skip
def test_a_refused_submission_ends_in_one_line_and_leaves_nothing(
    cluster: Cluster, answers: dict[str, str], said: str
) -> None:
    site = cluster(answers)
    with pytest.raises(UserError, match=said) as refused:
        submit(site)
    assert not isinstance(refused.value, UnclearSubmissionError)
    assert "\n" not in str(refused.value) and left(site) == []


def test_kubectl_that_is_missing_or_cannot_start_ends_in_one_line(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = cluster({})
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin" / "kubectl").write_bytes(b"\x7fELF")
    with pytest.raises(UserError, match=r"kubectl can't be started \(Exec format error\)"):
        submit(site)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="kubectl is not installed here: use a machine with kubectl"):
        submit(site)


def test_a_cluster_that_does_not_answer_ends_in_one_line(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    site = cluster({"version": "exec sleep 60"})
    monkeypatch.setattr(kubernetes, "KUBECTL", dataclasses.replace(KUBECTL, answer_s=0.2))
    with pytest.raises(UserError, match="kubectl timed out after 0.2 s: try again later"):
        submit(site)


def test_a_volume_that_is_not_mounted_here_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    site = cluster({})
    (tmp_path / "shared").rmdir()
    with pytest.raises(
        UserError, match=f"{tmp_path}/shared is no folder here: mount the storage of claim ledger there"
    ):
        submit(site)


def test_a_job_whose_answer_was_lost_is_found_and_one_that_may_exist_is_named(cluster: Cluster) -> None:
    site = cluster({"create": failing(TIMED_OUT), "get job": "echo job.batch/x"})
    first = submit(site)
    assert first.folder.name == "001"
    for number, get in enumerate((failing("Unable to connect to the server: EOF"), ""), start=2):
        site = cluster({"create": failing(TIMED_OUT), "get job": get})
        with pytest.raises(UnclearSubmissionError, match="call again in a minute.* ledger_lab-s-00[23]-[0-9a-f-]+$"):
            submit(site)
        assert f"{number:03}" in [each.name for each in left(site)]


def test_each_state_of_a_pod_is_told(cluster: Cluster, tmp_path: Path, recorded: Submission) -> None:
    cluster(recorded_answers(tmp_path))
    queued = ENGINE.queued(recorded)
    assert {index: (each.runs, each.said) for index, each in queued.items()} == {
        3: (True, "running on node-1"),
        4: (True, "ending on node-2"),
        5: (
            False,
            'waiting on node-2 (ImagePullBackOff: Back-off pulling image "registry.example.com/ledger_lab:typo"): '
            "cancel, and correct container or image_pull_secrets in the cluster file",
        ),
        6: (False, "waiting (Unschedulable: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu.)"),
        7: (False, "waiting"),
    }
    name = recorded.job
    assert calls(tmp_path)[-1] == f"{TARGET} get pods --selector=batch.kubernetes.io/job-name={name} --output=json"


@pytest.mark.parametrize(
    "changes",
    [
        {"status__conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}]},
        {"status__conditions": [{"type": "FailureTarget", "status": "True", "reason": "DeadlineExceeded"}]},
        {"metadata__deletionTimestamp": "2026-05-04T09:00:00Z"},
    ],
)
def test_a_job_that_ends_keeps_only_the_trainings_whose_pods_live(
    cluster: Cluster, tmp_path: Path, recorded: Submission, changes: dict[str, object]
) -> None:
    cluster(recorded_answers(tmp_path, **changes))
    assert set(ENGINE.queued(recorded)) == {3, 4, 5, 6}


def test_a_job_that_is_gone_has_no_trainings_that_wait(cluster: Cluster, recorded: Submission) -> None:
    cluster({})
    assert ENGINE.queued(recorded) == {} and ENGINE.ending(recorded, 0) is None


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({"get job": "echo '[]'"}, "kubectl printed"),
        ({"get job": "printf '\\377'"}, "kubectl printed"),
        ({"get job": """echo '{"metadata": {"name": "x"}, "spec": {"completions": "e"}}'"""}, "does not understand"),
        ({"get job": failing("Unable to connect to the server: dial tcp: i/o timeout")}, "i/o timeout"),
        ({"get pods": "echo '{}'"}, "does not understand .*items"),
    ],
)  # fmt: skip
def test_an_answer_that_cannot_be_read_is_not_taken_for_an_empty_queue(
    cluster: Cluster, tmp_path: Path, recorded: Submission, answers: dict[str, str], said: str
) -> None:
    cluster({**answers, **{key: each for key, each in recorded_answers(tmp_path).items() if key not in answers}})
    with pytest.raises(UserError, match=said) as refused:
        ENGINE.queued(recorded)
    assert "\n" not in str(refused.value)


def test_an_ending_is_explained(cluster: Cluster, tmp_path: Path, recorded: Submission) -> None:
    cluster(recorded_answers(tmp_path))
    said = ENGINE.ending(recorded, 1)
    assert said is not None and said.startswith(
        f"exit status 2, the pod wrote nothing into {recorded.folder}: the claim must"
    )
    (recorded.folder / "started" / "1").touch()
    assert ENGINE.ending(recorded, 1) is None
    (recorded.folder / "started" / "2").touch()
    assert ENGINE.ending(recorded, 2) == "out of memory: raise memory in the cluster file"
    late = {"status__conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}]}
    cluster(recorded_answers(tmp_path, **late))
    assert ENGINE.ending(recorded, 7) == "the job reached its time limit (time_s)"


def test_cancelling_deletes_the_job_and_lets_its_pods_end_first(
    cluster: Cluster, tmp_path: Path, recorded: Submission
) -> None:
    cluster({})
    ENGINE.cancel(recorded)
    name = recorded.job
    assert calls(tmp_path)[-1] == (f"{TARGET} delete job {name} --cascade=foreground --wait=false --ignore-not-found")


def test_a_pod_tells_where_it_is() -> None:
    environ = {"LEDGER_LAB_KUBERNETES_JOB": "job", "LEDGER_LAB_NODE": "node-1", "LEDGER_LAB_PARTS": "3"}
    job = ENGINE.place(environ, 5, 1).job
    assert (job.engine, job.job, job.index, job.restarts, job.nodes) == ("kubernetes", "job", 5, 2, ["node-1"])
    for name in environ:
        with pytest.raises(UserError, match=name):
            ENGINE.place({key: value for key, value in environ.items() if key != name}, 5, 1)
