"""SkyPilot: one managed job per training, which SkyPilot starts again when its machine is taken away.

``sky jobs launch --num-jobs`` submits all trainings in one request. These facts of SkyPilot determine the file:

1. A job is recovered when its machine is lost, and after the exit statuses in ``recover_on_exit_codes``.
2. A mounted bucket can't append to a file, or ignores ``fsync``. The ledger needs both, so it must be on a volume.
   SkyPilot has volumes that several machines share on Kubernetes only.
3. SkyPilot prepares a container as root, or with ``sudo``. The image has no ``sudo``, so pods run as root.
4. The rank of a job is the place of its id among the ids of the request.
5. ``sky.Task.from_yaml`` accepts some misspelt keys. The tests check what it has understood.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import msgspec

from ledger_lab.clusters.containers import PART_SCRIPT, VolumeSite, earlier_parts, unique_name
from ledger_lab.clusters.engine import Engine, Place, Queued, variable
from ledger_lab.clusters.plans import Plan
from ledger_lab.clusters.programs import NoAnswerError, Program, first_line, without_nulls
from ledger_lab.clusters.submissions import Submission
from ledger_lab.documents import yaml_text
from ledger_lab.errors import UserError
from ledger_lab.ledger import SchedulerJob
from ledger_lab.reports.terminal.exit_status import EXIT_REQUEUE

_FILE = "task.yaml"
_SUBMIT_S = 900.0
"""Longest time of a submission [s]: SkyPilot may first start its controller."""
_RANK = "SKYPILOT_JOB_RANK"
_BUCKETS = re.compile(r"(s3|gs|r2|cos|oci|nebius|https?)://|.*\.blob\.core\.windows\.net")
_ACCELERATORS = re.compile(r"[A-Za-z][\w.-]*:([1-9][0-9]{0,2})", re.ASCII)
_ENDED = frozenset(
    ["SUCCEEDED", "CANCELLED", "FAILED", "FAILED_SETUP", "FAILED_PRECHECKS", "FAILED_NO_RESOURCE", "FAILED_CONTROLLER"]
)
_RUNS = frozenset(["RUNNING", "WINDING_DOWN", "CANCELLING"])

SKY = Program(
    name="sky",
    install="install SkyPilot in an environment of its own, and put its `sky` on the PATH",
    answer_s=180.0,
    environment={"SKYPILOT_DISABLE_USAGE_COLLECTION": "1"},
    ways_out={
        "sky check": "set up access to the infrastructure, and run `sky check`",
        "not enabled": "set up access to the infrastructure, and run `sky check`",
        "API server": "the API server does not answer: run `sky api status`, or try again later",
    },
)
"""The command of SkyPilot."""


@dataclass(frozen=True, kw_only=True)
class SkyPilotSite(VolumeSite):
    """Keys of an infrastructure that SkyPilot manages."""

    infra: str = "k8s"
    """Where SkyPilot starts machines: ``k8s``, or ``k8s/CONTEXT``."""
    volume: str
    """Volume of SkyPilot that holds :attr:`log_root`."""
    python: str = "/opt/venv/bin/python"
    """Python in the image."""
    accelerators: str | None = None
    """Type and number of the GPUs of a training, such as ``L4:1``."""
    cpus: int | None = None
    """Processors that a training gets at least."""
    memory_gb: int | None = None
    """Memory that a training gets at least [GB]."""
    use_spot: bool = False
    """Whether to use machines that can be taken away at any time."""

    def __post_init__(self) -> None:
        """Check what SkyPilot would take, and what would then go wrong.

        Raises:
            ValueError: If a value is refused.
        """
        super().__post_init__()
        if _BUCKETS.match(self.volume):
            raise ValueError(
                f"volume = {self.volume!r}: a mounted bucket can't append to the files of the ledger: give the name of "
                "a volume (see sky volumes ls)"
            )
        if self.infra.partition("/")[0] != "k8s":
            raise ValueError(
                f"infra: {self.infra!r}: write k8s or k8s/CONTEXT: volumes that are shared exist there only"
            )
        if self.accelerators is not None and not _ACCELERATORS.fullmatch(self.accelerators):
            raise ValueError(f"accelerators: {self.accelerators!r}: write TYPE:NUMBER, such as L4:1")

    @property
    def gpus_per_node(self) -> int:
        """GPUs of each node that a training gets."""
        return int(self.accelerators.rpartition(":")[2]) if self.accelerators else 0

    def with_gpus(self, gpus: int) -> Self:
        """Return the site with another number of GPUs per node; see :class:`~ledger_lab.clusters.engine.Site`."""
        if not self.accelerators:
            return self
        return replace(self, accelerators=f"{self.accelerators.rpartition(':')[0]}:{gpus}")


class _Volume(msgspec.Struct):
    """A volume of SkyPilot."""

    name: str


class _Job(msgspec.Struct):
    """A managed job."""

    job_id: int
    job_name: str | None = None
    status: str | None = None
    recovery_count: int | None = None
    infra: str | None = None
    failure_reason: str | None = None


class SkyPilot(Engine):
    """Runs a plan as managed jobs of SkyPilot."""

    name = "skypilot"
    site = SkyPilotSite
    program = SKY
    appears_s = _SUBMIT_S  # its server goes on when the client is killed

    def check(self, site: SkyPilotSite, plan: Plan) -> None:
        """Refuse what can't run; see :class:`~ledger_lab.clusters.engine.Engine`."""
        self.refuse_nodes(plan, "leave --nodes out and raise the number in accelerators, or use a cluster with Slurm")
        if plan.at_once is not None and plan.at_once < len(plan.trainings):
            raise UserError(
                f"--at_once {plan.at_once}: SkyPilot starts all managed jobs at once: leave --at_once out, or use a "
                "cluster with Slurm or Kubernetes"
            )
        site.require_mounted(f"volume {site.volume}")
        if not any(
            each.name == site.volume
            for each in SKY.read(SKY.ask("sky", "volumes", "ls", "--output=json"), list[_Volume])
        ):
            raise UserError(
                f"SkyPilot has no volume {site.volume}: make it with `sky volumes apply`, or correct volume"
            )

    def files(self, site: SkyPilotSite, plan: Plan, name: str) -> dict[str, str]:
        """Return ``task.yaml``; see :class:`~ledger_lab.clusters.engine.Engine`."""
        job = unique_name(name)
        folder = site.submission_folder(plan, name)
        arguments = f'{shlex.join([str(folder), self.name])} "${_RANK}" {shlex.join([plan.sha256, site.python])}'
        resources = {
            "infra": site.infra,
            "image_id": f"docker:{site.container}",
            "accelerators": site.accelerators,
            "cpus": None if site.cpus is None else f"{site.cpus}+",
            "memory": None if site.memory_gb is None else f"{site.memory_gb}+",
            "use_spot": site.use_spot,
            "job_recovery": {"max_restarts_on_errors": 0, "recover_on_exit_codes": [EXIT_REQUEUE]},
        }
        task = {
            "name": job,
            "resources": without_nulls(resources),
            "num_nodes": 1,
            "volumes": {str(site.volume_path): site.volume},
            "config": {"kubernetes": {"pod_config": {"spec": {"securityContext": {"runAsUser": 0, "runAsGroup": 0}}}}},
            "envs": {**site.environment, "LEDGER_LAB_SKYPILOT_JOB": job},
            "run": f"set -- {arguments}\n{PART_SCRIPT}",
        }
        head = (
            f"# {name}: the job of rank N makes the training in line N of plan.jsonl, counted from 0.\n"
            "# A job is started again when its machine is lost, and after exit status "
            f"{EXIT_REQUEUE} (its training can be resumed).\n"
        )
        return {_FILE: head + yaml_text(task)}

    def submit_command(self, submission: Submission) -> list[str]:
        """Return the command that submits the files, to run in their folder."""
        return ["sky", "jobs", "launch", "--yes", "--detach-run", f"--num-jobs={submission.count}", _FILE]

    def submit(self, submission: Submission) -> str:
        """Submit the files in the folder; see :class:`~ledger_lab.clusters.engine.Engine`."""
        error: UserError = NoAnswerError("sky has not made the jobs yet")
        try:
            SKY.ask(*self.submit_command(submission), cwd=submission.folder, answer_s=_SUBMIT_S)
        except UserError as refused:
            error = refused
        return self.found_after(submission, error)

    def find(self, submission: Submission) -> str | None:
        """Return the ids of the jobs, with commas; see :class:`~ledger_lab.clusters.engine.Engine`."""
        jobs = _jobs_of(submission)
        if jobs and len(jobs) != submission.count:
            raise UserError(
                f"SkyPilot has {len(jobs)} of {submission.count} jobs named {unique_name(submission.job_name)}: cancel "
                f"them with `sky jobs cancel ID`, and remove {submission.folder}"
            )
        return ",".join(str(job.job_id) for job in jobs) or None

    def queued(self, submission: Submission) -> dict[int, Queued]:
        """Return the trainings that wait or run; see :class:`~ledger_lab.clusters.engine.Engine`."""
        found = {}
        for index, job in enumerate(self._known(submission)):
            status = job.status or "PENDING"
            if status in _ENDED:
                continue
            where = f" on {first_line(job.infra)}" if job.infra and job.infra != "-" else ""
            times = f", recovered {job.recovery_count} times" if job.recovery_count else ""
            found[index] = Queued(status in _RUNS, f"{status.lower().replace('_', ' ')}{where}{times}")
        return found

    def ending(self, submission: Submission, index: int) -> str | None:
        """Explain how a training ended; see :class:`~ledger_lab.clusters.engine.Engine`."""
        job = self._known(submission)[index]
        said = [(job.status or "").lower().replace("_", " "), first_line(job.failure_reason)]
        if job.status == "FAILED" and not (submission.folder / "started" / str(index)).exists():
            said.append(
                f"the job wrote nothing into {submission.folder}: the volume must hold the folder that this machine "
                f"sees (sky jobs logs {job.job_id} tells more)"
            )
        return ", ".join(each for each in said if each) or None

    def _known(self, submission: Submission) -> list[_Job]:
        """Return the jobs of a submission, by index.

        Raises:
            UserError: If SkyPilot does not know all of them. They never vanish, so then it is another server.
        """
        jobs = _jobs_of(submission)
        if len(jobs) != submission.count:
            raise UserError(
                f"SkyPilot does not know all jobs {submission.job} named {unique_name(submission.job_name)}: use the "
                "API server to which they were submitted (see sky api info); if it is gone for good, remove "
                f"{submission.folder}"
            )
        return jobs

    def cancel_command(self, submission: Submission) -> list[str]:
        """Return the command that cancels a job."""
        return ["sky", "jobs", "cancel", "--yes", *submission.job.split(",")]

    def place(self, environ: Mapping[str, str], index: int, nodes: int) -> Place:
        """Return where this process runs; see :class:`~ledger_lab.clusters.engine.Engine`."""
        job, addresses = variable(environ, "LEDGER_LAB_SKYPILOT_JOB"), variable(environ, "SKYPILOT_NODE_IPS")
        return Place(
            SchedulerJob(
                engine=self.name, job=job, index=index, restarts=earlier_parts(environ), nodes=addresses.split()
            )
        )


def _jobs_of(submission: Submission) -> list[_Job]:
    """Return the managed jobs with the name of a submission, by index."""
    jobs = SKY.read(SKY.ask("sky", "jobs", "queue", "--all", "--verbose", "--output=json"), list[_Job])
    name = unique_name(submission.job_name)
    return sorted((job for job in jobs if job.job_name == name), key=lambda job: job.job_id)


ENGINE = SkyPilot()
