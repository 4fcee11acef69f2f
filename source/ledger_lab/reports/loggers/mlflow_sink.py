"""MLflow, through its own client. Addresses, secrets and certificates come from the client's environment variables."""

from __future__ import annotations

import json
import os
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # otherwise the client reports its use to its makers
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")  # the logger itself retries, and prints it
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "30")

from mlflow.entities import Metric, Param, RunTag
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from ledger_lab.errors import UserError
from ledger_lab.ledger import Run, Status
from ledger_lab.reports.loggers.sink import Batch, SinkUnavailableError

_RUN_TAG, _CURSOR_TAG = "ledger_lab.run_id", "ledger_lab.cursor"

_KILLED = (Status.INTERRUPTED, Status.PREEMPTED, Status.KILLED, Status.STOPPED, Status.LIMIT_REACHED)
_STATUS = {
    Status.RUNNING: "RUNNING",
    **dict.fromkeys((Status.COMPLETED, Status.TARGET_REACHED), "FINISHED"),
    **dict.fromkeys(_KILLED, "KILLED"),
}
"""MLflow's status for each of ours; a status missing here is FAILED. The tag ``status`` holds the ledger's own."""


class MlflowSink:
    """A run of MLflow, which a tag with the ledger's run id identifies.

    Another tag, written last, holds the number of logged rows. After a broken connection, the batch is sent again,
    and MLflow stores a repeated point once.
    """

    def __init__(self, *, project: str = "ledger_lab", uri: str | None = None) -> None:
        """Store the user's options.

        Args:
            project: Name of the experiment.
            uri: Address of the tracking server; ``MLFLOW_TRACKING_URI`` by default.

        Raises:
            UserError: If the address is missing or invalid, or the command line holds a password.
        """
        address = uri or os.environ.get("MLFLOW_TRACKING_URI")
        if not address:
            raise UserError("MLflow: no server: set MLFLOW_TRACKING_URI, or name one with --uri")
        parts = urllib.parse.urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UserError("MLflow: give the address of the server in the form http://host:5000")
        if uri is not None and parts.password:
            raise UserError(
                "--uri holds a password, which all users of this machine can read: set MLFLOW_TRACKING_USERNAME and "
                "MLFLOW_TRACKING_PASSWORD"
            )
        self._experiment = project
        self._shown = f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}"
        self._client = MlflowClient(tracking_uri=address)

    def open(self, run: Run) -> Mapping[str, int]:
        """Create or find experiment and run."""
        declared = run.declared
        if "'" in declared.run_id:  # a filter expression quotes it
            raise UserError(f"MLflow: a run id can't hold a quote: {declared.run_id!r}")
        try:
            with self._errors():
                experiment = self._client.get_experiment_by_name(self._experiment)
                folder = experiment.experiment_id if experiment else self._client.create_experiment(self._experiment)
                named = f"tags.\"{_RUN_TAG}\" = '{declared.run_id}'"
                if found := self._client.search_runs([folder], filter_string=named, max_results=1):
                    self._run_id: str = found[0].info.run_id
                    self._client.update_run(self._run_id, "RUNNING")
                    cursor = json.loads(found[0].data.tags.get(_CURSOR_TAG, "{}"))
                    return {str(name): int(rows) for name, rows in cursor.items()}
                began_ms, title = _milliseconds(run.declared_at), f"{declared.task} {run.run_id}"
                created = self._client.create_run(folder, began_ms, {_RUN_TAG: declared.run_id}, run_name=title)
                self._run_id = created.info.run_id
                self._client.log_batch(self._run_id, params=[Param(*each) for each in _flat(declared.to_data())])
                return {}
        except SinkUnavailableError as error:
            raise UserError(str(error)) from error

    def send(self, batch: Batch) -> None:
        """Send the batch; the last request stores the number of logged rows."""
        metrics = [
            Metric(name, value, _milliseconds(point.time), point.step)
            for point in batch.points
            for name, value in point.values.items()
        ]
        notes = [RunTag(name, text) for name, text in batch.notes.items()]
        with self._errors():
            self._client.log_batch(self._run_id, metrics=metrics, tags=notes)
            self._client.set_tag(self._run_id, _CURSOR_TAG, json.dumps(batch.cursor))

    def close(self, status: Status, time: datetime) -> None:
        """Send the end of the run."""
        theirs = _STATUS.get(status, "FAILED")
        with self._errors():
            self._client.set_tag(self._run_id, "status", str(status))
            if status is Status.RUNNING:
                self._client.update_run(self._run_id, theirs)
            else:
                self._client.set_terminated(self._run_id, theirs, _milliseconds(time))

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn errors of the client into LedgerLab's. The client's texts may contain the address with a password.

        Raises:
            SinkUnavailableError: If the server does not answer, or reports an error of its own.
            UserError: If the server refuses the request.
        """
        try:
            yield
        except MlflowException as error:
            code = error.get_http_status_code()
            if code >= 500 or code == 429:
                raise SinkUnavailableError(f"MLflow at {self._shown} does not answer") from error
            way_out = "; set MLFLOW_TRACKING_TOKEN" if code in (401, 403) else ""
            raise UserError(f"MLflow at {self._shown} refuses ({error.error_code}){way_out}") from error


def _flat(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield a declaration as names and texts, without the fields of the panel's identity."""
    for key, value in data.items():
        if key == "panel_fields":
            continue
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        elif value is not None:
            yield f"{prefix}{key}", value if isinstance(value, str) else json.dumps(value)


def _milliseconds(time: datetime) -> int:
    """Return a time in milliseconds since 1970, as MLflow counts."""
    return int(time.timestamp() * 1000)
