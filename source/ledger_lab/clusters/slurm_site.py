"""The keys of a cluster file for Slurm, and what is refused there."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from ledger_lab.clusters.engine import Site

_GRACE_SHARE = 0.9
"""Share of the time between the signal and the time limit that a training may use."""
_WORD = re.compile(r"[\w.,:/@+-]+")
_OPTION = re.compile(r"--[a-z][a-z-]*(=[\w.,:/@+*&|!()\[\]%=-]+)?")
_OWN = frozenset(
    [
        "account",
        "array",
        "chdir",
        "clusters",
        "cpus-per-task",
        "error",
        "export",
        "gpus-per-node",
        "gpus-per-task",
        "gres",
        "job-name",
        "mem",
        "no-requeue",
        "nodes",
        "ntasks",
        "ntasks-per-node",
        "open-mode",
        "output",
        "partition",
        "requeue",
        "signal",
        "test-only",
        "time",
        "wait",
        "wrap",
    ]
)
"""Options of ``sbatch`` that the script sets itself, or that contradict it."""
_OWN_VARIABLES = frozenset(["index", "last", "now", "status", "step", "task", "time_is_up"])
"""Variables of the script."""
_LONGEST_GRACE_S = 65_535
"""Longest time that Slurm takes for ``--signal`` [s]."""


@dataclass(frozen=True, kw_only=True)
class SlurmSite(Site):
    """Keys of a cluster with Slurm."""

    time: str
    """Time limit of a job, as Slurm writes it."""
    grace_s: int = 120
    """Time before the limit at which the training is asked to save its state and to end [s]."""
    partition: str | None = None
    account: str | None = None
    gpus: int = 0
    """GPUs per node."""
    cpus: int | None = None
    """Processors per node; ``None`` for the default of the cluster."""
    memory: str | None = None
    """Memory per node, as Slurm writes it; ``None`` for the default of the cluster."""
    modules: tuple[str, ...] = ()
    """Modules to load."""
    container: Path | None = None
    """Image for apptainer; ``None`` for none."""
    python: str = field(default_factory=lambda: sys.executable)
    """Python on the nodes, or in the container."""
    options: tuple[str, ...] = ()
    """Further options of ``sbatch``."""

    def __post_init__(self) -> None:
        """Check what becomes a part of the script.

        Raises:
            ValueError: If a value is refused.
        """
        limit_s = slurm_seconds(self.time)
        if not 0 < self.grace_s < limit_s:
            raise ValueError(
                f"grace_s = {self.grace_s}: must be above 0 and below the time limit, time = {self.time!r}"
            )
        if self.grace_s > _LONGEST_GRACE_S:
            raise ValueError(f"grace_s = {self.grace_s}: Slurm takes at most {_LONGEST_GRACE_S}")
        if self.gpus < 0 or (self.cpus is not None and self.cpus < 1):
            raise ValueError("gpus must be at least 0, and cpus at least 1")
        if self.container is not None and not (self.container.is_absolute() and str(self.container).isprintable()):
            raise ValueError(
                f"container = {str(self.container)!r}: give an absolute path that all nodes share, without control "
                "characters"
            )
        if set("%\\") & set(str(self.log_root)):  # Slurm replaces them, and then can't open the output
            raise ValueError(f"log_root = {str(self.log_root)!r}: Slurm takes no '%' and no backslash in it")
        if self.container is not None and set(":,") & set(str(self.log_root)):
            raise ValueError(f"log_root = {str(self.log_root)!r}: apptainer takes no ':' and no ',' in it")
        if not self.python.isprintable() or not self.python.strip():
            raise ValueError(f"python = {self.python!r}: give the path of a program, without control characters")
        for key in self.environment:
            if key in _OWN_VARIABLES or key.startswith(("SLURM_", "LEDGER_LAB_")):
                raise ValueError(f"environment: {key} has a meaning in the batch script: leave it out")
        for key in ("partition", "account", "memory"):
            if (value := getattr(self, key)) is not None and not _WORD.fullmatch(value):
                raise ValueError(f"{key} = {value!r}: use letters, digits and . , : / @ + - _")
        if bad := [each for each in self.modules if not _WORD.fullmatch(each)]:
            raise ValueError(f"modules: {bad[0]!r}: use letters, digits and . , : / @ + - _")
        for option in self.options:
            if not _OPTION.fullmatch(option):
                raise ValueError(f"options: {option!r}: write options like '--qos=normal', without spaces and quotes")
            name = option[2:].partition("=")[0]
            if any(own.startswith(name) for own in _OWN):  # sbatch takes beginnings of names
                raise ValueError(
                    f"options: --{name} is set by LedgerLab or by a key of its own, or contradicts them: leave it out"
                )

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


def slurm_seconds(time: str) -> int:
    """Return a time limit in seconds.

    Args:
        time: ``M``, ``M:S``, ``H:M:S``, ``D-H``, ``D-H:M`` or ``D-H:M:S``.

    Raises:
        ValueError: If it is none of them.
    """
    found = re.fullmatch(r"(?:(\d{1,4})-)?(\d{1,6})(?::(\d{1,2}))?(?::(\d{1,2}))?", time, re.ASCII)
    if found is None:
        raise ValueError(f"time = {time!r}: write it as HOURS:MINUTES:SECONDS or DAYS-HOURS:MINUTES:SECONDS")
    days, *rest = found.groups()
    numbers = [int(each) for each in rest if each is not None]
    if days is not None or len(numbers) == 3:
        hours, minutes, seconds = (*numbers, 0, 0)[:3]
        return int(days or 0) * 86_400 + hours * 3600 + minutes * 60 + seconds
    minutes, seconds = (*numbers, 0)[:2]
    return minutes * 60 + seconds
