"""Asks ``kubectl``, and reads what it answers about a Job and its pods."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ledger_lab.clusters.engine import Queued
from ledger_lab.clusters.programs import Program, first_line
from ledger_lab.errors import UserError

OLDEST = (1, 29)
"""Oldest version of Kubernetes that knows all fields of the Job."""
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
        "logged in": "log in again",
        "Unable to connect": "the cluster does not answer: try again later, or correct context",
        "was refused": "the cluster does not answer: try again later, or correct context",
        "strict decoding": "kubectl or the cluster is too old: this needs Kubernetes 1.29 or later",
    },
)
"""The command of Kubernetes."""
_INDEX = "batch.kubernetes.io/job-completion-index"
_CLOSING = frozenset(["Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"])
"""Conditions of a Job that starts no more pods."""
_NO_IMAGE = frozenset(["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"])


class _Answer(msgspec.Struct, rename="camel"):
    """A part of an answer. Fields that are not named here are ignored, all others are checked."""


class _Server(_Answer):
    major: str
    minor: str


class Version(_Answer):
    """What ``kubectl version`` tells."""

    server_version: _Server

    @property
    def is_recent(self) -> bool:
        """Whether the server knows all fields of the Job."""
        minor = "".join(each for each in self.server_version.minor if each.isdecimal())
        return (int(self.server_version.major), int(minor)) >= OLDEST


class _ClaimSpec(_Answer):
    access_modes: list[str] = []


class Claim(_Answer):
    """A PersistentVolumeClaim."""

    spec: _ClaimSpec


class _Condition(_Answer):
    type: str
    status: str
    reason: str | None = None
    message: str | None = None


class _Metadata(_Answer):
    name: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None


class _JobSpec(_Answer):
    completions: int
    suspend: bool | None = None


class _JobStatus(_Answer):
    completed_indexes: str = ""
    failed_indexes: str = ""
    conditions: list[_Condition] = []


class Job(_Answer):
    """A Job."""

    metadata: _Metadata
    spec: _JobSpec
    status: _JobStatus

    @property
    def closing(self) -> _Condition | None:
        """The condition after which it starts no more pods."""
        found = (each for each in self.status.conditions if each.type in _CLOSING and each.status == "True")
        return next(found, None)


class _Waiting(_Answer):
    reason: str | None = None
    message: str | None = None


class _Terminated(_Answer):
    exit_code: int
    reason: str | None = None
    message: str | None = None


class _State(_Answer):
    waiting: _Waiting | None = None
    terminated: _Terminated | None = None


class _Container(_Answer):
    image: str
    state: _State = msgspec.field(default_factory=_State)


class _PodStatus(_Answer):
    phase: str = "Pending"
    reason: str | None = None
    message: str | None = None
    conditions: list[_Condition] = []
    container_statuses: list[_Container] = []


class _PodSpec(_Answer):
    node_name: str | None = None


class Pod(_Answer):
    """A pod."""

    metadata: _Metadata
    spec: _PodSpec
    status: _PodStatus

    @property
    def index(self) -> int:
        """Index of its training.

        Raises:
            UserError: If it has none.
        """
        written = self.metadata.annotations.get(_INDEX) or self.metadata.labels.get(_INDEX, "")
        if not written.isdecimal():
            raise UserError(f"pod {self.metadata.name} has no index: delete it, if it does not belong to the job")
        return int(written)

    @property
    def has_ended(self) -> bool:
        """Whether it runs no longer."""
        return self.status.phase in ("Succeeded", "Failed")


class Pods(_Answer):
    """A list of pods."""

    items: list[Pod]


def read_indexes(written: str, completions: int) -> set[int]:
    """Return indexes that Kubernetes writes as ``1,3-5,7``.

    Raises:
        UserError: If the text is anything else.
    """
    found: set[int] = set()
    for part in written.split(",") if written else []:
        parts = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", part)
        if parts is None or (last := int(parts.group(2) or parts.group(1))) >= completions:
            raise UserError(f"kubectl printed the indexes {written[:80]!r}, which LedgerLab does not understand")
        found.update(range(int(parts.group(1)), last + 1))
    return found


def queued_trainings(job: Job, pods: Pods) -> dict[int, Queued]:
    """Return the trainings of a Job that wait or run, by index."""
    live = {pod.index: pod for pod in pods.items if not pod.has_ended}
    found = {index: _describe(pod) for index, pod in live.items()}
    if job.closing is None and job.metadata.deletion_timestamp is None:
        ended = read_indexes(job.status.completed_indexes, job.spec.completions)
        ended |= read_indexes(job.status.failed_indexes, job.spec.completions)
        waiting = Queued(False, "waiting (the job is suspended)" if job.spec.suspend else "waiting")
        found = {index: waiting for index in range(job.spec.completions) if index not in ended} | found
    return found


def _describe(pod: Pod) -> Queued:
    """Return the state of a pod that has not ended."""
    where = f" on {pod.spec.node_name}" if pod.spec.node_name else ""
    if pod.metadata.deletion_timestamp is not None:
        return Queued(True, f"ending{where}")
    if pod.status.phase != "Pending":
        return Queued(pod.status.phase == "Running", f"{pod.status.phase.lower()}{where}")
    for container in pod.status.container_statuses:
        waits = container.state.waiting
        if waits is None or waits.reason in (None, "ContainerCreating", "PodInitializing"):
            continue
        if waits.reason in _NO_IMAGE:
            return Queued(
                False,
                f"waiting: the image {container.image} can't be pulled{where} ({waits.reason}): cancel, and correct "
                "container or image_pull_secrets in the cluster file",
            )
        return Queued(False, f"waiting{where} ({_reason(waits.reason, waits.message)})")
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return Queued(False, f"waiting ({_reason(condition.reason, condition.message)})")
    return Queued(False, f"starting{where}")


def _reason(reason: str | None, message: str | None) -> str:
    """Return a reason and its message in one line."""
    return ": ".join(each for each in (reason, first_line(message)) if each)


def explain_ending(job: Job, pods: Pods, index: int, unshared: Path | None) -> str | None:
    """Explain how a training ended that is no longer queued.

    Args:
        job: Its Job.
        pods: Pods of the Job.
        index: Index of the training.
        unshared: Folder of the submission if it shows no start of the training, else ``None``.
    """
    own = sorted((pod for pod in pods.items if pod.index == index), key=lambda pod: pod.metadata.creation_timestamp)
    said = [*_endings(own[-1], unshared)] if own else []
    if job.closing is not None and job.closing.reason == "DeadlineExceeded":
        said.append("the job reached its time limit (time_s)")
    return ", ".join(said) or None


def _endings(pod: Pod, unshared: Path | None) -> Iterator[str]:
    """Return what a pod that has ended tells."""
    if pod.status.reason:
        yield _reason(pod.status.reason, pod.status.message)
    for container in pod.status.container_statuses:
        if (ended := container.state.terminated) is None:
            continue
        if unshared is not None:
            yield f"exit status {ended.exit_code}"
        if ended.reason == "OOMKilled":
            yield "out of memory: raise memory in the cluster file"
        elif ended.reason not in (None, "Completed", "Error"):
            yield _reason(ended.reason, ended.message)
        if unshared is not None and ended.reason in (None, "Completed", "Error"):
            yield (
                f"the pod wrote nothing into {unshared}: the claim must hold the folder that this machine sees, and "
                f"user must be allowed to write to it (kubectl logs {pod.metadata.name} tells more)"
            )
