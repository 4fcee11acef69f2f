"""On its node, a planned training starts, resumes or has nothing left to do."""

from __future__ import annotations

import hashlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger_lab.clusters.engine import Place
from ledger_lab.clusters.local import make_trainings
from ledger_lab.clusters.planned import carry_out, training_command
from ledger_lab.clusters.plans import Plan, PlannedTraining, read_plan, run_file
from ledger_lab.clusters.submissions import Submission, new_folder
from ledger_lab.errors import UserError
from ledger_lab.ledger import SchedulerJob, Status
from ledger_lab.training.launch.world import job_environ, note_run, read_job
from tests.fakes.ledgers import write_run

JOB = SchedulerJob(engine="slurm", job="17", index=0, restarts=1, nodes=["node1", "node2"], queue_s=1.5)
TRAINING = PlannedTraining(
    what="s seed 1", start=("--task", "T"), resume=("--log_root", "/l"), program="/lab/train.py", directory="/lab"
)
PLAN = Plan(name="s", trainings=(TRAINING,))
LOCAL = {"LEDGER_LAB_LOCAL_JOB": "here:1", "LEDGER_LAB_QUEUE_S": "0"}


def many(nodes: int, processes: int) -> PlannedTraining:
    return PlannedTraining(
        what="s", start=("--seed", "1"), resume=(), nodes=nodes, processes=processes, program="t.py", directory="/"
    )


def test_a_training_starts_or_resumes() -> None:
    assert training_command(TRAINING, Place(JOB)) == [sys.executable, "/lab/train.py", "--task", "T"]
    assert training_command(TRAINING, Place(JOB), resumed=Path("/l/r")) == [
        *(sys.executable, "/lab/train.py", "--resume", "/l/r", "--log_root", "/l")
    ]


def test_several_processes_meet_on_the_first_node_under_an_id_of_their_own() -> None:
    command = training_command(many(2, 4), Place(JOB, "node1:20017", "17-1"))
    said = " ".join(command)
    assert "--nnodes 2 --nproc-per-node 4 --rdzv-backend c10d --rdzv-endpoint node1:20017 --rdzv-id 17-1" in said
    assert said.endswith("t.py --distributed --seed 1")
    assert "--standalone" in training_command(many(1, 4), Place(JOB))


def test_a_training_knows_its_job_and_notes_its_run(tmp_path: Path) -> None:
    environ = job_environ(JOB, tmp_path / "0")
    assert read_job(environ) == JOB and read_job({}) is None
    note_run(environ, tmp_path)
    assert (tmp_path / "0").read_text() == str(tmp_path)
    with pytest.raises(UserError, match="LEDGER_LAB_JOB"):
        read_job({"LEDGER_LAB_JOB": "{}"})


def submitted(root: Path, run_dir: Path | None) -> Path:
    made = Submission.new(new_folder(root, "s"), "slurm", "lab", PLAN)
    made.write(PLAN, {})
    if run_dir is not None:
        run_file(made.folder, 0).write_text(str(run_dir))
    return made.folder


@pytest.mark.parametrize(
    ("status", "state", "limit_s", "goes_on"),
    [
        (Status.PREEMPTED, True, None, ["--resume", "RUN", "--log_root", "/l"]),
        (Status.PREEMPTED, True, 1000.0, ["--resume", "RUN", "--log_root", "/l"]),
        (Status.PREEMPTED, False, None, ["--task", "T"]),
        (Status.KILLED, False, 1000.0, ["--task", "T", "--limit_s", "LEFT"]),
        (Status.PREEMPTED, False, 1.0, None),
        (Status.PREEMPTED, True, 1.0, None),
        (Status.COMPLETED, True, None, None),
        (Status.TARGET_REACHED, True, None, None),
        (Status.STOPPED, True, None, None),
    ],
)
def test_a_requeued_training_resumes_its_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    status: Status,
    state: bool,
    limit_s: float | None,
    goes_on: list[str] | None,
) -> None:
    run_dir = write_run(tmp_path, "0badc0de", status=status, state=state, request={"limit_s": limit_s})
    folder = submitted(tmp_path, run_dir)
    executed: list[list[str]] = []
    monkeypatch.setattr("os.chdir", lambda path: None)
    monkeypatch.setattr("os.execve", lambda program, command, environ: executed.append(command[2:]))
    for name, value in LOCAL.items():
        monkeypatch.setenv(name, value)
    if goes_on is None:
        with pytest.raises(SystemExit) as ended:
            carry_out(["local", str(folder), "0", PLAN.sha256])
        assert ended.value.code == 0
    else:
        carry_out(["local", str(folder), "0", PLAN.sha256])
    if goes_on is None:
        assert not executed
        return
    known = {"RUN": str(run_dir), "LEFT": f"{(limit_s or 0) - 9:.3f}"}  # the run took 9 s
    assert executed == [[known.get(each, each) for each in goes_on]]


def test_a_node_without_the_folder_refuses_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match="the nodes must see this folder, and have the version of LedgerLab that has submitted it"
    ):
        carry_out(["slurm", str(tmp_path / "none"), "0", PLAN.sha256])


def test_a_plan_of_another_version_is_refused_in_one_line(tmp_path: Path) -> None:
    line = b'{"what":"s seed 1"}\n'
    (tmp_path / "plan.jsonl").write_bytes(line)
    with pytest.raises(UserError, match="plan.jsonl can't be read .*the version of LedgerLab that has submitted it"):
        read_plan(tmp_path, hashlib.sha256(line).hexdigest())


@pytest.fixture
def own_signals() -> Iterator[None]:
    """Restores the handlers of signals that `make_trainings` sets."""
    former = {signum: signal.getsignal(signum) for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    yield
    for signum, handler in former.items():
        signal.signal(signum, handler)


@pytest.mark.usefixtures("own_signals")
def test_a_signal_that_comes_while_a_training_is_being_started_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = submitted(tmp_path, None)
    heard: list[int] = []

    class Process:
        def __init__(self, *_: object, **__: object) -> None:
            signal.raise_signal(signal.SIGTERM)

        def send_signal(self, signum: int) -> None:
            heard.append(signum)

        def poll(self) -> int:
            return 143 if heard else 0

    monkeypatch.setattr("ledger_lab.clusters.local.subprocess.Popen", Process)
    assert make_trainings([str(folder), "1", PLAN.sha256]) == 75
    assert heard == [signal.SIGTERM] and (folder / "exits" / "0").read_text() == "143\n"
