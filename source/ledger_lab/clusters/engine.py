"""The interface of engines: what runs trainings on other machines, or later.

An engine is one module in this folder with an ``ENGINE``, and a name in :data:`ENGINES`. The trainings of a plan go
this way:

1. :meth:`Engine.files` makes the files of a submission, which people can read. It is a pure function.
2. :meth:`Engine.submit` hands them over, and returns the id of the job. If the program is killed before it has noted
   the id, the next call finds the job with :meth:`Engine.find`.
3. :meth:`Engine.queued` tells which trainings still wait or run.
4. :meth:`Engine.cancel` ends them.
5. On the node, :mod:`ledger_lab.clusters.planned` carries a training out. :meth:`Engine.place` tells it where it is.
6. :meth:`Engine.ending` explains the end of a training that left no row in the ledger.

All nodes write into one ledger, so collecting results means reading it.
"""

from __future__ import annotations

import importlib
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Self

import msgspec

from ledger_lab.clusters.plans import Plan
from ledger_lab.clusters.submission_folders import job_name
from ledger_lab.clusters.submissions import Submission
from ledger_lab.documents import read_toml
from ledger_lab.errors import UserError, nearest
from ledger_lab.ledger import SchedulerJob
from ledger_lab.names import names_a_folder
from ledger_lab.paths import config_root

ENGINES = ("local", "kubernetes", "ray", "skypilot", "slurm")
"""Engines; each is a module of this folder."""

_VERSION = 1
_OF_BASH = frozenset(["BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "PWD", "SHELLOPTS", "UID"])
"""Environment variables that bash sets itself; a script can't set them, or loses its way with them."""
_CLUSTERS = "clusters"


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
    """It is unknown whether a job was submitted, or one was and can't be cancelled; the message says what to do."""


class Engine(ABC):
    """Runs trainings on other machines, or later."""

    name: ClassVar[str]
    """Value of the key ``engine``, and name of its module."""
    site: ClassVar[type[Site]]
    """Keys of its files in ``config/clusters``."""
    job_id: ClassVar[re.Pattern[str]]
    """What an id of a job looks like."""
    appears_s: ClassVar[float] = 0.0
    """How long after an interrupted call its job may still appear, and :meth:`find` does not see it [s]."""

    @abstractmethod
    def check(self, site: Any, plan: Plan) -> None:
        """Refuse what can't run, before anything is written.

        Raises:
            UserError: If the engine is not installed, or does not answer, or the plan asks for too much.
        """

    @abstractmethod
    def files(self, site: Any, plan: Plan, name: str) -> dict[str, str]:
        """Return the files of a submission beside ``plan.jsonl``; a pure function.

        Args:
            site: The site, of the class in :attr:`site`.
            plan: The plan.
            name: Name of the job.

        Returns:
            Content by file name.
        """

    @abstractmethod
    def submit_command(self, folder: Path) -> list[str]:
        """Return the command that submits the files, to run in their folder."""

    @abstractmethod
    def submit(self, folder: Path) -> str:
        """Submit the files in a folder, and return the id of the job.

        Raises:
            UnclearSubmissionError: If a job may have been submitted all the same. Then the files must stay, so that the
                next call does not submit the same again.
            UserError: If the engine refuses them; then nothing is submitted.
        """

    def find(self, folder: Path) -> str | None:
        """Return the id of the job of a submission whose call was interrupted; ``None`` if the engine has no such job.

        Args:
            folder: Folder of the submission; :func:`~ledger_lab.clusters.submission_folders.job_name` tells the name of
                the job.

        Raises:
            UserError: If the engine does not answer, or can't tell.
        """
        raise UserError(
            f"{folder}: an earlier call was interrupted while it submitted this: look for the job {job_name(folder)}, "
            "cancel it, and remove the folder"
        )

    def cluster(self) -> str | None:
        """Return the name that the cluster gives itself, to tell it from others that use the same folder.

        Returns:
            The name; ``None`` if the engine has none.

        Raises:
            UserError: If the engine does not answer.
        """
        return None

    @abstractmethod
    def queued(self, submission: Submission) -> dict[int, Queued]:
        """Return the trainings of a submission that wait or run, by index.

        Raises:
            UserError: If the engine does not answer.
        """

    @abstractmethod
    def ending(self, submission: Submission, index: int) -> str | None:
        """Explain how a training ended that is no longer queued; ``None`` if the engine does not know."""

    @abstractmethod
    def cancel_command(self, job: str) -> list[str]:
        """Return the command that cancels a job."""

    @abstractmethod
    def cancel(self, submission: Submission) -> None:
        """End all trainings of a submission that wait or run.

        Raises:
            UserError: If the engine does not answer.
        """

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


def load_engine(name: str) -> Engine:
    """Return an engine by its name in :data:`ENGINES`.

    Raises:
        UserError: If there is no such engine.
    """
    if name not in ENGINES:
        raise UserError(f"engine {name!r}: {nearest(name, ENGINES)}")
    engine: Engine = importlib.import_module(f"ledger_lab.clusters.{name}").ENGINE
    return engine


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
        content = read_toml(path)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} can't be read: {error}") from error
    return _site(path, content)


def _site(path: Path, content: dict[str, Any]) -> tuple[Engine, Site]:
    """Check the content of a file."""
    if not names_a_folder(path.stem):
        raise UserError(f"{path}: use only letters, digits, '_', '-', '+' and '.' in the name of the file")
    if content.pop("version", None) != _VERSION:
        raise UserError(f"{path}: begin with version = {_VERSION}")
    chosen = content.pop("engine", None)
    try:
        engine = load_engine(str(chosen))
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    known = {each.name for each in fields(engine.site)} - {"name"}
    if unknown := sorted(content.keys() - known):
        raise UserError(f"{path}: unknown key {unknown[0]!r}: {nearest(unknown[0], [*known, 'version', 'engine'])}")
    try:
        site = msgspec.convert(
            {"environment": {}, **content, "name": path.stem}, engine.site, dec_hook=lambda kind, value: kind(value)
        )
    except msgspec.ValidationError as error:
        raise UserError(f"{path}: {error}") from error
    for name, folder in (("log_root", site.log_root), ("project", site.project)):
        require_one_line(path, name, str(folder or ""))
    if not site.log_root.is_absolute():
        raise UserError(f"{path}: log_root {str(site.log_root)!r}: give an absolute path that all nodes share")
    if site.project is not None and not site.project.is_absolute():
        raise UserError(f"{path}: project {str(site.project)!r}: give an absolute path")
    for name, value in site.environment.items():
        if not name.isidentifier() or not name.isascii():
            raise UserError(f"{path}: environment: {name!r} is not the name of an environment variable")
        if name in _OF_BASH:
            raise UserError(f"{path}: environment: bash sets {name} itself: leave it out")
        require_one_line(path, f"environment.{name}", value)
    return engine, site


def require_one_line(path: Path | str, key: str, value: str) -> None:
    """Refuse a text of several lines, or with control characters.

    Args:
        path: File that holds it.
        key: Its key.
        value: The text.

    Raises:
        UserError: If it has any.
    """
    if not value.isprintable():
        raise UserError(f"{path}: {key}: {value!r} holds a line break or a control character: remove it")
