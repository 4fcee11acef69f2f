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
from pathlib import Path
from typing import Self

import msgspec

from ledger_lab.clusters.engine import Engine, Place, Queued, UnclearSubmissionError
from ledger_lab.clusters.part import PART_SCRIPT, earlier_parts
from ledger_lab.clusters.plans import Plan
from ledger_lab.clusters.programs import (
    SUBMIT_SCRIPT,
    Program,
    changed,
    first_line,
    read_submit_script,
    read_submitted,
    submit_script,
    without_nulls,
)
from ledger_lab.clusters.submissions import Submission
from ledger_lab.clusters.volumes import VolumeSite, require_names, unique_name
from ledger_lab.documents import yaml_text
from ledger_lab.errors import UserError
from ledger_lab.ledger import SchedulerJob
from ledger_lab.reports.terminal.exit_status import EXIT_REQUEUE

_FILE = "task.yaml"
_SUBMIT_S = 900.0
"""Longest time of a submission [s]: SkyPilot may first start its controller."""
_RANK = "SKYPILOT_JOB_RANK"
_BUCKETS = re.compile(r"(s3|gs|r2|cos|oci|nebius|https?)://|.*\.blob\.core\.windows\.net")
_VOLUME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_INFRA = re.compile(r"k8s(/[A-Za-z0-9][\w.:/@+-]*)?", re.ASCII)
_ACCELERATORS = re.compile(r"[A-Za-z][\w.-]*:([1-9][0-9]{0,2})", re.ASCII)
_IDS = r"[1-9][0-9]{0,9}(?:-[1-9][0-9]{0,9})?(?:,[1-9][0-9]{0,9}(?:-[1-9][0-9]{0,9})?)*"
_SUBMITTED = re.compile(rf"Jobs submitted with IDs: ({_IDS})\.?|Managed Job ID: ({_IDS})")
_ENDED = frozenset(
    ["SUCCEEDED", "CANCELLED", "FAILED", "FAILED_SETUP", "FAILED_PRECHECKS", "FAILED_NO_RESOURCE", "FAILED_CONTROLLER"]
)
_WAITS = frozenset(["PENDING", "SUBMITTED", "STARTING", "RECOVERING"])
_RUNS = frozenset(["RUNNING", "WINDING_DOWN", "CANCELLING"])
_REFUSED = re.compile(
    r"not installed|can't be started|Usage:|Invalid|ValueError|not enabled|not found|No cloud|Could not connect"
)
"""Messages of ``sky jobs launch`` after which nothing was submitted."""

