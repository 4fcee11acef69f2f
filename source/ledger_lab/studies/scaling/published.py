"""Rates that others published, read from ``config/published``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from ledger_lab.documents import read_toml
from ledger_lab.paths import config_root
from ledger_lab.studies.scaling.laws import RateFit
from ledger_lab.studies.scaling.rates import Kind, Refusal, SizeRates, fit_rate


@dataclass(frozen=True, kw_only=True)
class PublishedStudy:
    """Rates of one task by size. Nobody published single runs, a target, or what the runs cost."""

    task: str
    hardware: str
    """Name of the accelerators, one per process."""
    kind: Kind
    points: tuple[SizeRates, ...]
    """In ascending order of size; at least one."""

    @property
    def rate_law(self) -> RateFit | Refusal:
        """The law of the total rate; or why there is none."""
        return fit_rate(self.kind, [(each.processes, each.fps_total) for each in self.points if each.fps_total])


@dataclass(frozen=True, kw_only=True)
class PublishedMachine:
    """The rate of one task on one accelerator."""

    task: str
    hardware: str
    fps_total: float
    """Environment steps ÷ seconds of training [1/s]."""


@dataclass(frozen=True, kw_only=True)
class Published:
    """All rates of one source."""

    about: str
    source: str
    """Where the rates come from."""
    minibatch_size: int
    """Samples per gradient step of a process."""
    horizon: int
    """Environment steps per iteration and environment."""
    studies: tuple[PublishedStudy, ...]
    machines: tuple[PublishedMachine, ...]

    @property
    def fewest_envs(self) -> int:
        """Fewest environments of a process whose iteration fills one minibatch."""
        return -(-self.minibatch_size // self.horizon)


def read_published(file: Path | None = None) -> Published:
    """Read published rates.

    Args:
        file: The file; by default, the rates that come with LedgerLab.

    Raises:
        OSError: If it can't be read.
        ValueError: If it is wrong.
    """
    found = msgspec.convert(read_toml(file or config_root() / "published" / "l40.toml"), Published)
    for study in found.studies:
        sizes = [point.processes for point in study.points]
        if not sizes or min(sizes) < 1 or sizes != sorted(set(sizes)):
            raise ValueError(f"{study.task}: list each number of processes once, the smallest first")
    return found
