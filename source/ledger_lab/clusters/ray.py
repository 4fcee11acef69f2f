"""Ray: a job in the cluster, which makes each training of a plan as a task with resources of its own.

This module does not import Ray. It asks a cluster through :mod:`ledger_lab.clusters.ray_commands`, a process of its
own; :mod:`ledger_lab.clusters.ray_job` is what then runs in the cluster.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from ledger_lab.clusters.engine import Engine, GpuSite, Place, Queued, variable
from ledger_lab.clusters.plans import Plan
from ledger_lab.clusters.programs import AskedInVainError, Program
from ledger_lab.clusters.ray_job import JOB, NODE, PART, QUEUE_S, RayJob
from ledger_lab.clusters.submissions import Submission
from ledger_lab.errors import UserError
from ledger_lab.ledger import SchedulerJob

_FILE = "job.json"
_MOST_GB = 1e9
_ADDRESS = re.compile(r"([A-Za-z0-9._-]+|\[[0-9a-fA-F:.]+\]):[0-9]{1,5}")


@dataclass(frozen=True, kw_only=True)
class RaySite(GpuSite):
    """Keys of a Ray cluster. ``grace_s`` is the time between SIGTERM and SIGKILL when trainings are cancelled."""

    address: str
    """Host and port of the head node."""
    python: str
    """Python with Isaac Lab and LedgerLab on the nodes; that of Ray has no Isaac Lab."""
    cpus: int = 1
    """Processors of a training."""
    memory_gb: float | None = None
    """Memory of a training [GB]; ``None`` to reserve none. Ray does not enforce it."""
    resources: Mapping[str, float] = field(default_factory=dict)
    """Further resources of a training, which the nodes were started with."""
    retries: int = 3
    """How often a training starts again after the system has ended it, or its node is lost."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: If a value is refused.
        """
        super().__post_init__()
        if not _ADDRESS.fullmatch(self.address):
            raise ValueError(
                f"address = {self.address!r}: write HOST:PORT, as `ray start --head` prints it; ray:// and http:// are "
                "not supported"
            )
        if self.cpus < 1 or self.retries < 0:
            raise ValueError("cpus must be at least 1, and retries at least 0")
        if self.memory_gb is not None and not 0 < self.memory_gb < _MOST_GB:
            raise ValueError(f"memory_gb = {self.memory_gb:g}: must be above 0, and below {_MOST_GB:g}")


RAY = Program(
    name="Ray",
    install="start LedgerLab with the Python of an environment with ledger_lab[ray]",
    answer_s=60.0,
    ways_out={"InvalidAuthToken": "the cluster has another token: see RAY_AUTH_TOKEN_PATH"},
    unclear=None,
)
"""Asks a cluster through :mod:`~ledger_lab.clusters.ray_commands`."""


def _command(*arguments: str) -> list[str]:
    """Return the command that asks a cluster."""
    return [sys.executable, "-P", "-m", "ledger_lab.clusters.ray_commands", *arguments]


class Ray(Engine):
    """Runs a plan as a job in a Ray cluster."""

    name = "ray"
    site = RaySite
    program = RAY

    def target(self, site: RaySite) -> str:
        """Return the address; see :class:`~ledger_lab.clusters.engine.Engine`."""
        return site.address

    def check(self, site: RaySite, plan: Plan) -> None:
        """Refuse what can't run; see :class:`~ledger_lab.clusters.engine.Engine`."""
        self.refuse_nodes(plan, "leave --nodes out, or use Slurm")
        RAY.ask(*_command("check", site.address))

    def files(self, site: RaySite, plan: Plan, name: str) -> dict[str, str]:
        """Return ``job.json``; see :class:`~ledger_lab.clusters.engine.Engine`."""
        job = RayJob(
            address=site.address,
            name=name,
            trainings=len(plan.trainings),
            at_once=plan.at_once,
            retries=site.retries,
            grace_s=site.grace_s,
            command=[site.python, "-P", "-m", "ledger_lab.clusters.planned", self.name],
            plan_sha256=plan.sha256,
            cpus=site.cpus,
            gpus=site.gpus,
            memory_bytes=None if site.memory_gb is None else round(site.memory_gb * 1e9),
            resources=dict(site.resources),
            environment=dict(site.environment),
        )
        return {_FILE: msgspec.json.format(msgspec.json.encode(job), indent=2).decode() + "\n"}

    def submit_command(self, submission: Submission) -> list[str]:
        """Return the command that submits the files, to run in their folder."""
        return _command("submit", _FILE)

    def submit(self, submission: Submission) -> str:
        """Submit the files in the folder; see :class:`~ledger_lab.clusters.engine.Engine`."""
        try:
            RAY.ask(*self.submit_command(submission), cwd=submission.folder)
        except UserError as error:
            return self.found_after(submission, error)
        return _job_of(submission)

    def find(self, submission: Submission) -> str | None:
        """Return the id of the job; see :class:`~ledger_lab.clusters.engine.Engine`."""
        made = _job_of(submission)
        started = any((submission.folder / "started").iterdir())  # a job that has ended has no states
        return made if started or RAY.ask(*_command("states", made)).strip() != "null" else None

    def queued(self, submission: Submission) -> dict[int, Queued]:
        """Return the trainings that wait or run; see :class:`~ledger_lab.clusters.engine.Engine`."""
        try:
            said = RAY.ask(*_command("states", _job_of(submission)))
        except AskedInVainError as error:
            raise AskedInVainError(
                f"{error}; if this cluster has ended for good, remove {submission.folder}"
            ) from error
        states = RAY.read(said, dict[int, tuple[bool, str]] | None) or {}  # type: ignore[arg-type]
        return {index: Queued(*state) for index, state in states.items()}

    def cancel_command(self, submission: Submission) -> list[str]:
        """Return the command that cancels a job."""
        return _command("cancel", _job_of(submission))

    def place(self, environ: Mapping[str, str], index: int, nodes: int) -> Place:
        """Return where this process runs; see :class:`~ledger_lab.clusters.engine.Engine`."""
        return Place(
            job=SchedulerJob(
                engine=self.name,
                job=variable(environ, JOB),
                index=index,
                restarts=int(variable(environ, PART)),
                nodes=[variable(environ, NODE)],
                queue_s=float(variable(environ, QUEUE_S)),
            )
        )


def _job_of(submission: Submission) -> str:
    """Return the id of the job of a submission, ``ADDRESS/NAME``."""
    return f"{submission.target}/{submission.job_name}"


ENGINE = Ray()
