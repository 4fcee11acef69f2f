"""Loggers send every row of a run once, at any start time and after any failure; failures never affect the run."""

from __future__ import annotations

import errno
import functools
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import requests
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from ledger_lab.errors import UserError
from ledger_lab.ledger import Run, Status
from ledger_lab.ledger.find import find_run
from ledger_lab.reports.loggers import program
from ledger_lab.reports.loggers.program import log_run
from ledger_lab.reports.loggers.sink import Batch, SinkUnavailableError, load_sink, require_loggers, start_loggers
from tests.conftest import ROOT, command
from tests.fakes.ledgers import write_run
from tests.fakes.live import LiveTraining
from tests.fakes.waiting import wait_until

OTHER = ROOT / ".venv-loggers" / "bin"
needs_other = pytest.mark.skipif(not (OTHER / "python").exists(), reason="needs .venv-loggers, which .ci/run builds")


@pytest.fixture(autouse=True)
def not_nice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A logger gives way to trainings; the process of the tests must not."""
    monkeypatch.setattr(os, "nice", lambda by: 0)


def eventually(check: Callable[[], bool]) -> None:
    wait_until(check, "the logger has done it", 120)


def logger_command(*arguments: str | Path) -> tuple[list[str], dict[str, str]]:
    """Return the command of a logger, in the environment that has the client, and its environment variables."""
    python, *rest = command("log_run", *arguments)
    if {"mlflow", "wandb"} & {*arguments}:
        python = str(OTHER / "python")
    return [python, *rest], {**os.environ, "PYTHONPATH": str(ROOT / "source")}


def logged_by(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a logger to its end."""
    program, environment = logger_command(*arguments)
    return subprocess.run(program, capture_output=True, text=True, check=False, env=environment)


def logger(*arguments: str | Path, **environment: str) -> subprocess.Popen[str]:
    """Start a logger that looks often."""
    program, inherited = logger_command(*arguments, "--every", "0.1")
    return subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**inherited, **environment}
    )


def scalars(folder: Path, name: str) -> list[tuple[int, float]]:
    if not folder.is_dir():
        return []
    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    accumulator.Reload()
    if name not in accumulator.Tags()["scalars"]:
        return []
    return [(event.step, event.value) for event in accumulator.Scalars(name)]


def test_tensorboard_shows_a_running_run_and_each_point_once(tmp_path: Path) -> None:
    run = LiveTraining(tmp_path, "aa")
    run.iterate(2)
    with logger(run.directory, "--to", "tensorboard") as process:
        shown = functools.partial(scalars, run.directory / "tensorboard", "train/env_steps")
        eventually(lambda: len(shown()) == 2)
        run.iterate(3)
        eventually(lambda: len(shown()) == 5)
        assert process.poll() is None
        run.end()
        said, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "run aa is completed: 9 rows sent" in said
    assert shown() == [(iteration, 40.0 * iteration) for iteration in range(1, 6)]
    assert log_run([str(run.directory), "--to", "tensorboard"]) == 0, "again, from the beginning"
    assert shown() == [(iteration, 40.0 * iteration) for iteration in range(1, 6)]


def test_a_full_disk_gives_an_error_of_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    sink = load_sink("tensorboard", {})
    sink.open(find_run(str(write_run(tmp_path, "aa")), tmp_path))
    monkeypatch.setattr("tensorboard.summary.writer.event_file_writer.EventFileWriter.flush", full)
    with pytest.raises(UserError, match=r"cannot write to .*tensorboard: No space left on device; .*start the logger"):
        sink.send(Batch((), {}))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nope", "--to", "tensorboard"], "no checkpoint, run directory or run id 'nope'"),
        (["RUN", "--to", "tensorboard", "--uri", "x"], "--uri cannot be used with --to tensorboard: it takes --dir"),
        (["RUN", "--to", "tensorboard", "--dir", "/proc/nope"], "cannot write to --dir"),
        (["RUN", "--to", "tensorboard", "--every", "0"], "--every must be above 0"),
    ],
)
def test_an_invalid_logger_request_writes_nothing(tmp_path: Path, arguments: list[str], said: str) -> None:
    run_dir = write_run(tmp_path, "aa")
    before = {path.name for path in run_dir.iterdir()}
    with pytest.raises(UserError, match=said):
        log_run([str(run_dir) if each == "RUN" else each for each in arguments])
    assert {path.name for path in run_dir.iterdir()} == before


ASKED_IN_VAIN = """
import sys
from ledger_lab.errors import UserError
from ledger_lab.reports.loggers import program
from ledger_lab.reports.loggers.program import log_run
for asked in (
    ["mlflow"],
    ["mlflow", "--uri", "http://me:s3cret@localhost"],
    ["mlflow", "--uri", "http://127.0.0.1:9"],
    ["wandb", "--uri", "http://127.0.0.1:9"],
    ["wandb"],
):
    try:
        log_run([sys.argv[1], "--to", *asked])
    except UserError as error:
        print(error)
"""


