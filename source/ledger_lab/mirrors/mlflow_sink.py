"""MLflow, by its documented REST API, as MLflow's own client needs package versions that conflict with other libraries.

https://mlflow.org/docs/latest/api_reference/rest-api.html
"""

from __future__ import annotations

import json
import os
import urllib.parse
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import requests

from ledger_lab.errors import UserError
from ledger_lab.ledger import Status
from ledger_lab.mirrors.sink import Batch, RunFacts, SinkUnavailableError

_RUN_TAG, _CURSOR_TAG = "ledger_lab.run_id", "ledger_lab.cursor"

_METRICS, _PARAMS, _TAGS = 900, 90, 90
"""Largest numbers of metrics, parameters and tags in a request; the API allows 1000, 100 and 100, and 1000 in all."""

_TEXT = 5000
"""Longest value of a tag that every MLflow store accepts [bytes]."""

_PARAM_TEXT = 500
"""Longest value of a parameter that every MLflow store accepts [bytes]."""

_TIMEOUT_S = (5.0, 30.0)
"""Timeouts for connecting, and between two bytes of an answer [s]."""

_STATUS = {
    Status.COMPLETED: "FINISHED",
    Status.TARGET_REACHED: "FINISHED",
    Status.RUNNING: "RUNNING",
    Status.INTERRUPTED: "KILLED",
    Status.PREEMPTED: "KILLED",
    Status.KILLED: "KILLED",
    Status.STOPPED: "KILLED",
}
"""MLflow's status for each of ours; a status missing here is FAILED. The tag ``status`` holds the ledger's own."""


