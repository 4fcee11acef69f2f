"""The file of a Job holds what was meant, by Kubernetes' own schema and by reading it back.

No cluster has seen it, because none can run here; the guide says so.
"""

from __future__ import annotations

import dataclasses
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger_lab.clusters.containers import PART_SCRIPT
from ledger_lab.clusters.kubernetes import ENGINE, KubernetesSite
from ledger_lab.clusters.plans import Plan, PlannedTraining
from tests.conftest import ROOT

GOLDEN = Path(__file__).parent / "golden"
NAME = "ledger_lab-study-001"
SIMPLE = KubernetesSite(
    name="simple", context="lab", container="ledger_lab:1", claim="ledger", log_root=Path("/ledger"), environment={},
    user=1000,
)  # fmt: skip
FULL = KubernetesSite(
    name="full",
    context="arn:aws:eks:us-east-1:1:cluster/lab",
    namespace="robots",
    container="registry.example.com:5000/ledger_lab@sha256:0badc0de",
    claim="shared.nfs",
    mount=Path("/shared"),
    log_root=Path("/shared/my ledger"),
    environment={"WARP_CACHE_PATH": "$(id)/$$HOME", "QUOTED": 'it\'s "here": {#}'},
    user=4321,
    gpus=4,
    cpus=32,
    memory="64Gi",
    grace_s=300,
    time_s=86_400,
    node_selector={"cloud.google.com/gke-spot": "true"},
    tolerations=("nvidia.com/gpu", "dedicated=robots:NoSchedule"),
    image_pull_secrets=("registry",),
    labels={"kueue.x-k8s.io/queue-name": "robots"},
)


def plan(count: int, at_once: int | None = None, **changes: object) -> Plan:
    training = PlannedTraining(
        what="cohort seed 1",
        start=("--task", "LedgerLab-Cartpole", "env.name='; touch /tmp/owned #"),
        resume=("--log_root", "/ledger"),
        program="/workspace/ledger_lab/scripts/train.py",
        directory="/workspace/ledger_lab",
    )
    return Plan(name="study", trainings=(dataclasses.replace(training, **changes),) * count, at_once=at_once)


def job_of(site: KubernetesSite, planned: Plan) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(ENGINE.files(site, planned, NAME)["job.yaml"])
    return read


def container_of(job: dict[str, Any]) -> dict[str, Any]:
    (only,) = job["spec"]["template"]["spec"]["containers"]
    assert isinstance(only, dict)
    return only


def as_kubernetes_expands(text: str, values: dict[str, str]) -> str:
    """Replaces variables as `kubernetes/third_party/forked/golang/expansion` does."""

    def expanded(found: re.Match[str]) -> str:
        if found.group() == "$$":
            return "$"
        return values.get(found.group(1), found.group())

    return re.sub(r"\$\$|\$\(([^)]*)\)", expanded, text)


@pytest.mark.parametrize(
    ("name", "site", "planned"), [("simple", SIMPLE, plan(1)), ("full", FULL, plan(15, 4, processes=4))]
)
def test_the_file_is_the_golden_one(name: str, site: KubernetesSite, planned: Plan) -> None:
    files = ENGINE.files(site, planned, NAME)
    assert files["job.yaml"] == (GOLDEN / f"{name}.job.yaml").read_text()


@pytest.mark.parametrize("version", ["1.29", "1.37"])
def test_the_schema_of_kubernetes_accepts_the_files(version: str) -> None:
    validate = ROOT / ".venv-engines" / "bin" / "kubernetes-validate"
    if not validate.exists():
        pytest.skip("the environment of the engines is not installed (tools/requirements/engines.lock)")
    files = [str(GOLDEN / f"{name}.job.yaml") for name in ("simple", "full")]
    checked = subprocess.run([validate, "-k", version, "--strict", *files], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert checked.stderr.count("passed for resource job/") + checked.stdout.count("passed for resource job/") == 2


def test_users_values_stay_in_the_plan_and_the_script_is_constant() -> None:
    files = ENGINE.files(FULL, plan(3), NAME)
    assert "owned" not in str(files) and "Cartpole" not in str(files)
    args = container_of(job_of(FULL, plan(3)))["args"]
    assert args[:4] == ["bash", "-c", PART_SCRIPT, "job.yaml"]
    assert as_kubernetes_expands(PART_SCRIPT, {"0": "x"}) == PART_SCRIPT
    expanded = [as_kubernetes_expands(each, {"JOB_COMPLETION_INDEX": "7"}) for each in args[4:]]
    assert expanded == ["/shared/my ledger/submissions/study/001", "kubernetes", "7", plan(3).sha256, "python"]


PRINTABLE = st.text().filter(str.isprintable) | st.text("$()ab{}:#-'\"\\ \U0001f600", max_size=20)


@settings(max_examples=40)  # each example reads a whole file
@given(st.dictionaries(st.from_regex(r"[A-Z_][A-Z0-9_]{0,8}", fullmatch=True), PRINTABLE, max_size=4))
def test_any_environment_arrives_in_the_pod_as_it_was_written(environment: dict[str, str]) -> None:
    job = job_of(dataclasses.replace(SIMPLE, environment=environment), plan(1))
    given_ = {each["name"]: each.get("value") for each in container_of(job)["env"]}
    seen: dict[str, str] = {}
    for name in environment:
        seen[name] = as_kubernetes_expands(given_.pop(name), seen)
    assert seen == environment
    assert given_.keys() == {"LEDGER_LAB_KUBERNETES_JOB", "LEDGER_LAB_NODE"}
