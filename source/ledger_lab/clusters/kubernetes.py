"""Kubernetes: one Indexed Job for a plan. ``kubectl`` submits it, looks at it and deletes it.

Pods write into a volume that this machine mounts at the same path. These facts of Kubernetes determine the file:

1. A pod that is preempted, evicted or drained has the condition ``DisruptionTarget``. The Job replaces it, whatever its
   exit status, and counts no failure.
2. Exit status 75 means that the training can be resumed. The Job replaces the pod, and counts no failure.
3. After 137, 143 and 255, the node or the kernel has ended the pod. The Job replaces it a few times. Every other status
   is final for its training, and for no other training.
4. ``podReplacementPolicy: Failed`` waits until the old pod has ended, so that two pods never write one run.
5. The deadline of a Job is that of all its trainings together.
6. Kubernetes replaces ``$(NAME)`` in arguments and in values of variables. ``$$`` stands for ``$``.
7. Deleting a Job in the background removes it at once, while its pods still save their states. With foreground deletion
   it stays until they have ended, so the trainings count as queued until then.
8. The image lets any user of group 0 write where it must. ``fsGroup`` is left out: with some storage, it changes the
   group of all files in the volume, also of files that are not ours.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ledger_lab.clusters.containers import PART_SCRIPT, VolumeSite, earlier_parts, unique_name
from ledger_lab.clusters.engine import Engine, GpuSite, Place, Queued, variable
from ledger_lab.clusters.plans import Plan
from ledger_lab.clusters.programs import Program, first_line, without_nulls
from ledger_lab.clusters.submissions import Submission
from ledger_lab.documents import yaml_text
from ledger_lab.errors import UserError
from ledger_lab.ledger import SchedulerJob
from ledger_lab.reports.terminal.exit_status import EXIT_REQUEUE

_NAME = "kubernetes"
_FILE = "job.yaml"
_CONTAINER = "training"
_INDEX = "$(JOB_COMPLETION_INDEX)"
"""Argument that Kubernetes replaces by the index of the pod."""
_INDEX_OF_POD = "batch.kubernetes.io/job-completion-index"
_KILLED = (137, 143, 255)
"""Exit statuses of a pod that the node or the kernel has ended."""
_RETRIES = 3
"""How often a training is started again after one of :data:`_KILLED`, or after a pod without an exit status."""
_KEPT_S = 7 * 86_400
"""How long Kubernetes keeps a Job that has ended [s]; ``--status`` explains endings from it."""
_SHARED_MEMORY = "8Gi"
"""Largest ``/dev/shm`` of a training of several processes."""
_TOLERATION = re.compile(r"(?P<key>[^=:]+)(=(?P<value>[^:]*))?(:(?P<effect>\w+))?")
_CLOSING = frozenset(["Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"])
"""Conditions of a Job that starts no more pods."""
_NO_IMAGE = frozenset(["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"])

KUBECTL = Program(
    name="kubectl",
    install="use a machine with kubectl, which can reach the cluster",
    answer_s=60.0,
    environment={"KUBERC": "off", "KUBECTL_KUBERC": "false"},  # preferences of the user would change its commands
    ways_out={
        "does not exist": "correct context in the cluster file (see kubectl config get-contexts)",
        "namespaces": "correct namespace in the cluster file",
        "persistentvolumeclaims": "correct claim in the cluster file",
        "Forbidden": "ask the administrators for the right to create, get and delete jobs, and to get pods",
        "strict decoding": "kubectl or the cluster is too old: this needs Kubernetes 1.29 or later",
    },
)
"""The command of Kubernetes."""


@dataclass(frozen=True, kw_only=True)
class KubernetesSite(VolumeSite, GpuSite):
    """Keys of a cluster with Kubernetes. ``grace_s`` is the time between SIGTERM and SIGKILL."""

    context: str
    """Context of ``kubectl``. It is required, because the current context may change between two calls."""
    namespace: str = "default"
    claim: str
    """PersistentVolumeClaim that holds :attr:`log_root`."""
    user: int = field(default_factory=os.getuid)
    """User id of the pods, which must be able to write to :attr:`log_root`; by default that of this process."""
    cpus: int | None = None
    """Processors that a training gets at least."""
    memory: str | None = None
    """Memory of a training, as Kubernetes writes it."""
    time_s: int | None = None
    """Longest time for all trainings together [s]; ``None`` without a limit."""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    """Labels of the nodes."""
    tolerations: tuple[str, ...] = ()
    """Taints of nodes that may be used, as ``kubectl taint`` writes them."""
    image_pull_secrets: tuple[str, ...] = ()
    """Names of secrets for the registry of the image."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the Job, such as that of a queue of Kueue."""

    def __post_init__(self) -> None:
        """Check what Kubernetes would take, and what would then go wrong.

        Raises:
            ValueError: If a value is refused.
        """
        VolumeSite.__post_init__(self)
        GpuSite.__post_init__(self)
        if self.user < 1:
            raise ValueError("user = 0: pods do not run as root: give the id of a user that can write to log_root")
        if self.time_s is not None and self.time_s <= self.grace_s:
            raise ValueError(f"time_s = {self.time_s}: must be above grace_s = {self.grace_s}")
        if bad := [each for each in self.tolerations if not _TOLERATION.fullmatch(each)]:
            raise ValueError(f"tolerations: {bad[0]!r}: write them as KEY, KEY=VALUE or KEY=VALUE:EFFECT")


