"""Kubernetes: one Indexed Job for a plan. ``kubectl`` submits it, looks at it and deletes it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ledger_lab.clusters.engine import Engine, Place, Queued, UnclearSubmissionError
from ledger_lab.clusters.kubernetes_answers import (
    KUBECTL,
    OLDEST,
    Claim,
    Job,
    Pods,
    Version,
    explain_ending,
    queued_trainings,
)
from ledger_lab.clusters.kubernetes_job import (
    CONTEXT,
    ENGINE_NAME,
    JOB_FILE,
    LABEL,
    KubernetesSite,
    job_files,
    target_flags,
)
from ledger_lab.clusters.part import earlier_parts
from ledger_lab.clusters.plans import Plan
from ledger_lab.clusters.programs import SUBMIT_SCRIPT, changed, read_submit_script, read_submitted
from ledger_lab.clusters.submissions import Submission
from ledger_lab.errors import UserError
from ledger_lab.ledger import SchedulerJob

_REFUSED = re.compile(
    r"not installed|can't be started|Forbidden|NotFound|Invalid|BadRequest|Unauthorized|logged in"
    r"|error validating|strict decoding|does not exist|connection refused|no such host"
)
"""Messages of ``kubectl create`` after which no Job was made."""


class Kubernetes(Engine):
    """Runs a plan as an Indexed Job of Kubernetes."""

    name = ENGINE_NAME
    site = KubernetesSite
    job_id = re.compile(rf"{CONTEXT.pattern}/{LABEL.pattern}/{LABEL.pattern}", re.ASCII)
    appears_s = 60.0  # the longest time that a server works on a request

    def check(self, site: KubernetesSite, plan: Plan) -> None:
        """Refuse what can't run; see :class:`~ledger_lab.clusters.engine.Engine`."""
        if plan.nodes > 1:
            raise UserError(
                f"--nodes {plan.nodes}: a training runs in one pod of Kubernetes: leave --nodes out and raise gpus, or "
                "use a cluster with Slurm"
            )
        site.require_mounted(f"claim {site.claim}")
        target = target_flags(site.context, site.namespace)
        if not KUBECTL.read(KUBECTL.ask(*target, "version", "--output=json"), Version).is_recent:
            raise UserError(f"cluster {site.name}: this needs Kubernetes {OLDEST[0]}.{OLDEST[1]} or later")
        self._check_claim(site, target, several=len(plan.trainings) > 1 and plan.at_once != 1)

    def _check_claim(self, site: KubernetesSite, target: list[str], *, several: bool) -> None:
        """Refuse a claim that is missing, or that the nodes can't share."""
        try:
            said = KUBECTL.ask(*target, "get", "persistentvolumeclaim", site.claim, "--output=json")
        except UserError as error:
            if "Forbidden" in str(error):  # whoever may create jobs may not be allowed to look at claims
                return
            raise
        modes = KUBECTL.read(said, Claim).spec.access_modes
        if several and "ReadWriteMany" not in modes:
            raise UserError(
                f"claim {site.claim} has the access modes {', '.join(modes) or 'none'}: several nodes can only share "
                "one with ReadWriteMany: use such a claim, or --at_once 1"
            )

    def files(self, site: KubernetesSite, plan: Plan, name: str) -> dict[str, str]:
        """Return ``job.yaml`` and ``submit.sh``; see :class:`~ledger_lab.clusters.engine.Engine`."""
        return job_files(site, plan, name)

    def submit_command(self, folder: Path) -> list[str]:
        """Return the command that submits the files, to run in their folder."""
        return ["bash", SUBMIT_SCRIPT]

    def submit(self, folder: Path) -> str:
        """Submit the files in a folder; see :class:`~ledger_lab.clusters.engine.Engine`."""
        job = _job_id(folder)
        try:
            KUBECTL.ask(*read_submit_script(folder)[1:], cwd=folder)
        except UserError as error:
            if _REFUSED.search(str(error)):
                raise
            with suppress(UserError):
                if self._exists(job):  # no other submission has this name
                    return job
            raise UnclearSubmissionError(
                f"{error}: the job may be submitted all the same: call again in a minute, and LedgerLab looks for it "
                f"by its name, {job.rpartition('/')[2]}"
            ) from error
        return job

    def find(self, folder: Path) -> str | None:
        """Return the id of the job of an interrupted call; see :class:`~ledger_lab.clusters.engine.Engine`."""
        job = _job_id(folder)
        return job if self._exists(job) else None

    def _exists(self, job: str) -> bool:
        """Tell whether the cluster has a Job."""
        target, name = _split(job)
        return bool(KUBECTL.ask(*target, "get", "job", name, "--ignore-not-found", "--output=name").strip())

    def queued(self, submission: Submission) -> dict[int, Queued]:
        """Return the trainings that wait or run; see :class:`~ledger_lab.clusters.engine.Engine`."""
        found = _look(submission)
        return {} if found is None else queued_trainings(*found)

    def ending(self, submission: Submission, index: int) -> str | None:
        """Explain how a training ended; see :class:`~ledger_lab.clusters.engine.Engine`."""
        found = _look(submission)
        if found is None:
            return None
        shared = (submission.folder / "started" / str(index)).exists()
        return explain_ending(*found, index, None if shared else submission.folder)

    def cancel_command(self, job: str) -> list[str]:
        """Return the command that cancels a job."""
        target, name = _split(job)
        return ["kubectl", *target, "delete", "job", name, "--cascade=foreground", "--wait=false", "--ignore-not-found"]

    def cancel(self, submission: Submission) -> None:
        """Delete the Job, which ends its pods; see :class:`~ledger_lab.clusters.engine.Engine`."""
        KUBECTL.ask(*self.cancel_command(submission.job)[1:])

    def place(self, environ: Mapping[str, str], index: int, nodes: int) -> Place:
        """Return where this process runs; see :class:`~ledger_lab.clusters.engine.Engine`."""
        try:
            job, node = environ["LEDGER_LAB_KUBERNETES_JOB"], environ["LEDGER_LAB_NODE"]
        except KeyError as error:
            raise UserError(f"{error.args[0]} is not set: {JOB_FILE} starts this program, in a pod") from error
        return Place(
            SchedulerJob(engine=self.name, job=job, index=index, restarts=earlier_parts(environ), nodes=[node])
        )


