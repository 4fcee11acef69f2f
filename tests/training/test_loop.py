"""After each iteration of a training, rows are written, policies judged, states saved, and the run may end."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from ledger_lab.ledger import CheckpointSaved, PhaseWindow, Row, Status
from ledger_lab.ledger.endings import Terminated
from ledger_lab.ledger.meters.phases import PhaseClock
from ledger_lab.training.health.monitor import HealthEvent
from ledger_lab.training.judge import Judged
from ledger_lab.training.launch import World
from ledger_lab.training.loop import TrainingLoop
from ledger_lab.training.recording.writer import RunWriter
from ledger_lab.training.runners.process_group import ALONE
from ledger_lab.training.supervision.attempt import Attempt
from tests.fakes.ledgers import result


class Trainer:
    """Trains up to ten iterations with given figures."""

    def __init__(self, **figures: float) -> None:
        self.figures, self.iterations = figures, 0

    def train(self, on_iteration: Any) -> None:
        for self.iterations in range(1, 11):
            if not on_iteration(self.iterations, self.figures):
                return


class Judge:
    """Finds a result after some iterations."""

    def __init__(self, found: Mapping[int, Judged], ends_after: int | None = None) -> None:
        self.last, self.found, self.ends_after, self.done = None, found, ends_after, 0

    @property
    def ends_training(self) -> bool:
        return self.done == self.ends_after

    def after_iteration(self, iterations: int) -> list[Judged]:
        self.done = iterations
        return [self.found[iterations]] if iterations in self.found else []


class Keeper:
    """Records when it must save."""

    overdue = False

    def __init__(self) -> None:
        self.insisted, self.saved = False, []

    def insist(self) -> None:
        self.insisted = True

    def after_iteration(self, iterations: int, env_steps: int) -> bool:
        if due := self.insisted:
            self.saved.append((iterations, env_steps))
            self.insisted = False
        return due


class Watch:
    """Stops a training after a score without successes."""

    def __init__(self) -> None:
        self.stopped: HealthEvent | None = None
        self.looked: list[int] = []
        self.endings: list[dict[str, int]] = []

    def on_iteration(self, *seen: Any) -> None:
        self.looked.append(seen[0])
        self.endings.append(seen[-1])

    def on_panel(self, result: Any, iteration: int) -> None:
        if result.outcomes.successes == 0:
            self.stopped = HealthEvent(f"nothing succeeds at {iteration}")

    def ending(self) -> Any:
        return contextlib.nullcontext()


def judged(purpose: Any, successes: int) -> Judged:
    saved = CheckpointSaved(path="m.pt", sha256="m", size_bytes=1, iteration=4, env_steps=1, wall_ns=1)
    return Judged(saved, result("aaaaaaaa", "m.pt", successes, purpose=purpose))


class Made:
    """A loop of fakes around the real thing."""

    def __init__(
        self, trainer: Trainer, judge: Judge | None = None, group: Any = ALONE, limit_s: float | None = None
    ) -> None:
        plan: Any = SimpleNamespace(
            world=World(),
            run_dir=Path(),
            request=SimpleNamespace(mirror=[], limit_s=limit_s),
            resumed=None,
            declared=SimpleNamespace(env_steps_per_iteration=64),
            batch=SimpleNamespace(max_iterations=10),
        )
        self.rows: list[Row] = []
        self.writer = RunWriter(self.rows.append, PhaseClock(0), run_id="aa", directory=Path(), device="cpu")
        self.attempt, self.keeper, self.watch = Attempt(20.0, resumable=False), Keeper(), Watch()
        parts: Any = (self.watch, trainer, judge, self.keeper)
        endings = lambda: {"time_out": trainer.iterations, "fell": 0}  # noqa: E731
        self.loop = TrainingLoop(plan, group, self.attempt, self.writer, *parts, endings, Console(quiet=True))


def test_each_iteration_is_written_and_the_last_state_is_saved() -> None:
    made = Made(Trainer(mean_return=1.5))
    assert made.loop.run() is Status.COMPLETED
    windows = [row for row in made.rows if isinstance(row, PhaseWindow)]
    assert [(row.iteration, row.env_steps) for row in windows] == [(n, 64 * n) for n in range(1, 11)]
    assert made.watch.looked == list(range(1, 11))
    assert made.keeper.saved == [(10, 640)] and made.attempt.resumable


def test_endings_of_all_processes_reach_the_health_watch_and_the_next_checkpoint(tmp_path: Path) -> None:
    class Twins:
        """Two processes whose episodes end alike."""

        def total(self, mine: list[int]) -> list[int]:
            return [2 * value for value in mine]

        def __getattr__(self, name: str) -> Any:
            return getattr(ALONE, name)

    made = Made(Trainer(), group=Twins())
    made.loop.run()
    assert made.watch.endings[:2] == [{"time_out": 2, "fell": 0}, {"time_out": 4, "fell": 0}]
    made.writer.directory = tmp_path
    (tmp_path / "model.pt").touch()
    assert made.writer.checkpoint(tmp_path / "model.pt", 10, 640).endings == {"time_out": 2 * sum(range(1, 11))}


def test_a_figure_that_is_not_finite_ends_the_training_after_it_is_written() -> None:
    made = Made(Trainer(value_loss=float("nan"), mean_return=1.0))
    with pytest.raises(FloatingPointError, match="value_loss not finite at iteration 1"):
        made.loop.run()
    (window,) = made.rows
    assert isinstance(window, PhaseWindow) and window.non_finite == ["value_loss"]


def test_a_confirmation_is_saved_at_once_and_a_screening_when_the_state_is_due() -> None:
    made = Made(Trainer(), Judge({3: judged("screening", 5), 5: judged("confirmation", 5)}))
    made.loop.run()
    assert [iterations for iterations, _ in made.keeper.saved] == [5, 10]


def test_a_proven_policy_ends_the_training() -> None:
    trainer = Trainer()
    assert Made(trainer, Judge({4: judged("confirmation", 9)}, ends_after=4)).loop.run() is Status.COMPLETED
    assert trainer.iterations == 4


def test_a_score_that_is_a_health_event_stops_the_run_with_its_evidence() -> None:
    trainer = Trainer()
    made = Made(trainer, Judge({6: judged("screening", 0)}))
    assert made.loop.run() is Status.STOPPED
    assert trainer.iterations == 6
    assert str(made.attempt.error) == "nothing succeeds at 4", "the iteration of the checkpoint, not of its score"


def test_a_signal_ends_the_training_after_an_iteration_whose_state_is_saved() -> None:
    class Asked(Trainer):
        def train(self, on_iteration: Any) -> None:
            made.attempt.asked = signal.SIGTERM
            super().train(on_iteration)

    made = Made(trainer := Asked())
    with pytest.raises(Terminated):
        made.loop.run()
    assert trainer.iterations == 1 and made.keeper.saved == [(1, 64)]