class Kubernetes(Engine):
    """Runs a plan as an Indexed Job of Kubernetes. Its target is ``CONTEXT/NAMESPACE``."""

    name = _NAME
    site = KubernetesSite
    program = KUBECTL

    def target(self, site: KubernetesSite) -> str:
        """Return context and namespace; see :class:`~ledger_lab.clusters.engine.Engine`."""
        return f"{site.context}/{site.namespace}"

    def check(self, site: KubernetesSite, plan: Plan) -> None:
        """Refuse what can't run; see :class:`~ledger_lab.clusters.engine.Engine`."""
        self.refuse_nodes(plan, "leave --nodes out and raise gpus, or use a cluster with Slurm")
        site.require_mounted(f"claim {site.claim}")
        _answer(self.target(site), "version")  # the cluster answers

    def files(self, site: KubernetesSite, plan: Plan, name: str) -> dict[str, str]:
        """Return ``job.yaml``; see :class:`~ledger_lab.clusters.engine.Engine`."""
        head = (
            f"# {name}: pod N makes the training in line N of plan.jsonl, counted from 0.\n"
            f"# A pod is replaced after a disruption, and after exit status {EXIT_REQUEUE} "
            "(its training can be resumed).\n"
            f"# After {', '.join(map(str, _KILLED))}, it is replaced at most {_RETRIES} times. After any other status, "
            "its training has failed.\n"
        )
        return {_FILE: head + yaml_text(_job(site, plan, unique_name(name), site.submission_folder(plan, name)))}

    def submit_command(self, submission: Submission) -> list[str]:
        """Return the command that submits the files, to run in their folder."""
        create = ("create", f"--filename={_FILE}", "--validate=strict", "--output=name")
        return ["kubectl", *_flags(submission.target), *create]

    def submit(self, submission: Submission) -> str:
        """Submit the files in the folder; see :class:`~ledger_lab.clusters.engine.Engine`."""
        try:
            KUBECTL.ask(*self.submit_command(submission), cwd=submission.folder)
        except UserError as error:
            return self.found_after(submission, error)
        return unique_name(submission.job_name)

    def find(self, submission: Submission) -> str | None:
        """Return the name of the Job; see :class:`~ledger_lab.clusters.engine.Engine`."""
        job = unique_name(submission.job_name)
        get = ("get", "job", job, "--ignore-not-found", "--output=name")
        return job if KUBECTL.ask("kubectl", *_flags(submission.target), *get).strip() else None

    def queued(self, submission: Submission) -> dict[int, Queued]:
        """Return the trainings that wait or run; see :class:`~ledger_lab.clusters.engine.Engine`."""
        with _understood():
            job, pods = _look(submission)
            return {} if job is None else _queued_trainings(job, pods)

    def ending(self, submission: Submission, index: int) -> str | None:
        """Explain how a training ended; see :class:`~ledger_lab.clusters.engine.Engine`."""
        shared = (submission.folder / "started" / str(index)).exists()
        with _understood():
            job, pods = _look(submission)
            return None if job is None else _explain(job, pods, index, None if shared else submission.folder)

    def cancel_command(self, submission: Submission) -> list[str]:
        """Return the command that cancels a job."""
        delete = ("delete", "job", submission.job, "--cascade=foreground", "--wait=false", "--ignore-not-found")
        return ["kubectl", *_flags(submission.target), *delete]

    def place(self, environ: Mapping[str, str], index: int, nodes: int) -> Place:
        """Return where this process runs; see :class:`~ledger_lab.clusters.engine.Engine`."""
        job, node = variable(environ, "LEDGER_LAB_KUBERNETES_JOB"), variable(environ, "LEDGER_LAB_NODE")
        return Place(
            SchedulerJob(engine=self.name, job=job, index=index, restarts=earlier_parts(environ), nodes=[node])
        )


