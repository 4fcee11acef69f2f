"""Ray: a job in the cluster, which makes each training of a plan as a task with resources of its own.

This module does not import Ray. It asks a cluster through :mod:`ledger_lab.clusters.ray_commands`, a process of its
own; :mod:`ledger_lab.clusters.ray_job` is what then runs in the cluster.
"""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import msgspec

from ledger_lab.clusters.engine import Engine, Place, Queued, Site, UnclearSubmissionError
from ledger_lab.clusters.plans import Plan
from ledger_lab.clusters.programs import AskedInVainError, NoAnswerError, changed, read_submitted
from ledger_lab.clusters.ray_job import JOB, NODE, PART, QUEUE_S, RayJob
from ledger_lab.clusters.submissions import Submission
from ledger_lab.errors import UserError
from ledger_lab.ledger import SchedulerJob

_FILE = "job.json"
_ANSWER_S = 60.0
"""Longest time in which a cluster answers [s]."""
_GRACE_SHARE = 0.9
"""Share of the time between SIGTERM and SIGKILL that a training may use."""
_ADDRESS = re.compile(r"([A-Za-z0-9._-]+|\[[0-9a-fA-F:.]+\]):[0-9]{1,5}")
_RESOURCE = re.compile(r"[A-Za-z][\w.:-]*")
_OWN_RESOURCES = frozenset(["CPU", "GPU", "memory", "object_store_memory"])
_OWN_VARIABLES = ("RAY_", "LEDGER_LAB_", "CUDA_VISIBLE_DEVICES")
"""Beginnings of environment variables that Ray and this engine set."""


@dataclass(frozen=True, kw_only=True)
class RaySite(Site):
    """Keys of a Ray cluster."""

    address: str
    """Host and port of the head node."""
    python: str
    """Python with Isaac Lab and LedgerLab on the nodes; that of Ray has no Isaac Lab."""
    gpus: int = 0
    """GPUs of a training."""
    cpus: int = 1
    """Processors of a training."""
    memory_gb: float | None = None
    """Memory of a training [GB]; ``None`` to reserve none. Ray does not enforce it."""
    resources: Mapping[str, float] = field(default_factory=dict)
    """Further resources of a training, which the nodes were started with."""
    retries: int = 3
    """How often a training starts again after the system has ended it, or its node is lost."""
    grace_s: int = 120
    """Time between SIGTERM and SIGKILL when trainings are cancelled [s]."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: If a value is refused.
        """
        if not _ADDRESS.fullmatch(self.address) or int(self.address.rpartition(":")[2]) > 65_535:
            raise ValueError(
                f"address = {self.address!r}: write HOST:PORT, as `ray start --head` prints it; ray:// and http:// are "
                "not supported"
            )
        if not self.python.isprintable() or not self.python.strip():
            raise ValueError(f"python = {self.python!r}: give the path of a program, without control characters")
        if self.gpus < 0 or self.cpus < 1 or self.retries < 0 or self.grace_s < 1:
            raise ValueError("gpus and retries must be at least 0, and cpus and grace_s at least 1")
        if self.memory_gb is not None and not 0.0 < self.memory_gb < math.inf:
            raise ValueError(f"memory_gb = {self.memory_gb}: must be above 0")
        for name, amount in self.resources.items():
            if not _RESOURCE.fullmatch(name) or name in _OWN_RESOURCES:
                raise ValueError(f"resources: {name!r} has a key of its own, or is no name of a resource")
            if not 0.0 < amount < math.inf or (amount > 1.0 and amount != int(amount)):
                raise ValueError(f"resources: {name} = {amount}: Ray takes fractions below 1 and whole numbers")
        for name in self.environment:
            if name.startswith(_OWN_VARIABLES):
                raise ValueError(f"environment: {name} is set by Ray or LedgerLab: leave it out")

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


