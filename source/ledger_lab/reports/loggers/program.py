"""``scripts/log_run.py``: sends a run to another dashboard. Imports neither torch nor Isaac Lab."""

from __future__ import annotations

import atexit
import functools
import itertools
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass
from datetime import UTC, datetime
from pathlib import Path

from ledger_lab.errors import UserError
from ledger_lab.ledger import Run, Status
from ledger_lab.ledger.find import find_run, telling_damage
from ledger_lab.ledger.reader import read_run
from ledger_lab.ledger.redaction import RedactedStream
from ledger_lab.reports.loggers.sink import SINKS, Sink, SinkUnavailableError, load_sink
from ledger_lab.reports.loggers.translate import Translator, entries_of
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.request import Program, Request, flag, log_root_flag

_LONGEST_WAIT_S = 60.0
"""Longest time between two attempts to reach a destination [s]."""

_SHARE = 0.05
"""Largest share of a core that reading takes: after a slow look at a long run, the next one waits."""

_MOST_ROWS = 10_000
"""Rows of one batch at most."""


@dataclass(frozen=True, kw_only=True)
class LogRunRequest(Request):
    """What a user asks of ``scripts/log_run.py``: each field is an argument or a flag of the same name."""

    program = Program(
        name="log_run.py",
        description=(
            "Send a run to a dashboard: TensorBoard, Weights & Biases (W&B) or MLflow, during the run or later. The "
            "dashboard gets training metrics, times of phases, held-out scores, telemetry, health events, and how the "
            "run ended. If you start the program again, it sends only the missing data to MLflow and W&B; for "
            "TensorBoard, and for W&B with WANDB_MODE=offline, it writes all data again. For W&B, set the environment "
            "variable WANDB_API_KEY. For MLflow, set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and "
            "MLFLOW_TRACKING_PASSWORD."
        ),
        examples=(
            "log_run.py RUN --to tensorboard",
            "log_run.py RUN --to mlflow --uri http://localhost:5000 --project my_project",
        ),
    )

    run: str = flag(
        MISSING,
        "Run id or run directory. The first characters of the id are enough.",
        metavar="RUN",
        positional=True,
    )
    to: str = flag(MISSING, f"Dashboard to send to: {', '.join(SINKS)}.", metavar="NAME")
    project: str | None = flag(
        None, "Name of the W&B project or MLflow experiment (default: ledger_lab).", metavar="NAME"
    )
    uri: str | None = flag(None, "Address of the MLflow server (default: $MLFLOW_TRACKING_URI).")
    dir: Path | None = flag(
        None, "Folder for the files of TensorBoard or W&B (default: in the directory of the run).", metavar="DIR"
    )
    once: bool = flag(False, "Send the data that exists now, and exit, even if the run continues.")
    every: float = flag(2.0, "Shortest time between two checks for new data [s] (default: 2).", metavar="S")
    patience: float = flag(
        600.0,
        "If the dashboard cannot be reached: time to keep retrying after the end of the run [s] (default: 600).",
        metavar="S",
    )
    log_root: Path = log_root_flag()

    def __post_init__(self) -> None:
        """Refuse impossible times."""
        if self.every <= 0 or self.patience < 0:
            raise UserError("--every must be above 0, and --patience at least 0 seconds")


def log_run(argv: Sequence[str]) -> int:
    """Follow a run to its end, and send its rows.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If there is no such run, or the destination refuses it.
    """
    request = LogRunRequest.parse(argv)
    run = find_run(request.run, request.log_root)
    options = {"project": request.project, "uri": request.uri, "dir": request.dir}
    sink = load_sink(request.to, {name: value for name, value in options.items() if value is not None})
    os.nice(10)  # training on this host takes priority
    with telling_damage():
        _send(run, sink, request)
    return 0


def _send(run: Run, sink: Sink, request: LogRunRequest) -> None:
    """Send new rows until the run is over. Each look reads the run anew."""
    has, sent = dict(sink.open(run)), 0
    console = make_console()
    console.print(f"sending run {run.run_id} to {request.to}", soft_wrap=True)
    while True:
        began_s, before = time.process_time(), sent
        run = read_run(run.directory)
        newest, translator = run.declared_at, Translator()
        for some in itertools.batched(entries_of(run), _MOST_ROWS):
            newest = some[-1].time
            batch = translator.translate(some, has)
            if batch.cursor != has:
                _until_received(functools.partial(sink.send, batch), run, request)
                sent += sum(batch.cursor.values()) - sum(has.values())
                has = batch.cursor
        status = _status(run)
        if request.once or (status is not Status.RUNNING and sent == before):
            break
        if status is Status.RUNNING:
            time.sleep(max(request.every, (time.process_time() - began_s) / _SHARE))
    _until_received(lambda: sink.close(status, newest), run, request)
    console.print(f"run {run.run_id} is {status.replace('_', ' ')}: {sent} rows sent", soft_wrap=True)


def _status(run: Run) -> Status:
    """Return the status of the newest attempt."""
    return run.attempts[-1].status if run.attempts else Status.RUNNING


def _until_received(attempt: Callable[[], None], run: Run, request: LogRunRequest) -> None:
    """Repeat an attempt until it succeeds; once the run is over, only as long as ``--patience`` allows.

    Raises:
        UserError: If the time of ``--patience`` is over.
    """
    wait_s, over_since = 1.0, None
    while True:
        try:
            return attempt()
        except SinkUnavailableError as error:
            now = f"{datetime.now(UTC):%H:%M:%S}"
            make_console().print(f"{now} {error}; trying again in {wait_s:.0f} s", soft_wrap=True)
            if request.once or _status(read_run(run.directory)) is not Status.RUNNING:
                over_since = time.monotonic() if over_since is None else over_since
                if time.monotonic() - over_since + wait_s > request.patience:
                    raise UserError(f"{error}; run the command again later: it continues where it stopped") from error
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)


if __name__ == "__main__":
    from ledger_lab.reports.terminal.script import run_script

    # Output of a destination's client may contain its key.
    sys.stdout = sys.stderr = log = RedactedStream(sys.stderr)
    atexit.register(log.finish)
    run_script(log_run)