def _job_id(folder: Path) -> str:
    """Return the id of the job of a submission, ``CONTEXT/NAMESPACE/NAME``, from its files.

    Raises:
        UserError: If they are missing or were changed.
    """
    context, namespace = (each.partition("=")[2] for each in read_submit_script(folder)[1:3])
    named = re.search(r"^  name: (\S+)$", read_submitted(folder, JOB_FILE), re.MULTILINE)
    job = f"{context}/{namespace}/{named.group(1) if named else ''}"
    if not Kubernetes.job_id.fullmatch(job):
        raise changed(folder, JOB_FILE)
    return job


def _split(job: str) -> tuple[list[str], str]:
    """Return the flags that name the cluster and the namespace of a job, and its name."""
    context, namespace, name = job.rsplit("/", 2)
    return target_flags(context, namespace), name


def _look(submission: Submission) -> tuple[Job, Pods] | None:
    """Return the Job of a submission and its pods; ``None`` if the Job is gone."""
    target, name = _split(submission.job)
    said = KUBECTL.ask(*target, "get", "job", name, "--ignore-not-found", "--output=json")
    if not said.strip():
        return None
    pods = KUBECTL.ask(*target, "get", "pods", f"--selector=batch.kubernetes.io/job-name={name}", "--output=json")
    return KUBECTL.read(said, Job), KUBECTL.read(pods, Pods)


ENGINE = Kubernetes()