@needs_other
def test_a_server_that_cannot_be_reached_is_told_in_one_line_without_secrets(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, "aa")
    unset = {"MLFLOW_TRACKING_URI", "WANDB_API_KEY", "WANDB_MODE"}
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    environment |= {"PYTHONPATH": str(ROOT / "source"), "HOME": str(tmp_path), "WANDB_BASE_URL": "http://127.0.0.1:9"}
    command = [OTHER / "python", "-c", ASKED_IN_VAIN, run_dir]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    missing, secret, dead, ignored, no_key = done.stdout.splitlines()
    assert "set MLFLOW_TRACKING_URI" in missing and "MLFLOW_TRACKING_PASSWORD" in secret and "s3cret" not in secret
    assert dead == "MLflow at http://127.0.0.1:9 does not answer"
    assert ignored.startswith("--uri cannot be used with --to wandb: ") and "set WANDB_API_KEY" in no_key


def test_a_damaged_journal_is_not_sent(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, "aa")
    path = run_dir / "journal-1-0.jsonl"
    path.write_text(path.read_text().replace('"iteration":1', '"iteration":7', 1))
    with pytest.raises(UserError, match=f"damaged journal: {path}"):
        log_run([str(run_dir), "--to", "tensorboard"])


def test_a_logger_outlives_its_starter(tmp_path: Path) -> None:
    run = LiveTraining(tmp_path, "aa")
    program = (
        "import sys, time; from pathlib import Path; from ledger_lab.reports.loggers.sink import start_loggers; "
        "start_loggers(Path(sys.argv[1]), ['tensorboard']); print('started', flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(run.directory)], stdout=subprocess.PIPE, start_new_session=True
    ) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == b"started\n"
        os.killpg(starter.pid, 9)
    run.iterate(2)
    run.end()
    eventually(lambda: "6 rows sent" in (run.directory / "logger-tensorboard.log").read_text())
    assert scalars(run.directory / "tensorboard", "train/env_steps") == [(1, 40.0), (2, 80.0)]


def test_a_logger_that_is_named_twice_is_started_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", lambda command, **options: started.append(command))
    start_loggers(write_run(tmp_path, "aa"), ["tensorboard", "mlflow", "tensorboard"])
    assert [command[-1] for command in started] == ["tensorboard", "mlflow"]


def test_missing_packages_are_reported_before_training() -> None:
    require_loggers(["tensorboard"])
    with pytest.raises(UserError, match="pip install mlflow-skinny"):
        require_loggers(["mlflow"])
    with pytest.raises(UserError, match="did you mean 'wandb'"):
        require_loggers(["wandbb"])


