"""Weights & Biases, through its own client. The key, the mode and the host come from its environment variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import wandb

from ledger_lab.errors import UserError, first_line
from ledger_lab.files import make_folder
from ledger_lab.ledger import Run, Status
from ledger_lab.reports.loggers.sink import Batch

_CURSOR = "ledger_lab/cursor"


class WandbSink:
    """A run of W&B with the ledger's run id. With ``WANDB_MODE=offline``, its files are in the run's directory.

    If the network fails, the client stores data and sends it later by itself. The run's configuration holds the number
    of logged rows, and W&B returns it to a client that resumes the run. Offline, each logger writes the whole run.
    """

    def __init__(self, *, project: str = "ledger_lab", dir: Path | None = None) -> None:  # noqa: A002 - the flag's name
        """Store the user's options.

        Args:
            project: Project of W&B.
            dir: Folder for the client's files.
        """
        self._project, self._dir = project, dir

    def open(self, run: Run) -> Mapping[str, int]:
        """Create or resume the run."""
        declared = run.declared
        folder = self._dir or Path(os.environ.get("WANDB_DIR") or run.directory)
        try:
            if folder == run.directory:  # W&B itself would follow a link
                make_folder(folder / "wandb", root=folder)
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot write to --dir {folder}: {error.strerror}") from error
        settings = wandb.Settings(
            silent=True,
            console="off",
            disable_git=True,  # the run's declaration holds its commit; this process's commit would mislead
            disable_code=True,
            disable_job_creation=True,
            x_disable_meta=True,
            x_disable_stats=True,  # they would describe the logger, not the run
            x_save_requirements=False,
        )
        try:
            self._run: Any = wandb.init(
                project=self._project,
                id=declared.run_id,
                name=f"{declared.task} {declared.run_id}",
                group=declared.cohort,
                resume="allow",
                dir=str(folder),
                settings=settings,
            )
        except (wandb.errors.Error, OSError) as error:
            way_out = "set WANDB_API_KEY, or WANDB_MODE=offline and sync the run later"
            raise UserError(f"W&B: {first_line(error)}; {way_out}") from error
        self._cursor: dict[str, int] = dict(self._run.config.get(_CURSOR) or {})
        plain = {key: value for key, value in declared.to_data().items() if key != "panel_fields"}
        self._run.config.update(plain, allow_val_change=True)
        for axis, families in (("iteration", ("train", "phase", "heldout", "total")), ("wall_s", ("telemetry",))):
            self._run.define_metric(axis, hidden=True)
            for family in families:
                self._run.define_metric(f"{family}/*", step_metric=axis)
        return self._cursor

    def send(self, batch: Batch) -> None:
        """Hand the batch to the client."""
        for point in filter(lambda each: each.values, batch.points):
            self._run.log({point.axis: point.step, "_timestamp": point.time.timestamp(), **point.values})
        self._run.summary.update(batch.notes)
        self._run.config.update({_CURSOR: batch.cursor}, allow_val_change=True)

    def close(self, status: Status, time: datetime) -> None:
        """Finish the run, as failed if its status is a failure."""
        self._run.summary.update({"status": str(status), "ended_at": time.isoformat()})
        self._run.finish(exit_code=1 if status.failed else 0)