def _flags(target: str) -> list[str]:
    """Return the flags of ``kubectl`` that name the cluster and the namespace."""
    context, _, namespace = target.rpartition("/")
    return [f"--context={context}", f"--namespace={namespace}"]


def _answer(target: str, *arguments: str) -> dict[str, Any]:
    """Ask about an object, and return it as Kubernetes names its fields; empty if there is none."""
    said = KUBECTL.ask("kubectl", *_flags(target), *arguments, "--output=json")
    return KUBECTL.read(said, dict[str, Any]) if said.strip() else {}


@contextmanager
def _understood() -> Iterator[None]:
    """Refuse answers of another form. A training that is missed would be submitted again."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"kubectl printed what LedgerLab does not understand ({error!r}): check its version") from error


def _look(submission: Submission) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    """Return the Job of a submission and its pods; no Job if it is gone."""
    job = _answer(submission.target, "get", "job", submission.job, "--ignore-not-found")
    selector = f"--selector=batch.kubernetes.io/job-name={submission.job}"
    return (job, _answer(submission.target, "get", "pods", selector)["items"]) if job else (None, [])


def _index_of(pod: dict[str, Any]) -> int:
    """Return the index of a pod's training."""
    metadata = pod["metadata"]
    return int({**metadata.get("labels", {}), **metadata.get("annotations", {})}[_INDEX_OF_POD])


def _closing(job: dict[str, Any]) -> dict[str, Any] | None:
    """Return the condition after which a Job starts no more pods."""
    conditions = job["status"].get("conditions", [])
    return next((each for each in conditions if each["type"] in _CLOSING and each["status"] == "True"), None)


def read_indexes(written: str) -> set[int]:
    """Return indexes that Kubernetes writes as ``1,3-5,7``.

    Raises:
        ValueError: If the text is anything else.
    """
    found: set[int] = set()
    for part in written.split(",") if written else []:
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def _queued_trainings(job: dict[str, Any], pods: list[dict[str, Any]]) -> dict[int, Queued]:
    """Return the trainings of a Job that wait or run, by index."""
    live = [pod for pod in pods if pod["status"].get("phase") not in ("Succeeded", "Failed")]
    found = {_index_of(pod): _describe(pod) for pod in live}
    if _closing(job) is None and "deletionTimestamp" not in job["metadata"]:
        spec, status = job["spec"], job["status"]
        ended = read_indexes(status.get("completedIndexes", "")) | read_indexes(status.get("failedIndexes", ""))
        waiting = Queued(False, "waiting (the job is suspended)" if spec.get("suspend") else "waiting")
        found = {index: waiting for index in range(int(spec["completions"])) if index not in ended} | found
    return found


def _describe(pod: dict[str, Any]) -> Queued:
    """Return the state of a pod that has not ended."""
    spec, status = pod["spec"], pod["status"]
    where, phase = f" on {spec['nodeName']}" if spec.get("nodeName") else "", status.get("phase", "Pending")
    if "deletionTimestamp" in pod["metadata"]:
        return Queued(True, f"ending{where}")
    if phase != "Pending":
        return Queued(phase == "Running", f"{phase.lower()}{where}")
    for container in status.get("containerStatuses", []):
        waits = container.get("state", {}).get("waiting") or {}
        if (reason := waits.get("reason")) not in (None, "ContainerCreating", "PodInitializing"):
            way = (
                ": cancel, and correct container or image_pull_secrets in the cluster file"
                if reason in _NO_IMAGE
                else ""
            )
            return Queued(False, f"waiting{where} ({_reason(waits)}){way}")
    for condition in status.get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return Queued(False, f"waiting ({_reason(condition)})")
    return Queued(False, f"starting{where}")


def _reason(told: dict[str, Any]) -> str:
    """Return a reason and its message in one line."""
    return ": ".join(each for each in (told.get("reason"), first_line(told.get("message"))) if each)


def _explain(job: dict[str, Any], pods: list[dict[str, Any]], index: int, unshared: Path | None) -> str | None:
    """Explain how a training ended that is no longer queued.

    Args:
        job: Its Job.
        pods: Pods of the Job.
        index: Index of the training.
        unshared: Folder of the submission if it shows no start of the training, else ``None``.
    """
    own = [pod for pod in pods if _index_of(pod) == index]
    said = [*_endings(max(own, key=lambda pod: pod["metadata"]["creationTimestamp"]), unshared)] if own else []
    if (closing := _closing(job)) is not None and closing.get("reason") == "DeadlineExceeded":
        said.append("the job reached its time limit (time_s)")
    return ", ".join(said) or None