SKY = Program(
    name="sky",
    install="install SkyPilot in an environment of its own, and put its `sky` on the PATH",
    answer_s=180.0,
    environment={"SKYPILOT_DISABLE_USAGE_COLLECTION": "1"},
    ways_out={
        "sky check": "set up access to the infrastructure, and run `sky check`",
        "not enabled": "set up access to the infrastructure, and run `sky check`",
        "API server": "the API server does not answer: run `sky api status`, or try again later",
        "Could not connect": "the API server does not answer: run `sky api status`, or try again later",
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
        """Check what becomes a part of the file.

        Raises:
            ValueError: If a value is refused.
        """
        super().__post_init__()
        if _BUCKETS.match(self.volume):
            raise ValueError(
                f"volume = {self.volume!r}: a mounted bucket can't append to the files of the ledger: give the name of "
                "a volume (see sky volumes ls)"
            )
        require_names("volume", [self.volume], _VOLUME, "give the name of a volume, as `sky volumes ls` prints it")
        require_names(
            "infra", [self.infra], _INFRA, "write k8s or k8s/CONTEXT: volumes that are shared exist there only"
        )
        if self.accelerators is not None:
            require_names("accelerators", [self.accelerators], _ACCELERATORS, "write TYPE:NUMBER, such as L4:1")
        if (self.cpus is not None and self.cpus < 1) or (self.memory_gb is not None and self.memory_gb < 1):
            raise ValueError("cpus and memory_gb must be at least 1")
        for key in self.environment:
            if key.startswith(("LEDGER_LAB_", "SKYPILOT_")):
                raise ValueError(f"environment: {key} is set by the job: leave it out")

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
    type: str
    config: dict[str, object] = {}


class _Job(msgspec.Struct):
    """A managed job."""

    job_id: int | None = None
    job_name: str | None = None
    status: str | None = None
    recovery_count: int | None = None
    infra: str | None = None
    failure_reason: str | None = None


class SkyPilot(Engine):
    """Runs a plan as managed jobs of SkyPilot."""

    name = "skypilot"
    site = SkyPilotSite
    job_id = re.compile(rf"[a-z][a-z0-9-]*:{_IDS}")
    appears_s = _SUBMIT_S  # its server goes on when the client is killed

    def check(self, site: SkyPilotSite, plan: Plan) -> None:
        """Refuse what can't run; see :class:`~ledger_lab.clusters.engine.Engine`."""
        if plan.nodes > 1:
            raise UserError(
                f"--nodes {plan.nodes}: a training runs in one container of SkyPilot: leave --nodes out and raise the "
                "number in accelerators, or use a cluster with Slurm"
            )
        if plan.at_once is not None and plan.at_once < len(plan.trainings):
            raise UserError(
                f"--at_once {plan.at_once}: SkyPilot starts all managed jobs at once: leave --at_once out, or use a "
                "cluster with Slurm or Kubernetes"
            )
        site.require_mounted(f"volume {site.volume}")
        volumes = _read_list(SKY.ask("volumes", "ls", site.volume, "--output=json"), list[_Volume])
        found = next((each for each in volumes if each.name == site.volume), None)
        if found is None:
            raise UserError(
                f"SkyPilot has no volume {site.volume}: make it with `sky volumes apply`, or correct volume"
            )
        if found.type != "k8s-pvc" or found.config.get("access_mode") != "ReadWriteMany":
            raise UserError(
                f"volume {site.volume} is of type {found.type} with access mode {found.config.get('access_mode')}: "
                "several machines can only share a k8s-pvc with ReadWriteMany: use such a volume"
            )

    def files(self, site: SkyPilotSite, plan: Plan, name: str) -> dict[str, str]:
        """Return ``task.yaml`` and ``submit.sh``; see :class:`~ledger_lab.clusters.engine.Engine`."""
        job = unique_name(name, (str(site.log_root), site.volume, plan.sha256))
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
            f"# To submit it by hand, run `bash {SUBMIT_SCRIPT}` in this folder.\n"
            "# A job is started again when its machine is lost, and after exit status "
            f"{EXIT_REQUEUE} (its training can be resumed).\n"
        )
        command = ["sky", "jobs", "launch", "--yes", "--detach-run", f"--num-jobs={len(plan.trainings)}", _FILE]
        return {_FILE: head + yaml_text(task), SUBMIT_SCRIPT: submit_script(_FILE, command)}

    def submit_command(self, folder: Path) -> list[str]:
        """Return the command that submits the files, to run in their folder."""
        return ["bash", SUBMIT_SCRIPT]

    def submit(self, folder: Path) -> str:
        """Submit the files in a folder; see :class:`~ledger_lab.clusters.engine.Engine`."""
        name, count = _name_and_count(folder)
        try:
            said = SKY.ask(*read_submit_script(folder)[1:], cwd=folder, answer_s=_SUBMIT_S)
        except UserError as error:
            if _REFUSED.search(str(error)) or self._lacks(name):
                raise
            raise UnclearSubmissionError(
                f"{error}: jobs may be submitted all the same: {_way_out(name, folder)}"
            ) from (error)
        ids = next((each for found in _SUBMITTED.finditer(said) for each in found.groups() if each), "")
        if not ids or len(_numbers(ids)) != count:
            raise UnclearSubmissionError(
                f"sky printed the ids {ids or 'of no job'} for {count} jobs: {_way_out(name, folder)}"
            )
        return f"{name}:{ids}"

    def _lacks(self, name: str) -> bool:
        """Tell whether SkyPilot answers, and has no job of a name."""
        try:
            return not any(each.job_name == name for each in _all_jobs())
        except UserError:
            return False

    def find(self, folder: Path) -> str | None:
        """Return the id of the jobs of an interrupted call; see :class:`~ledger_lab.clusters.engine.Engine`."""
        name, count = _name_and_count(folder)
        ids = sorted({each.job_id for each in _all_jobs() if each.job_name == name and each.job_id is not None})
        if ids and len(ids) != count:
            raise UserError(f"SkyPilot has {len(ids)} of {count} jobs named {name}: {_way_out(name, folder)}")
        return f"{name}:{','.join(map(str, ids))}" if ids else None

    def queued(self, submission: Submission) -> dict[int, Queued]:
        """Return the trainings that wait or run; see :class:`~ledger_lab.clusters.engine.Engine`."""
        found = {}
        for index, job in _jobs_of(submission).items():
            status = job.status or ""
            if status in _ENDED:
                continue
            if status not in _WAITS | _RUNS:
                raise UserError(f"sky printed the status {status!r}, which LedgerLab does not know: check its version")
            where = f" on {first_line(job.infra)}" if job.infra and job.infra != "-" else ""
            times = f", recovered {job.recovery_count} times" if job.recovery_count else ""
            found[index] = Queued(status in _RUNS, f"{status.lower().replace('_', ' ')}{where}{times}")
        return found

    def ending(self, submission: Submission, index: int) -> str | None:
        """Explain how a training ended; see :class:`~ledger_lab.clusters.engine.Engine`."""
        job = _jobs_of(submission).get(index)
        if job is None or job.status is None:
            return None
        said = [job.status.lower().replace("_", " "), first_line(job.failure_reason)]
        if job.status == "FAILED" and not (submission.folder / "started" / str(index)).exists():
            said.append(
                f"the job wrote nothing into {submission.folder}: the volume must hold the folder that this machine "
                f"sees (sky jobs logs {job.job_id} tells more)"
            )
        return ", ".join(each for each in said if each)

    def cancel_command(self, job: str) -> list[str]:
        """Return the command that cancels a job."""
        return ["sky", "jobs", "cancel", "--yes", *map(str, _numbers(job.rpartition(":")[2]))]

    def cancel(self, submission: Submission) -> None:
        """End all trainings of a submission; see :class:`~ledger_lab.clusters.engine.Engine`."""
        SKY.ask(*self.cancel_command(submission.job)[1:])

    def place(self, environ: Mapping[str, str], index: int, nodes: int) -> Place:
        """Return where this process runs; see :class:`~ledger_lab.clusters.engine.Engine`."""
        try:
            job, addresses = environ["LEDGER_LAB_SKYPILOT_JOB"], environ["SKYPILOT_NODE_IPS"]
        except KeyError as error:
            raise UserError(f"{error.args[0]} is not set: {_FILE} starts this program, in a job of SkyPilot") from error
        return Place(
            SchedulerJob(
                engine=self.name, job=job, index=index, restarts=earlier_parts(environ), nodes=addresses.split()
            )
        )


def _numbers(ids: str) -> list[int]:
    """Return the ids of jobs, from ``1-3,5``, in order."""
    parts = [part.partition("-") for part in ids.split(",")]
    return sorted({each for first, _, last in parts for each in range(int(first), int(last or first) + 1)})


def _name_and_count(folder: Path) -> tuple[str, int]:
    """Return the name of the jobs of a submission, and their number, from its files.

    Raises:
        UserError: If they are missing or were changed.
    """
    counted = re.search(r"--num-jobs=([1-9][0-9]*)", " ".join(read_submit_script(folder)))
    named = re.search(r"^name: ([a-z0-9-]+)$", read_submitted(folder, _FILE), re.MULTILINE)
    if counted is None or named is None:
        raise changed(folder, _FILE if named is None else SUBMIT_SCRIPT)
    return named.group(1), int(counted.group(1))


def _way_out(name: str, folder: Path) -> str:
    """Return what to do when it is unclear which jobs were submitted."""
    return f"look with `sky jobs queue`, cancel the jobs named {name} with `sky jobs cancel ID`, and remove {folder}"


def _read_list[Item](said: str, kind: type[list[Item]]) -> list[Item]:
    """Check a list in JSON, which other messages of ``sky`` may precede."""
    begin = re.search(r"^\[", said, re.MULTILINE)
    return SKY.read(said[begin.start() :] if begin else said, kind)


def _all_jobs() -> list[_Job]:
    """Return all managed jobs."""
    return _read_list(SKY.ask("jobs", "queue", "--all", "--verbose", "--output=json"), list[_Job])


def _jobs_of(submission: Submission) -> dict[int, _Job]:
    """Return the jobs of a submission by index.

    Raises:
        UserError: If SkyPilot does not answer, or knows none of them. They never vanish, so then it is another server.
    """
    name, _, ids = submission.job.rpartition(":")
    known = {each.job_id: each for each in _all_jobs() if each.job_name == name}
    found = {index: known[number] for index, number in enumerate(_numbers(ids)) if number in known}
    if len(found) != len(_numbers(ids)):
        raise UserError(
            f"SkyPilot does not know all jobs {ids} named {name}: use the API server to which they were submitted (see "
            f"sky api info); if it is gone for good, remove {submission.folder}"
        )
    return found


ENGINE = SkyPilot()