class Ray(Engine):
    """Runs a plan as a job in a Ray cluster."""

    name = "ray"
    site = RaySite
    job_id = re.compile(_ADDRESS.pattern + r"/ledger_lab-[\w.+-]+")

    def check(self, site: RaySite, plan: Plan) -> None:
        """Refuse what can't run; see :class:`~ledger_lab.clusters.engine.Engine`."""
        if plan.nodes > 1:
            raise UserError(
                f"--nodes {plan.nodes}: with Ray, a training runs on one node: leave --nodes out, or use Slurm"
            )
        _ask_ray("check", site.address)

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

    def submit_command(self, folder: Path) -> list[str]:
        """Return the command that submits the files, to run in their folder."""
        return _command("submit", _FILE)

    def submit(self, folder: Path) -> str:
        """Submit the files in a folder; see :class:`~ledger_lab.clusters.engine.Engine`."""
        made = _job_id(folder)
        try:
            _ask_ray("submit", _FILE, cwd=folder)
        except NoAnswerError as error:
            raise UnclearSubmissionError(
                f"{error}: the job may be submitted all the same: call again, and LedgerLab looks for it by its name, "
                f"{made.rpartition('/')[2]}"
            ) from error
        return made

    def find(self, folder: Path) -> str | None:
        """Return the id of the job of an interrupted call; see :class:`~ledger_lab.clusters.engine.Engine`."""
        made = _job_id(folder)
        started = any((folder / "started").iterdir())  # a job that has ended has no states
        return made if started or _ask_ray("states", made).strip() != b"null" else None

    def queued(self, submission: Submission) -> dict[int, Queued]:
        """Return the trainings that wait or run; see :class:`~ledger_lab.clusters.engine.Engine`."""
        try:
            said = _ask_ray("states", submission.job)
        except AskedInVainError as error:
            raise AskedInVainError(
                f"{error}; if this cluster has ended for good, remove {submission.folder}"
            ) from error
        try:
            states = msgspec.json.decode(said, type=dict[int, tuple[bool, str]] | None)
        except msgspec.MsgspecError as error:  # a training that is missed here would be submitted again
            raise UserError(f"Ray's client answered {said[:80]!r}, which LedgerLab does not understand") from error
        return {index: Queued(*state) for index, state in (states or {}).items()}

    def ending(self, submission: Submission, index: int) -> str | None:
        """Explain how a training ended; see :class:`~ledger_lab.clusters.engine.Engine`."""
        return None

    def cancel_command(self, job: str) -> list[str]:
        """Return the command that cancels a job."""
        return _command("cancel", job)

    def cancel(self, submission: Submission) -> None:
        """End all trainings of a submission; see :class:`~ledger_lab.clusters.engine.Engine`."""
        _ask_ray("cancel", submission.job)

    def place(self, environ: Mapping[str, str], index: int, nodes: int) -> Place:
        """Return where this process runs; see :class:`~ledger_lab.clusters.engine.Engine`."""
        if missing := [name for name in (JOB, PART, NODE, QUEUE_S) if name not in environ]:
            raise UserError(f"{missing[0]} is not set: Ray starts this program, as a task of a job")
        return Place(
            job=SchedulerJob(
                engine=self.name,
                job=environ[JOB],
                index=index,
                restarts=int(environ[PART]),
                nodes=[environ[NODE]],
                queue_s=float(environ[QUEUE_S]),
            )
        )


def _job_id(folder: Path) -> str:
    """Return the id of the job of a submission, ``ADDRESS/NAME``, from its file.

    Raises:
        UserError: If it is missing or was changed.
    """
    try:
        job = RayJob.from_json(read_submitted(folder, _FILE))
    except ValueError as error:
        raise changed(folder, _FILE) from error
    made = f"{job.address}/{job.name}"
    if not Ray.job_id.fullmatch(made):
        raise changed(folder, _FILE)
    return made


def _command(*arguments: str) -> list[str]:
    """Return the command that asks a cluster."""
    return [sys.executable, "-P", "-m", "ledger_lab.clusters.ray_commands", *arguments]


def _ask_ray(*arguments: str, cwd: Path | None = None) -> bytes:
    """Ask a cluster, and return its answer.

    Args:
        arguments: Those of :mod:`~ledger_lab.clusters.ray_commands`.
        cwd: Where to run it; ``None`` for here.

    Raises:
        UserError: If Ray is not installed, does not answer, or refuses.
    """
    command = _command(*arguments)
    try:
        finished = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_ANSWER_S, cwd=cwd)
    except subprocess.TimeoutExpired as error:
        raise NoAnswerError(
            f"Ray does not answer within {_ANSWER_S:g} s: look at the cluster with `ray status`, and try again"
        ) from error
    if finished.returncode:
        raise AskedInVainError(_read_refusal(finished.stderr.decode(errors="replace"), finished.returncode))
    return finished.stdout


def _read_refusal(said: str, status: int) -> str:
    """Return in one line why a cluster refused, from the errors of :mod:`~ledger_lab.clusters.ray_commands`."""
    errors = re.findall(r"^error: (.+)$", said, re.MULTILINE)
    if not errors:
        last = next((line for line in reversed(said.splitlines()) if re.search(r"\w", line)), "nothing")
        return f"Ray's client ended with status {status} and said: {last.strip()}"
    token = ": the cluster has another token: see RAY_AUTH_TOKEN_PATH" if "InvalidAuthToken" in said else ""
    return f"{errors[-1]}{token}"


ENGINE = Ray()