@needs_other
def test_wandb_gets_the_run_offline(tmp_path: Path) -> None:
    run_dir = write_run(
        tmp_path,
        "aa",
        scores=(5, 9),
        proof=9,
        status=Status.TARGET_REACHED,
        command=["--api_key=hunter2hunter2"],
    )
    environment = {"WANDB_MODE": "offline", "WANDB_API_KEY": "0123456789" * 4}
    program, inherited = logger_command(run_dir, "--to", "wandb", "--project", "p")
    subprocess.run(program, check=True, env={**inherited, **environment})
    (file,) = run_dir.rglob("run-aa.wandb")
    reader = [OTHER / "python", ROOT / "tests" / "fakes" / "read_wandb.py", file]
    said = json.loads(subprocess.run(reader, check=True, capture_output=True, text=True).stdout)
    assert (said["id"], said["project"], said["name"], said["exit"]) == ("aa", "p", "T aa", 0)
    assert said["config"]["task"] == "T"
    assert said["config"]["ledger_lab/cursor"] == {"journal-1-0.jsonl": 12}
    assert said["summary"]["status"] == "target_reached"
    steps = [row["train/env_steps"] for row in said["history"] if "train/env_steps" in row]
    assert steps == [40, 80]
    checked = [
        (row["iteration"], row["heldout/check_success"]) for row in said["history"] if "heldout/check_success" in row
    ]
    assert checked == [(1, 0.5), (2, 0.9)]
    everything = b"".join(path.read_bytes() for path in run_dir.rglob("*") if path.is_file())
    assert b"hunter2" not in everything
    assert b"0123456789" * 4 not in everything


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a real MLflow server with SQLite."""
    folder = tmp_path_factory.mktemp("mlflow")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = ["server", "--backend-store-uri", f"sqlite:///{folder}/store.db", "--host", "127.0.0.1"]
    arguments += ["--artifacts-destination", str(folder), "--port", str(port), "--workers", "1"]
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | quiet
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [OTHER / "mlflow", *arguments], stdout=log, stderr=log, env=environment, start_new_session=True
        )
    try:
        deadline = time.monotonic() + 400
        while True:
            assert server.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
            try:
                if requests.get(f"http://127.0.0.1:{port}/health", timeout=5).ok:
                    break
            except requests.RequestException:
                time.sleep(0.5)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, 9)
        server.wait()


def ask(uri: str, verb: str, method: str, **body: Any) -> dict[str, Any]:
    options: dict[str, Any] = {"params": body} if verb == "GET" else {"json": body}
    answer = requests.request(verb, f"{uri}/api/2.0/mlflow/{method}", timeout=60, **options)
    assert answer.ok, answer.text
    return answer.json()  # type: ignore[no-any-return]


def logged(uri: str, experiment: str) -> list[dict[str, Any]]:
    found = ask(uri, "GET", "experiments/get-by-name", experiment_name=experiment)
    return ask(uri, "POST", "runs/search", experiment_ids=[found["experiment"]["experiment_id"]])["runs"]  # type: ignore[no-any-return]


def history(uri: str, run_id: str, name: str) -> list[tuple[int, float]]:
    answer = ask(uri, "GET", "metrics/get-history", run_id=run_id, metric_key=name)
    return sorted((int(each["step"]), float(each["value"])) for each in answer.get("metrics", []))


@pytest.mark.thorough  # it starts a server; Weights & Biases shows how a client gets a run
@needs_other
def test_mlflow_gets_the_run_once(mlflow: str, tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, "aa", scores=(5, 9), proof=9, status=Status.TARGET_REACHED)
    for _ in range(2):
        done = logged_by(run_dir, "--to", "mlflow", "--uri", mlflow, "--project", "once")
        assert (done.returncode, done.stderr) == (0, "")
    (run,) = logged(mlflow, "once")
    assert run["info"]["status"] == "FINISHED"
    tags = {tag["key"]: tag["value"] for tag in run["data"]["tags"]}
    params = {param["key"]: param["value"] for param in run["data"]["params"]}
    assert tags["status"] == "target_reached"
    assert tags["heldout/proof"] == "model_2.pt: 9 of 10, 9 needed"
    assert (params["task"], params["price.instance"], params["num_envs"]) == ("T", "local", "10")
    run_id = run["info"]["run_id"]
    assert history(mlflow, run_id, "train/env_steps") == [(1, 40.0), (2, 80.0)]
    assert history(mlflow, run_id, "heldout/check_success") == [(1, 0.5), (2, 0.9)]


class FakeSink:
    """A destination whose network is cut for some calls, and that remembers what it received."""

    def __init__(self, cut: int) -> None:
        self.cut, self.steps, self.closed = cut, list[int](), list[Status]()

    def _arrives(self) -> None:
        self.cut -= 1
        if self.cut >= 0:
            raise SinkUnavailableError("the dashboard does not answer")

    def open(self, run: Run) -> dict[str, int]:
        return {}

    def send(self, batch: Batch) -> None:
        self._arrives()
        self.steps += [point.step for point in batch.points if "train/env_steps" in point.values]

    def close(self, status: Status, time: datetime) -> None:
        self._arrives()
        self.closed.append(status)


@pytest.fixture
def cut_network(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], FakeSink]:
    """Returns a function that makes the next logger send to a destination that does not answer some calls."""

    def made(cut: int) -> FakeSink:
        sink = FakeSink(cut)
        monkeypatch.setattr(program, "load_sink", lambda name, given: sink)
        return sink

    monkeypatch.setattr(program.time, "sleep", lambda seconds: None)
    return made


def test_a_dead_network_delays_a_logger_and_loses_nothing(
    cut_network: Callable[[int], FakeSink], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_dir, sink = write_run(tmp_path, "aa", scores=(5, 9)), cut_network(2)
    assert log_run([str(run_dir), "--to", "mlflow"]) == 0
    assert (sink.steps, sink.closed) == ([1, 2], [Status.COMPLETED])
    said = capsys.readouterr().out
    assert "trying again in 1 s" in said and "trying again in 2 s" in said


def test_after_the_end_of_the_run_a_logger_loses_its_patience(
    cut_network: Callable[[int], FakeSink], tmp_path: Path
) -> None:
    run_dir, sink = write_run(tmp_path, "aa"), cut_network(99)
    with pytest.raises(UserError, match="does not answer; run the command again later: it continues where it stopped"):
        log_run([str(run_dir), "--to", "mlflow", "--patience", "5"])
    assert sink.cut == 95, "8 s would be too long"
