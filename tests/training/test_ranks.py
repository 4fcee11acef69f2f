"""A run in several processes: how it ends, what its processes compare, agree on and measure, and their shares."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import torch
import torch.distributed as dist

from ledger_lab.errors import UserError
from ledger_lab.ledger import AttemptEnded, AttemptStarted, Status
from ledger_lab.panels import Cell, load_panel
from ledger_lab.training.launch import World, torchrun_argv
from ledger_lab.training.ranks import GradientWatch, merged, require_divisible, share_of
from ledger_lab.training.runners.collectives import GradientAveraging
from ledger_lab.training.runners.process_group import ProcessGroup
from tests.fakes.launching import listening
from tests.fakes.ledgers import outcomes
from tests.fakes.supervised import attempt_of

ROOT = Path(__file__).parents[2]
HOST = socket.gethostname()


@contextmanager
def two_ranks(run_dir: Path, how: str) -> Iterator[subprocess.Popen[str]]:
    """Start two fake processes with torchrun; nothing of them is left in the end."""
    program = str(ROOT / "tests" / "fakes" / "ranks.py")
    process = subprocess.Popen(
        torchrun_argv(2, program, [str(run_dir), how]),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        yield process
        process.wait(240)
    finally:
        process.kill()  # its processes end with it
        process.communicate()


@pytest.mark.parametrize(
    ("how", "status", "exit_status", "reason"),
    [
        ("kill", Status.KILLED, 137, f"rank 1 on {HOST}: SIGKILL by another process, not for lack of memory"),
        pytest.param("refuse", Status.CRASHED, 2, f"rank 1 on {HOST}: UserError: no room", marks=pytest.mark.thorough),
    ],
)
def test_the_end_of_one_process_ends_all_processes(
    tmp_path: Path, how: str, status: Status, exit_status: int, reason: str
) -> None:
    with two_ranks(tmp_path, how) as process:
        assert process.wait(240) == exit_status
        assert process.stderr is not None and "Traceback" not in process.stderr.read()
    attempt = attempt_of(tmp_path)
    assert attempt.ended is not None
    assert (attempt.status, attempt.ended.reason) == (status, reason)
    assert [start.seed for start in attempt.of(AttemptStarted)] == [0, 1]
    ended = attempt.of(AttemptEnded)
    assert [row.status for row in ended] == [status, status]
    assert not str(ended[1].reason).startswith("rank"), "its own end is its own"


def test_processes_listen_at_loopback_addresses_alone_and_end_when_their_launcher_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (scratch := tmp_path / "scratch").mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    with two_ranks(tmp_path, "wait") as process:
        assert process.stdout is not None
        for _ in range(2):
            assert process.stdout.readline() == "working\n"
        launcher = psutil.Process(process.pid)
        supervisors = launcher.children()
        workers = [child for each in supervisors for child in each.children()]
        assert len(supervisors) == len(workers) == 2
        assert not listening([launcher, *supervisors])
        addresses = listening(workers)
        assert {host for host, _ in addresses} <= {"127.0.0.1", "::1"}
        folders = [path for path in scratch.iterdir() if path.is_dir()]
        assert folders and all(path.stat().st_mode & 0o077 == 0 for path in folders)
        for address in addresses:  # gloo's own takes noise without harm
            with socket.create_connection(address) as stranger:
                stranger.sendall(b"\x80\x04\x95" + b"\xff" * 1000)
        assert all(worker.is_running() for worker in workers)
        process.kill()
        assert process.stdout.read() == "", "whoever still has the pipe is still there"
    assert attempt_of(tmp_path).status is Status.PREEMPTED


@pytest.mark.parametrize(
    ("other", "agreed"),
    [
        ((False, None, False, False), (False, None, False, False)),
        ((False, None, True, False), (False, None, True, False)),
        ((False, signal.SIGTERM, False, False), (False, signal.SIGTERM, False, False)),
        ((False, None, False, True), (False, None, False, True)),
        ((True, signal.SIGINT, True, True), (True, signal.SIGINT, True, True)),
    ],
)
def test_one_vote_ends_all_processes(
    other: tuple[bool, signal.Signals | None, bool, bool],
    agreed: tuple[bool, signal.Signals | None, bool, bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ledger_lab.training import ranks
    from ledger_lab.training.runners import process_group

    def all_reduce(votes: torch.Tensor, op: object) -> None:
        assert op == torch.distributed.ReduceOp.MAX
        theirs = torch.tensor([other[0], other[1] or 0, other[2], other[3]], dtype=votes.dtype)
        torch.maximum(votes, theirs, out=votes)

    monkeypatch.setattr(process_group.dist, "all_reduce", all_reduce)
    nothing = ranks.Agreement(False, None, False)
    two = process_group.ProcessGroup(World(rank=0, size=2, local_rank=0, local_size=2), ["a", "b"], Path())
    result = ranks.agree_on_ending(two, nothing)
    assert result == agreed
    assert result.ends is (other[0] or other[1] is not None or other[3])
    assert ranks.agree_on_ending(process_group.ALONE, nothing) == nothing


def test_each_process_uses_the_gpu_of_its_local_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from ledger_lab.training.runners.session import resolve_device

    two = World(rank=3, size=4, local_rank=1, local_size=2)
    assert resolve_device(None, two) == resolve_device("cpu", two) == "cpu", "where there is no GPU"
    with pytest.raises(UserError, match="2 processes on a machine with 0 GPUs: start one process per GPU, or use"):
        resolve_device("cuda", two)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert resolve_device(None, two) == resolve_device("cuda", two) == "cuda:1"
    assert resolve_device("cpu", two) == "cpu"
    assert resolve_device("cuda:0", World()) == "cuda:0"
    with pytest.raises(UserError, match="--device cuda:0: each process uses the GPU of its own number"):
        resolve_device("cuda:0", two)
    with pytest.raises(UserError, match="8 processes on a machine with 2 GPUs: start one process per GPU"):
        resolve_device(None, World(rank=0, size=8, local_rank=0, local_size=8))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert resolve_device(None, two) == resolve_device("cuda", two) == "cuda:0", "a launcher gives each process one GPU"
    assert resolve_device("cpu", two) == "cpu"


class _Others(ProcessGroup):
    """Three processes, two of them on one machine."""

    def __init__(self, values: list[Any]) -> None:
        super().__init__(World(rank=0, size=3, local_rank=0, local_size=2), ["a", "a", "b"], Path())
        self._values = values

    def gather(self, mine: Any) -> list[Any]:
        return self._values


def test_each_process_must_have_a_gpu_of_its_own() -> None:
    from ledger_lab.training.ranks import require_own_gpus

    require_own_gpus(_Others(["1", "2", "3"]), "1")
    require_own_gpus(_Others([None] * 3), None)
    with pytest.raises(UserError, match=r"^rank 0 and rank 1 on a use the same GPU \(7\): start one process per GPU"):
        require_own_gpus(_Others(["7", "7", "8"]), "7")


def test_all_gpus_of_a_training_are_of_one_model() -> None:
    from ledger_lab.training.ranks import require_same

    models = [{"the model of the GPU": model} for model in ("NVIDIA H100", "NVIDIA H100", "NVIDIA A100")]
    with pytest.raises(UserError, match=r"the model of the GPU is 'NVIDIA H100' on rank 0 \(a\) and 'NVIDIA A100' on"):
        require_same(_Others(models), models[0])


@pytest.mark.parametrize(("earlier", "compared"), [(0, [1, 2, 50, 100]), (60, [61, 62, 100])])
def test_learners_are_compared_after_the_first_iterations_of_every_attempt(earlier: int, compared: list[int]) -> None:
    from ledger_lab.ledger.meters.phases import PhaseClock
    from ledger_lab.training.ranks import compare_learners
    from ledger_lab.training.runners.process_group import ProcessGroup

    class Alike(ProcessGroup):
        def gather(self, value: Any) -> list[Any]:
            return [value, value]

    group = Alike(World(rank=0, size=2, local_rank=0, local_size=2), ["a", "b"], Path())
    trainer: Any = SimpleNamespace(state=lambda: {"rate": 0.1})
    rows: list[Any] = []
    for iterations in range(earlier + 1, 101):
        compare_learners(group, iterations, earlier, trainer, PhaseClock(0), rows.append)
    assert [row.iteration for row in rows] == compared


def test_the_shares_of_all_processes_form_the_panel() -> None:
    two_cells = replace(load_panel("cartpole_v1"), seeds=tuple(range(8)), cells=(Cell("a"), Cell("b")))
    for panel in (two_cells, two_cells.proof("aaaaaaaa", 1)):
        shares = [share_of(panel, rank, 4) for rank in range(4)]
        episodes = [episode for share in shares for episode in share.episodes]
        assert sorted(episodes) == sorted(panel.episodes)
        assert {len(share.episodes) for share in shares} == {4}
        assert all([cell for cell, _ in share.episodes] == ["a", "a", "b", "b"] for share in shares)
        columns = [
            replace(
                outcomes(rank, 4),
                cell=[cell for cell, _ in share.episodes],
                seed=[seed for _, seed in share.episodes],
                steps=[100 * seed for _, seed in share.episodes],
            )
            for rank, share in enumerate(shares)
        ]
        whole = merged(columns, panel.episodes)
        assert list(zip(whole.cell, whole.seed, strict=True)) == list(panel.episodes)
        assert whole.steps == [100 * seed for seed in whole.seed]
        assert whole.successes == 0 + 1 + 2 + 3
    assert share_of(two_cells, 0, 1) == two_cells


def test_seeds_that_cannot_be_divided_are_refused_with_numbers_that_work() -> None:
    panel = load_panel("cartpole_v1")
    require_divisible(panel, 4)
    complaint = "panel cartpole_v1: its 256 seeds do not split over 3 processes: start 2 or 4, or train with --no_eval"
    with pytest.raises(UserError, match=complaint):
        require_divisible(panel, 3)
    with pytest.raises(UserError, match="start 256, or train"):
        require_divisible(panel, 300)


STEPS = 2
"""Gradient steps of an iteration that count."""
MEAN = pytest.approx(10.0)
"""Mean of the squared norms of these steps."""


class Learner:
    """Averages its gradient in two pieces. :mod:`tests.fakes.toy_ranks` compares those of the libraries."""

    def __init__(self, scaler: torch.amp.GradScaler) -> None:
        self.gradient, self._scaler = torch.zeros(4), scaler

    def averaging(self) -> GradientAveraging:
        return GradientAveraging(calls=[(self, "average")], scaler=self._scaler)

    def average(self) -> None:
        for piece in self.gradient.split(2):
            dist.all_reduce(piece)


@pytest.fixture
def gradients(tmp_path: Path) -> Iterator[Callable[..., list[Any]]]:
    """Return a function that gives the rows of a training of at most 180 iterations, in stretches of three.

    The group has one process, so that the average is the process's own gradient.
    """

    def rows(iterations: int, *, processes: int = 2, scale: float = 1.0) -> list[Any]:
        written: list[Any] = []
        watch, collective = GradientWatch(World(size=processes), 180, written.append), dist.all_reduce
        learner = Learner(torch.amp.GradScaler("cpu", init_scale=scale))
        with watch.measuring(learner):  # type: ignore[arg-type]
            for iteration in range(1, iterations + 1):
                for value in (1.0, float("inf"), float("nan"), 2.0):
                    learner.gradient = scale * torch.full((4,), value)
                    learner.average()
                    dist.all_reduce(torch.ones(3))
                watch.after_iteration(iteration)
        assert dist.all_reduce is collective
        return [(row.iteration, row.steps, row.own_square, row.average_square) for row in written]

    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    yield rows
    dist.destroy_process_group()


@pytest.mark.parametrize(
    ("iterations", "stretches"),
    [(6, [(3, 3), (6, 3)]), (8, [(3, 3), (6, 3), (8, 2)]), (1, [(1, 1)]), (0, [])],
)
def test_a_training_that_ends_early_records_the_gradients_of_its_last_stretch(
    gradients: Callable[..., list[Any]], iterations: int, stretches: list[tuple[int, int]]
) -> None:
    assert gradients(iterations) == [(last, count * STEPS, MEAN, MEAN) for last, count in stretches]


def test_a_gradient_is_measured_without_its_scale_and_only_where_it_is_averaged(
    gradients: Callable[..., list[Any]],
) -> None:
    assert gradients(1, scale=8.0) == [(1, STEPS, MEAN, MEAN)], "an overflow does not count"
