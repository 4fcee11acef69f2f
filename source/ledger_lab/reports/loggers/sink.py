"""The data that a logger sends, its destinations, and how loggers are started."""

from __future__ import annotations

import importlib.util
import pkgutil
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol, cast

from ledger_lab.errors import UserError, nearest
from ledger_lab.files import appended_file
from ledger_lab.ledger import Run, Status


class SinkUnavailableError(Exception):
    """A destination does not answer at the moment; nothing is lost, as the journals still hold all rows."""


Axis = Literal["iteration", "wall_s"]


@dataclass(frozen=True)
class Point:
    """Figures and texts at one time."""

    time: datetime
    axis: Axis
    """What :attr:`step` counts: iterations, or seconds since the run began."""
    step: int
    values: dict[str, float]
    notes: dict[str, str]


@dataclass(frozen=True)
class Batch:
    """New data since the last batch."""

    points: tuple[Point, ...]
    cursor: dict[str, int]
    """Number of rows of each journal that the destination has after this batch. The destination stores it, so that a
    restarted logger continues there."""

    @property
    def notes(self) -> dict[str, str]:
        """Texts by name, the newest of each name."""
        return {name: text for point in self.points for name, text in point.notes.items()}


class Sink(Protocol):
    """A destination. A call that raises :class:`SinkUnavailableError` is repeated."""

    def open(self, run: Run) -> Mapping[str, int]:
        """Make the destination ready for a run.

        Args:
            run: The run.

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


@dataclass(frozen=True)
class Destination:
    """A kind of dashboard."""

    sink: str
    """Class of its sink, as ``module:name``."""
    package: str
    """The distribution that it needs."""
    options: tuple[str, ...]
    """Flags of ``log_run.py`` that it takes, which are the arguments of its sink."""


SINKS = {
    "tensorboard": Destination(f"{__package__}.tensorboard_sink:TensorboardSink", "tensorboard", ("dir",)),
    "wandb": Destination(f"{__package__}.wandb_sink:WandbSink", "wandb", ("project", "dir")),
    "mlflow": Destination(f"{__package__}.mlflow_sink:MlflowSink", "mlflow-skinny", ("project", "uri")),
}
"""Destinations by name."""


def require_loggers(names: Iterable[str]) -> None:
    """Check that destinations exist and that their packages are installed.

    Args:
        names: Destinations.

    Raises:
        UserError: If a destination doesn't exist, or its package is missing.
    """
    for name in names:
        if name not in SINKS:
            raise UserError(f"no logger {name!r}; {nearest(name, SINKS)}")
        package = SINKS[name].package
        if importlib.util.find_spec(package.partition("-")[0]) is None:
            way_out = f"install it with {shlex.quote(sys.executable)} -m pip install {package}"
            raise UserError(f"the {name} logger needs the package {package}: {way_out}")


def load_sink(name: str, given: Mapping[str, Any]) -> Sink:
    """Return a destination.

    Args:
        name: One of :data:`SINKS`.
        given: The options ``project``, ``uri`` and ``dir``, as far as the user has given them.

    Raises:
        UserError: If it doesn't exist, its package is missing, or an option has no meaning for it.
    """
    require_loggers([name])
    destination = SINKS[name]
    if ignored := [f"--{option}" for option in given if option not in destination.options]:
        known = " and ".join(f"--{option}" for option in destination.options)
        raise UserError(f"{' and '.join(ignored)} cannot be used with --to {name}: it takes {known}")
    return cast(Sink, pkgutil.resolve_name(destination.sink)(**given))


def start_loggers(run_dir: Path, names: Iterable[str]) -> None:
    """Start loggers of a run as independent processes.

    Each is detached into a session of its own, so that neither Ctrl-C nor the end of the run's processes ends it, and
    its processor time is not counted for the run. Where the system ends all processes with the main one, as in a
    container, it may miss the last rows. Its output goes to ``logger-<name>.log`` in the run's directory.

    Args:
        run_dir: The run's directory, with a journal that declares the run.
        names: Destinations.
    """
    for name in dict.fromkeys(names):
        with appended_file(run_dir / f"logger-{name}.log") as log:
            command = [sys.executable, "-m", "ledger_lab.reports.loggers.program", str(run_dir), "--to", name]
            subprocess.run(
                ["setsid", "--fork", *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=True,
                start_new_session=True,  # setsid detaches only after a fork; a signal could arrive before
            )
