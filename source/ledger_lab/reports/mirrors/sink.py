"""The data that a mirror sends, and the interface of its destinations."""

from __future__ import annotations

import importlib
import importlib.metadata
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol, cast

from ledger_lab.errors import UserError, nearest
from ledger_lab.ledger import RunDeclared, Status


class SinkUnavailableError(Exception):
    """A destination does not answer at the moment; nothing is lost, as the journals still hold all rows."""


@dataclass(frozen=True)
class RunInfo:
    """Facts about a run that are known before its first figure."""

    declared: RunDeclared
    declared_at: datetime
    run_dir: Path

    @property
    def name(self) -> str:
        """Name to show."""
        return f"{self.declared.task} {self.declared.run_id}"


@dataclass(frozen=True)
class Point:
    """Figures at one time."""

    time: datetime
    axis: Literal["iteration", "wall_s"]
    """What :attr:`step` counts: iterations, or seconds since the attempt began."""
    step: int
    values: dict[str, float]


@dataclass(frozen=True)
class Batch:
    """New data since the last batch."""

    points: tuple[Point, ...]
    notes: dict[str, str]
    """Texts by name, the newest of each name."""
    cursor: dict[str, int]
    """Number of rows of each journal that the destination has after this batch. The destination stores it, so that a
    restarted mirror continues there."""


class Sink(Protocol):
    """A destination. A call that raises :class:`SinkUnavailableError` is repeated."""

    def open(self, facts: RunInfo) -> Mapping[str, int]:
        """Make the destination ready for a run.

        Args:
            facts: The run.

        Returns:
            Number of rows of each journal that it has already.

        Raises:
            UserError: If the destination can't be reached, or refuses the run.
        """
        ...

    def send(self, batch: Batch) -> None:
        """Send a batch.

        Raises:
            SinkUnavailableError: If the destination doesn't answer at the moment.
            UserError: If the destination refuses the batch.
        """
        ...

    def close(self, status: Status, time: datetime) -> None:
        """Send the end of the run.

        Args:
            status: How the run ended.
            time: When the run ended.

        Raises:
            SinkUnavailableError: If the destination doesn't answer at the moment.
            UserError: If the destination refuses the end.
        """
        ...


SINKS = {
    "tensorboard": ("ledger_lab.reports.mirrors.tensorboard_sink", "TensorboardSink", "tensorboard"),
    "wandb": ("ledger_lab.reports.mirrors.wandb_sink", "WandbSink", "wandb"),
    "mlflow": ("ledger_lab.reports.mirrors.mlflow_sink", "MlflowSink", "mlflow-skinny"),
}
"""Destinations by name: module, class, and the distribution that it needs."""


def require_sink(name: str) -> None:
    """Check that a destination exists and that its package is installed.

    Args:
        name: The destination.

    Raises:
        UserError: If the destination doesn't exist, or its package is missing.
    """
    if name not in SINKS:
        raise UserError(f"no mirror {name!r}; {nearest(name, SINKS)}")
    package = SINKS[name][2]
    try:
        importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError as error:
        way_out = f"install it with {shlex.quote(sys.executable)} -m pip install {package}"
        raise UserError(f"the {name} mirror needs the package {package}: {way_out}") from error


def load_sink(name: str, options: Mapping[str, Any]) -> Sink:
    """Return a destination.

    Args:
        name: One of :data:`SINKS`.
        options: The user's options: ``project``, ``uri`` and ``dir``, each of which may be ``None``.

    Raises:
        UserError: If it doesn't exist, or its package is missing.
    """
    require_sink(name)
    module, kind, _ = SINKS[name]
    return cast(Sink, getattr(importlib.import_module(module), kind)(**options))
