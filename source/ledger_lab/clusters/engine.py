"""The interface of engines: what runs trainings on other machines, or later.

An engine is one module in this folder with an ``ENGINE``, and a name in :data:`ENGINES`. The trainings of a plan go
this way:

1. :meth:`Engine.files` makes the files of a submission, which people can read. It is a pure function.
2. :meth:`Engine.submit` hands them over, and returns the id of the job. If the call is interrupted, the next one finds
   the job by its name, with :meth:`Engine.find`.
3. :meth:`Engine.queued` tells which trainings still wait or run.
4. :meth:`Engine.cancel` ends them.
5. On the node, :mod:`ledger_lab.clusters.planned` carries a training out. :meth:`Engine.place` tells it where it is.
6. :meth:`Engine.ending` explains the end of a training that left no row in the ledger.

All nodes write into one ledger, so collecting results means reading it.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import msgspec

from ledger_lab.clusters.plans import Plan
from ledger_lab.clusters.programs import NoAnswerError, Program
from ledger_lab.clusters.submissions import Submission
from ledger_lab.documents import read_toml
from ledger_lab.errors import UserError, nearest
from ledger_lab.files import config_root
from ledger_lab.ledger import SchedulerJob
from ledger_lab.names import names_a_folder

ENGINES = ("local", "kubernetes", "ray", "skypilot", "slurm")
"""Engines; each is a module of this folder."""

_VERSION = 1
_CLUSTERS = "clusters"
_GRACE_SHARE = 0.9
"""Share of the time between a signal and the kill that a training may use."""


@dataclass(frozen=True, kw_only=True)
class Site:
    """A file in ``config/clusters``: where trainings run. Engines add their own keys."""

    name: str
    """Name of the file."""
    log_root: Path
    """Root of the ledger, which all nodes share."""
    instance: str | None = None
    """Entry of the price file for one node."""
    environment: Mapping[str, str]
    """Environment variables of the trainings."""
    project: Path | None = None
    """Folder of LedgerLab on the nodes, or in their container; ``None`` for that of this machine."""

    @property
    def gpus_per_node(self) -> int:
        """GPUs of each node that a training gets; 0 for none."""
        return 0

    def with_gpus(self, gpus: int) -> Self:
        """Return the site with another number of GPUs per node; a site without GPUs has none to give.

        Args:
            gpus: The number, at least 1.
        """
        return self

    @property
    def arguments(self) -> tuple[str, ...]:
        """Arguments of ``train.py`` that the site sets for each attempt."""
        return ("--log_root", str(self.log_root))


@dataclass(frozen=True, kw_only=True)
class GpuSite(Site):
    """A site whose trainings reserve GPUs, and are asked to end some time before they are killed."""

    gpus: int = 0
    """GPUs per node."""
    grace_s: int = 120
    """Time between the signal and the kill [s]."""

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            ValueError: If one is out of range.
        """
        if self.gpus < 0 or self.grace_s < 1:
            raise ValueError("gpus must be at least 0, and grace_s at least 1")

    @property
    def gpus_per_node(self) -> int:
        """GPUs of each node that a training gets."""
        return self.gpus

    def with_gpus(self, gpus: int) -> Self:
        """Return the site with another number of GPUs per node; see :class:`Site`."""
        return replace(self, gpus=gpus) if self.gpus else self

    @property
    def arguments(self) -> tuple[str, ...]:
        """Arguments of ``train.py`` that the site sets for each attempt."""
        return (*super().arguments, "--grace_s", f"{_GRACE_SHARE * self.grace_s:g}")


@dataclass(frozen=True)
class Queued:
    """A training that waits or runs."""

    runs: bool
    """Whether it runs."""
    said: str
    """Its state in words, for people."""


@dataclass(frozen=True)
class Place:
    """Where a part of a training runs."""

    job: SchedulerJob
    rendezvous: str | None = None
    """Host and port where the processes of several nodes meet; ``None`` for a single node."""
    rendezvous_id: str = ""
    """Names this start among all that may use the port."""


class UnclearSubmissionError(UserError):
    """It is unknown whether a job was submitted; the message says what to do."""


