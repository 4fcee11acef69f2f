"""Trainings that schedulers were asked about, as plain data: nothing here asks a scheduler."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class QueuedTraining:
    """A submitted training that waits or runs, according to its scheduler."""

    name: str
    """Name of the training in its plan."""
    plan: str
    """Name of the plan: the study, or the script."""
    job: str
    """Id of the job."""
    index: int
    """Index of the training in its plan."""
    runs: bool
    """Whether its job runs."""
    said: str
    """State of the job in words."""
    submitted_at: datetime
    started_at: datetime | None
    """When the latest part of its job started; ``None`` if none has, or it is unknown."""
    run_directory: Path | None
    """Directory of the run that it made; ``None`` if it made none yet."""
    output: Path
    """File with what it printed."""
    cancel: str
    """Command that cancels the job."""