def _endings(pod: dict[str, Any], unshared: Path | None) -> Iterator[str]:
    """Return what a pod that has ended tells."""
    if pod["status"].get("reason"):
        yield _reason(pod["status"])
    for container in pod["status"].get("containerStatuses", []):
        if not (ended := container.get("state", {}).get("terminated")):
            continue
        if unshared is not None:
            yield f"exit status {ended['exitCode']}"
        if ended.get("reason") == "OOMKilled":
            yield "out of memory: raise memory in the cluster file"
        elif ended.get("reason") not in (None, "Completed", "Error"):
            yield _reason(ended)
        elif unshared is not None:
            yield (
                f"the pod wrote nothing into {unshared}: the claim must hold the folder that this machine sees, and "
                f"user must be allowed to write to it (kubectl logs {pod['metadata']['name']} tells more)"
            )


def _job(site: KubernetesSite, plan: Plan, job: str, folder: Path) -> dict[str, Any]:
    """Return the Job, as Kubernetes names its fields."""
    labels = {**site.labels, "app.kubernetes.io/name": "ledger-lab", "app.kubernetes.io/part-of": job}
    spec = {
        "completionMode": "Indexed",
        "completions": len(plan.trainings),
        "parallelism": min(plan.at_once or len(plan.trainings), len(plan.trainings)),
        "backoffLimitPerIndex": _RETRIES,
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": {
            "rules": [
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                _on_exit("Ignore", "In", [EXIT_REQUEUE]),
                _on_exit("FailIndex", "NotIn", [EXIT_REQUEUE, *_KILLED]),
            ]
        },
        "ttlSecondsAfterFinished": _KEPT_S,
        "activeDeadlineSeconds": site.time_s,
        "template": {"metadata": {"labels": labels}, "spec": _pod(site, plan, job, folder)},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": job, "namespace": site.namespace, "labels": labels},
        "spec": without_nulls(spec),
    }


def _on_exit(action: str, operator: str, values: list[int]) -> dict[str, Any]:
    """Return a rule about exit statuses."""
    return {"action": action, "onExitCodes": {"containerName": _CONTAINER, "operator": operator, "values": values}}


def _pod(site: KubernetesSite, plan: Plan, job: str, folder: Path) -> dict[str, Any]:
    """Return what a pod runs, and where."""
    volumes: list[dict[str, Any]] = [
        {"name": "ledger", "persistentVolumeClaim": {"claimName": site.claim}},
        {"name": "scratch", "emptyDir": {}},
    ]
    mounts = [{"name": "ledger", "mountPath": str(site.volume_path)}, {"name": "scratch", "mountPath": "/tmp"}]
    if max(training.processes for training in plan.trainings) > 1:
        volumes.append({"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": _SHARED_MEMORY}})
        mounts.append({"name": "shared-memory", "mountPath": "/dev/shm"})
    node = {"fieldRef": {"fieldPath": "spec.nodeName"}}
    arguments = [_literal(str(folder)), _NAME, _INDEX, plan.sha256, _literal(site.python)]
    limits = without_nulls({"memory": site.memory, "nvidia.com/gpu": site.gpus or None})
    container = {
        "name": _CONTAINER,
        "image": site.container,
        "args": [
            "bash",
            "-c",
            PART_SCRIPT,
            _FILE,
            *(each if each == _INDEX else _literal(each) for each in arguments),
        ],
        "env": [
            *({"name": key, "value": _literal(value)} for key, value in site.environment.items()),
            {"name": "LEDGER_LAB_KUBERNETES_JOB", "value": job},
            {"name": "LEDGER_LAB_NODE", "valueFrom": node},
        ],
        "resources": {
            "requests": without_nulls({"cpu": None if site.cpus is None else str(site.cpus), **limits}),
            "limits": limits,
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    }
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": site.grace_s,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": site.user,
            "runAsGroup": 0,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "nodeSelector": dict(site.node_selector) or None,
        "tolerations": [_toleration(each) for each in site.tolerations] or None,
        "imagePullSecrets": [{"name": each} for each in site.image_pull_secrets] or None,
        "containers": [container],
        "volumes": volumes,
    }
    return without_nulls(pod)


def _toleration(written: str) -> dict[str, str]:
    """Return a toleration as Kubernetes writes it, from ``KEY=VALUE:EFFECT``."""
    found = _TOLERATION.fullmatch(written)
    assert found is not None  # the site has checked it
    parts = {key: value for key, value in found.groupdict().items() if value is not None}
    return {"operator": "Equal" if "value" in parts else "Exists", **parts}


def _literal(text: str) -> str:
    """Return a text that Kubernetes takes as it is, without replacing variables in it."""
    return text.replace("$", "$$")


ENGINE = Kubernetes()
