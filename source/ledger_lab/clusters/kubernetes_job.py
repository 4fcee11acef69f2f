"""The file of Kubernetes: one Indexed Job for a plan.

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
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from ledger_lab.clusters.part import PART_SCRIPT
from ledger_lab.clusters.plans import Plan
from ledger_lab.clusters.programs import SUBMIT_SCRIPT, submit_script, without_nulls
from ledger_lab.clusters.volumes import VolumeSite, require_names, unique_name
from ledger_lab.documents import yaml_text
from ledger_lab.reports.terminal.exit_status import EXIT_REQUEUE

ENGINE_NAME = "kubernetes"
JOB_FILE = "job.yaml"
_CONTAINER = "training"
_INDEX = "$(JOB_COMPLETION_INDEX)"
"""Argument that Kubernetes replaces by the index of the pod."""
_GRACE_SHARE = 0.9
"""Share of the grace period of a pod that a training may use to save its state."""
_KILLED = (137, 143, 255)
"""Exit statuses of a pod that the node or the kernel has ended."""
_RETRIES = 3
"""How often a training is started again after one of :data:`_KILLED`, or after a pod without an exit status."""
_KEPT_S = 7 * 86_400
"""How long Kubernetes keeps a Job that has ended [s]; ``--status`` explains endings from it."""
_SHARED_MEMORY = "8Gi"
"""Largest ``/dev/shm`` of a training of several processes."""
LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_DOTTED = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_LABEL_KEY = re.compile(r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?", re.ASCII)
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?)?", re.ASCII)
_MEMORY = re.compile(r"[1-9][0-9]{0,15}(k|[KMGTP]i?)?")
CONTEXT = re.compile(r"[A-Za-z0-9][\w.:/@+-]*", re.ASCII)
_TOLERATION = re.compile(
    rf"(?P<key>{_LABEL_KEY.pattern})(=(?P<value>{_LABEL_VALUE.pattern}))?(:(?P<effect>NoSchedule|PreferNoSchedule|NoExecute))?",
    re.ASCII,
)


@dataclass(frozen=True, kw_only=True)
class KubernetesSite(VolumeSite):
    """Keys of a cluster with Kubernetes."""

    context: str
    """Context of ``kubectl``. It is required, because the current context may change between two calls."""
    namespace: str = "default"
    claim: str
    """PersistentVolumeClaim that holds :attr:`log_root`."""
    user: int = field(default_factory=os.getuid)
    """User id of the pods, which must be able to write to :attr:`log_root`; by default that of this process."""
    gpus: int = 0
    """GPUs of a training."""
    cpus: int | None = None
    """Processors that a training gets at least."""
    memory: str | None = None
    """Memory of a training, as Kubernetes writes it."""
    grace_s: int = 120
    """Time between SIGTERM and SIGKILL [s]."""
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
        """Check what becomes a part of the file.

        Raises:
            ValueError: If a value is refused.
        """
        super().__post_init__()
        small = "use lower-case letters, digits and '-'"
        require_names("context", [self.context], CONTEXT, "copy the name from `kubectl config get-contexts`")
        require_names("namespace", [self.namespace], LABEL, small)
        require_names("claim", [self.claim], _DOTTED, f"{small} and '.'")
        require_names("image_pull_secrets", self.image_pull_secrets, _DOTTED, "give names of secrets, not the secrets")
        require_names("tolerations", self.tolerations, _TOLERATION, "write them as KEY, KEY=VALUE or KEY=VALUE:EFFECT")
        for what, table in (("node_selector", self.node_selector), ("labels", self.labels)):
            require_names(what, [*table], _LABEL_KEY, "is not the name of a label")
            require_names(what, [*table.values()], _LABEL_VALUE, "is not the value of a label")
        if self.memory is not None:
            require_names("memory", [self.memory], _MEMORY, "write it as Kubernetes does, such as 32Gi")
        if self.user < 1:
            raise ValueError("user = 0: pods do not run as root: give the id of a user that can write to log_root")
        if self.gpus < 0 or (self.cpus is not None and self.cpus < 1):
            raise ValueError("gpus must be at least 0, and cpus at least 1")
        if self.grace_s < 1:
            raise ValueError(f"grace_s = {self.grace_s}: must be above 0")
        if self.time_s is not None and self.time_s <= self.grace_s:
            raise ValueError(f"time_s = {self.time_s}: must be above grace_s = {self.grace_s}")
        for key in self.environment:
            if key.startswith("LEDGER_LAB_") or key == "JOB_COMPLETION_INDEX":
                raise ValueError(f"environment: {key} is set by the job: leave it out")

    @property
    def gpus_per_node(self) -> int:
        """GPUs of each node that a training gets."""
        return self.gpus

    def with_gpus(self, gpus: int) -> Self:
        """Return the site with another number of GPUs per node; see :class:`~ledger_lab.clusters.engine.Site`."""
        return replace(self, gpus=gpus) if self.gpus else self

    @property
    def arguments(self) -> tuple[str, ...]:
        """Arguments of ``train.py`` that the site sets for each attempt."""
        return (*super().arguments, "--grace_s", f"{_GRACE_SHARE * self.grace_s:g}")


def job_files(site: KubernetesSite, plan: Plan, name: str) -> dict[str, str]:
    """Return the files of a submission; a pure function.

    Args:
        site: The cluster.
        plan: The plan.
        name: Name of the job.

    Returns:
        Content by file name.
    """
    job = unique_name(name, (str(site.log_root), site.claim, plan.sha256))
    folder = site.submission_folder(plan, name)
    head = (
        f"# {name}: pod N makes the training in line N of plan.jsonl, counted from 0.\n"
        f"# To submit it by hand, run `bash {SUBMIT_SCRIPT}` in this folder.\n"
        f"# A pod is replaced after a disruption, and after exit status {EXIT_REQUEUE} (its training can be resumed).\n"
        f"# After {', '.join(map(str, _KILLED))}, it is replaced at most {_RETRIES} times. After any other status, its "
        "training has failed.\n"
    )
    command = ["kubectl", *target_flags(site.context, site.namespace), "create", f"--filename={JOB_FILE}"]
    return {
        JOB_FILE: head + yaml_text(_job(site, plan, job, folder)),
        SUBMIT_SCRIPT: submit_script(JOB_FILE, [*command, "--validate=strict", "--output=name"]),
    }


def target_flags(context: str, namespace: str) -> list[str]:
    """Return the flags of ``kubectl`` that name the cluster and the namespace."""
    return [f"--context={context}", f"--namespace={namespace}"]


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
    arguments = [_literal(str(folder)), ENGINE_NAME, _INDEX, plan.sha256, _literal(site.python)]
    limits = without_nulls({"memory": site.memory, "nvidia.com/gpu": site.gpus or None})
    container = {
        "name": _CONTAINER,
        "image": site.container,
        "args": [
            "bash",
            "-c",
            PART_SCRIPT,
            JOB_FILE,
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