class MlflowSink:
    """A run of MLflow, found again by a tag with the ledger's run id.

    Another tag, written last, says how far the run is mirrored. A batch that a broken connection cut off is sent again;
    MLflow stores a repeated point once.
    """

    def __init__(self, *, project: str | None, uri: str | None, dir: Path | None) -> None:  # noqa: A002 - the flag's name
        """Take what the user chose.

        Args:
            project: Name of the experiment.
            uri: Address of the tracking server; ``MLFLOW_TRACKING_URI`` by default.
            dir: Not for MLflow.

        Raises:
            UserError: If the address is missing or invalid, or the command line holds a password.
        """
        if dir is not None:
            raise UserError("--dir is not for MLflow: --uri or MLFLOW_TRACKING_URI names its server")
        address = uri or os.environ.get("MLFLOW_TRACKING_URI")
        if not address:
            raise UserError("MLflow: no server: set MLFLOW_TRACKING_URI, or name one with --uri")
        parts = urllib.parse.urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UserError("MLflow: the address of the server must be like http://host:5000")
        if uri is not None and parts.password:
            raise UserError(
                "--uri holds a password, which everybody on this machine can read: set MLFLOW_TRACKING_USERNAME and "
                "MLFLOW_TRACKING_PASSWORD"
            )
        self._experiment = project or "ledger_lab"
        self._api = f"{address.rstrip('/')}/api/2.0/mlflow"
        self._shown = f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}"
        self._session = requests.Session()
        if token := os.environ.get("MLFLOW_TRACKING_TOKEN"):
            self._session.headers["Authorization"] = f"Bearer {token}"
        elif user := os.environ.get("MLFLOW_TRACKING_USERNAME"):
            self._session.auth = (user, os.environ.get("MLFLOW_TRACKING_PASSWORD", ""))

    def open(self, facts: RunFacts) -> Mapping[str, int]:
        """Create or find the run."""
        try:
            return self._open(facts)
        except SinkUnavailableError as error:
            raise UserError(str(error)) from error

    def send(self, batch: Batch) -> None:
        """Send the batch in requests that the API accepts; the last request says how far the run is mirrored."""
        metrics = [
            {"key": name, "value": value, "timestamp": _milliseconds(point.time), "step": point.step}
            for point in batch.points
            for name, value in point.values.items()
        ]
        for chunk in _chunks(metrics, _METRICS):
            self._post("runs/log-batch", run_id=self._run_id, metrics=chunk)
        for notes in _chunks(list(batch.notes.items()), _TAGS):
            tags = [{"key": name, "value": _cut(text, _TEXT)} for name, text in notes]
            self._post("runs/log-batch", run_id=self._run_id, tags=tags)
        cursor = {"key": _CURSOR_TAG, "value": json.dumps(batch.cursor)}
        self._post("runs/log-batch", run_id=self._run_id, tags=[cursor])

    def close(self, status: Status, time: datetime) -> None:
        """Send how the run ended."""
        tag = {"key": "status", "value": str(status)}
        self._post("runs/log-batch", run_id=self._run_id, tags=[tag])
        end = {} if status is Status.RUNNING else {"end_time": _milliseconds(time)}
        self._post("runs/update", run_id=self._run_id, status=_STATUS.get(status, "FAILED"), **end)

    def _open(self, facts: RunFacts) -> dict[str, int]:
        """Create or find experiment and run."""
        declared = facts.declared
        if "'" in declared.run_id:  # a filter expression quotes it
            raise UserError(f"MLflow: a run id can't hold a quote: {declared.run_id!r}")
        experiment_id = self._experiment_id()
        found = self._post(
            "runs/search",
            experiment_ids=[experiment_id],
            filter=f"tags.\"{_RUN_TAG}\" = '{declared.run_id}'",
            max_results=1,
        ).get("runs")
        if found:
            self._run_id: str = found[0]["info"]["run_id"]
            self._post("runs/update", run_id=self._run_id, status="RUNNING")
            tags = {tag["key"]: tag["value"] for tag in found[0]["data"].get("tags", [])}
            return {str(name): int(rows) for name, rows in json.loads(tags.get(_CURSOR_TAG, "{}")).items()}
        created = self._post(
            "runs/create",
            experiment_id=experiment_id,
            run_name=facts.name,
            start_time=_milliseconds(facts.declared_at),
            tags=[{"key": _RUN_TAG, "value": declared.run_id}],
        )
        self._run_id = created["run"]["info"]["run_id"]
        for chunk in _chunks(list(_flat(declared.to_data())), _PARAMS):
            params = [{"key": name, "value": _cut(value, _PARAM_TEXT)} for name, value in chunk]
            self._post("runs/log-batch", run_id=self._run_id, params=params)
        return {}

    def _experiment_id(self) -> str:
        """Return the experiment's id; create the experiment if it is missing."""
        answer = self._request("GET", "experiments/get-by-name", params={"experiment_name": self._experiment})
        if answer.status_code == requests.codes.not_found and _error_code(answer) == "RESOURCE_DOES_NOT_EXIST":
            answer = self._request("POST", "experiments/create", json={"name": self._experiment})
            if answer.ok:
                return str(answer.json()["experiment_id"])
        return str(self._checked(answer)["experiment"]["experiment_id"])

    def _post(self, method: str, **body: Any) -> dict[str, Any]:
        """Call a method of the API."""
        return self._checked(self._request("POST", method, json=body))

    def _request(self, verb: str, method: str, **options: Any) -> requests.Response:
        """Send a request."""
        try:
            return self._session.request(verb, f"{self._api}/{method}", timeout=_TIMEOUT_S, **options)
        except requests.RequestException as error:
            raise SinkUnavailableError(f"MLflow at {self._shown} does not answer ({type(error).__name__})") from error

    def _checked(self, answer: requests.Response) -> dict[str, Any]:
        """Return the content of a server's answer.

        Raises:
            SinkUnavailableError: If the server reports an error of its own.
            UserError: If the server refuses the request.
        """
        if answer.status_code >= 500 or answer.status_code == requests.codes.too_many_requests:
            raise SinkUnavailableError(f"MLflow at {self._shown} is in trouble (HTTP {answer.status_code})")
        if not answer.ok:
            code = _error_code(answer)
            raise UserError(
                f"MLflow at {self._shown} refuses (HTTP {answer.status_code}{f', {code}' if code else ''})"
                + ("; set MLFLOW_TRACKING_TOKEN" if answer.status_code in (401, 403) else "")
            )
        try:
            found = answer.json()
        except ValueError as error:
            raise UserError(f"{self._shown} answers, but is no MLflow server") from error
        return found if isinstance(found, dict) else {}


def _error_code(answer: requests.Response) -> str | None:
    """Return MLflow's name of an error."""
    try:
        found = answer.json()
    except ValueError:
        return None
    return str(found.get("error_code")) if isinstance(found, dict) and found.get("error_code") else None


def _flat(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield a declaration as names and texts, without the fields of the panel's identity."""
    for key, value in data.items():
        if key == "panel_fields":
            continue
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        elif value is not None:
            yield f"{prefix}{key}", value if isinstance(value, str) else json.dumps(value)


def _cut(text: str, limit: int) -> str:
    """Shorten a text to at most ``limit`` bytes."""
    data = text.encode()
    return text if len(data) <= limit else data[: limit - 3].decode(errors="ignore") + "…"


def _chunks(items: list[Any], size: int) -> Iterator[list[Any]]:
    """Yield the items in lists of at most ``size``."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _milliseconds(time: datetime) -> int:
    """Return a time in milliseconds since 1970, as MLflow counts."""
    return int(time.timestamp() * 1000)