class Engine(ABC):
    """Runs trainings on other machines, or later."""

    name: ClassVar[str]
    """Value of the key ``engine``, and name of its module."""
    site: ClassVar[type[Site]]
    """Keys of its files in ``config/clusters``."""
    program: ClassVar[Program]
    """Runs the commands of its scheduler."""
    appears_s: ClassVar[float] = 60.0
    """How long after an interrupted call its job may still appear, and :meth:`find` does not see it [s]."""

    def target(self, site: Any) -> str:  # noqa: ANN401 - of the class in `site`, here and below
        """Return which cluster it asks, to tell it from others that use the same folder; empty if there is only one."""
        return ""

    @abstractmethod
    def check(self, site: Any, plan: Plan) -> None:  # noqa: ANN401
        """Refuse what can't run, before anything is written.

        Raises:
            UserError: If the engine is not installed, or does not answer, or the plan asks for too much.
        """

    @abstractmethod
    def files(self, site: Any, plan: Plan, name: str) -> dict[str, str]:  # noqa: ANN401
        """Return the files of a submission beside ``plan.jsonl``; a pure function.

        Args:
            site: The site, of the class in :attr:`site`.
            plan: The plan.
            name: Name of the job.

        Returns:
            Content by file name.
        """

    @abstractmethod
    def submit_command(self, submission: Submission) -> list[str]:
        """Return the command that submits the files, to run in their folder."""

    @abstractmethod
    def submit(self, submission: Submission) -> str:
        """Submit the files in the folder, and return the id of the job.

        Raises:
            UnclearSubmissionError: If a job may have been submitted all the same. Then the files must stay, so that the
                next call does not submit the same again.
            UserError: If the engine refuses them; then nothing is submitted.
        """

    @abstractmethod
    def find(self, submission: Submission) -> str | None:
        """Return the id of the job with the name of a submission; ``None`` if there is none.

        Raises:
            UserError: If the engine does not answer, or can't tell.
        """

    def found_after(self, submission: Submission, error: UserError) -> str:
        """Return the id of the job after a call without a clear answer, as the job may be submitted all the same.

        Args:
            submission: The submission.
            error: What went wrong.

        Raises:
            UnclearSubmissionError: If the engine knows no job yet.
            UserError: The error, if it is the answer that there is none.
        """
        if not isinstance(error, NoAnswerError):
            raise error
        with suppress(UserError):
            if job := self.find(submission):
                return job
        raise UnclearSubmissionError(
            f"{error}: the job may be submitted all the same: call again in a minute, and LedgerLab looks for it by "
            f"its name, {submission.job_name}"
        ) from error

    @abstractmethod
    def queued(self, submission: Submission) -> dict[int, Queued]:
        """Return the trainings of a submission that wait or run, by index.

        Raises:
            UserError: If the engine does not answer.
        """

    def ending(self, submission: Submission, index: int) -> str | None:
        """Explain how a training ended that is no longer queued; ``None`` if the engine does not know."""
        return None

    @abstractmethod
    def cancel_command(self, submission: Submission) -> list[str]:
        """Return the command that cancels a job."""

    def cancel(self, submission: Submission) -> None:
        """End all trainings of a submission that wait or run.

        Raises:
            UserError: If the engine does not answer.
        """
        self.program.ask(*self.cancel_command(submission))

    @abstractmethod
    def place(self, environ: Mapping[str, str], index: int, nodes: int) -> Place:
        """Return where this process runs, from the environment variables of the engine; a pure function.

        Args:
            environ: The environment of the process.
            index: Index of the training.
            nodes: Machines of the training.

        Raises:
            UserError: If the engine has not started this process.
        """

    def refuse_nodes(self, plan: Plan, instead: str) -> None:
        """Refuse trainings on several machines.

        Raises:
            UserError: If the plan has any.
        """
        if plan.nodes > 1:
            raise UserError(f"--nodes {plan.nodes}: with {self.name}, a training runs on one machine: {instead}")


def load_engine(name: str) -> Engine:
    """Return an engine by its name in :data:`ENGINES`.

    Raises:
        UserError: If there is no such engine.
    """
    if name not in ENGINES:
        raise UserError(f"engine {name!r}: {nearest(name, ENGINES)}")
    engine: Engine = importlib.import_module(f"ledger_lab.clusters.{name}").ENGINE
    return engine


def variable(environ: Mapping[str, str], name: str) -> str:
    """Return an environment variable that the job of an engine sets.

    Raises:
        UserError: If it is missing: the engine has not started this process.
    """
    if name not in environ:
        raise UserError(f"{name} is not set: the files of a submission start this program, within a job")
    return environ[name]


def load_site(name: str) -> tuple[Engine, Site]:
    """Read the file of a cluster.

    Args:
        name: Name of a file in ``config/clusters``, without its suffix, or path of a ``.toml`` file.

    Returns:
        The engine, and the site, of the engine's own class.

    Raises:
        UserError: If there is no such file, or a key or a value is wrong.
    """
    folder = config_root() / _CLUSTERS
    path = Path(name).expanduser() if name.endswith(".toml") else folder / f"{name}.toml"
    if not path.is_file():
        known = [each.stem for each in folder.glob("*.toml")]
        raise UserError(f"no cluster {name!r}: name a .toml file, or a file in config/clusters: {nearest(name, known)}")
    try:
        return _site(path, read_toml(path))
    except (OSError, ValueError, UserError) as error:
        raise UserError(f"{path}: {error}") from error


def _site(path: Path, content: dict[str, Any]) -> tuple[Engine, Site]:
    """Check the content of a file.

    Raises:
        ValueError: If a key or a value is wrong.
    """
    if not names_a_folder(path.stem):
        raise ValueError("use only letters, digits, '_', '-', '+' and '.' in the name of the file")
    if content.pop("version", None) != _VERSION:
        raise ValueError(f"begin with version = {_VERSION}")
    engine = load_engine(str(content.pop("engine", None)))
    known = {each.name for each in fields(engine.site)} - {"name"}
    if unknown := sorted(content.keys() - known):
        raise ValueError(f"unknown key {unknown[0]!r}: {nearest(unknown[0], [*known, 'version', 'engine'])}")
    site = msgspec.convert(
        {"environment": {}, **content, "name": path.stem}, engine.site, dec_hook=lambda kind, value: kind(value)
    )
    for key, folder in (("log_root", site.log_root), ("project", site.project)):
        if folder is not None and not (folder.is_absolute() and str(folder).isprintable()):
            raise ValueError(f"{key} {str(folder)!r}: give an absolute path that all nodes share")
    return engine, site
