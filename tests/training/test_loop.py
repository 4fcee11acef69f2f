"""After each iteration of a training, rows are written, policies judged, states saved, and the run may end."""

from __future__ import annotations

import contextlib
import io
import re
import signal
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from rich.console import Console

from ledger_lab.ledger import (
    STATE_FILE,
    AttemptEnded,
    CheckpointSaved,
    PanelResult,
    PhaseWindow,
    Row,
    Status,
)
from ledger_lab.ledger.endings import Terminated
from ledger_lab.ledger.meters.phases import PhaseClock
from ledger_lab.reports import summarize_run
from ledger_lab.reports.terminal import progress
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.exit_status import EXIT_LIMIT
from ledger_lab.training.health.monitor import HealthEvent
from ledger_lab.training.judge import Judged
from ledger_lab.training.launch import World
from ledger_lab.training.loop import EpisodeEndings, TimeLimit, TrainingLoop
from ledger_lab.training.runners.process_group import ALONE
from ledger_lab.training.supervision.attempt import Attempt
from ledger_lab.training.writer import RunWriter
from tests.conftest import SHORT, fake, one_run_dir, script
from tests.fakes.ledgers import result
from tests.fakes.supervised import run_of


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

    proving = False

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
        self,
        trainer: Trainer,
        judge: Judge | None = None,
        group: Any = ALONE,
        limit_s: float | None = None,
        console: Console | None = None,
    ) -> None:
        plan: Any = SimpleNamespace(
            world=World(),
            run_dir=Path(),
            request=SimpleNamespace(logger=[], limit_s=limit_s),
            resumed=None,
            declared=SimpleNamespace(env_steps_per_iteration=64),
            batch=SimpleNamespace(max_iterations=10),
        )
        self.rows: list[Row] = []
        self.writer = RunWriter(self.rows.append, PhaseClock(0), run_id="aa", directory=Path(), device="cpu")
        self.attempt, self.keeper, self.watch = Attempt(20.0, resumable=False), Keeper(), Watch()
        parts: Any = (self.watch, trainer, judge, self.keeper)
        endings = lambda: {"time_out": trainer.iterations, "fell": 0}  # noqa: E731
        self.loop = TrainingLoop(
            plan, group, self.attempt, self.writer, *parts, endings, console or Console(quiet=True)
        )


def test_a_line_shows_the_clock_of_the_run_and_scores_in_per_cent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_LINE_EVERY_S", 0.0)
    monkeypatch.setattr(TimeLimit, "elapsed_s", lambda self: 3725.0)
    judge, out = Judge({}), io.StringIO()
    judge.last, judge.proving = result("aaaaaaaa", "m.pt", 9, purpose="check"), True
    made = Made(Trainer(mean_return=1.5), judge, console=make_console(out))
    made.loop.run()
    begun, *lines, last = out.getvalue().splitlines()
    assert begun == "training, iteration …"
    assert re.fullmatch(
        r"training, iteration 5/10 · 320 steps · .+ steps/s · return 1\.50 · check 90\.0 % · proof running · 1:02:05 · "
        r"at most 0:00 left",
        lines[4],
    )
    assert last.endswith("proof running · 1:02:05"), "nothing is left"


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


def test_a_proof_is_saved_at_once_and_a_check_when_the_state_is_due() -> None:
    made = Made(Trainer(), Judge({3: judged("check", 5), 5: judged("proof", 5)}))
    made.loop.run()
    assert [iterations for iterations, _ in made.keeper.saved] == [5, 10]


def test_a_proven_policy_ends_the_training() -> None:
    trainer = Trainer()
    assert Made(trainer, Judge({4: judged("proof", 9)}, ends_after=4)).loop.run() is Status.COMPLETED
    assert trainer.iterations == 4


def test_a_score_that_is_a_health_event_stops_the_run_with_its_evidence() -> None:
    trainer = Trainer()
    made = Made(trainer, Judge({6: judged("check", 0)}))
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


class Late(Trainer):
    """Uses the time up in iteration 3."""

    made: Made

    def train(self, on_iteration: object) -> None:
        def late(iterations: int, figures: object) -> bool:
            if iterations == self.at:
                object.__setattr__(self.made.loop.limit, "spent_ns", 10**18)
            return on_iteration(iterations, figures)  # type: ignore[operator, no-any-return]

        super().train(late)

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at


def late(at: int, judge: Judge | None = None) -> Made:
    trainer = Late(at)
    trainer.made = Made(trainer, judge, limit_s=1e8)
    return trainer.made


def test_the_time_is_noticed_at_the_end_of_an_iteration() -> None:
    made = late(3)
    assert made.loop.run() is Status.LIMIT_REACHED
    assert "--limit_s 1e+08 was used up in iteration 3" in str(made.attempt.error)
    assert late(10).loop.run() is Status.COMPLETED, "all iterations are trained"


def test_a_proof_that_ended_in_the_same_iteration_counts() -> None:
    judge = Judge({3: judged("proof", 9)}, ends_after=3)
    assert late(3, judge).loop.run() is Status.COMPLETED, "the judge then says: target reached"


def test_the_time_of_earlier_attempts_counts() -> None:
    made = Made(Trainer(), limit_s=1e3)
    object.__setattr__(made.loop.limit, "spent_ns", 10**12)
    assert made.loop.run() is Status.LIMIT_REACHED and not made.rows
    assert "by the start-up: nothing was trained in this attempt" in str(made.attempt.error)


def test_a_run_whose_time_is_used_up_keeps_its_last_policy_and_is_over(tmp_path: Path) -> None:
    asked = [*SHORT, "agent.save_interval=100", "--limit_s", "100000", "--usd_per_hour", "3.6"]
    ended = fake("limited", *asked, "--log_root", tmp_path, "2")
    assert ended.returncode == EXIT_LIMIT, ended.stdout + ended.stderr
    assert "limit reached: --limit_s 100000 was used up in iteration 2" in ended.stdout
    assert "Traceback" not in ended.stdout + ended.stderr
    run = run_of(tmp_path)
    rows = run.attempts[0].of(AttemptEnded)
    assert [row.status for row in rows] == [Status.LIMIT_REACHED]
    assert run.checkpoints[-1].iteration == 2 and not (run.directory / STATE_FILE).exists()
    assert not [row for row in run.attempts[0].of(PanelResult) if row.checkpoint == run.checkpoints[-1].path]
    summary = summarize_run(run)
    assert (summary.wall_to_target_s, summary.target_reached) == (None, False) and summary.billable_usd
    assert script("verify_ledger", "--log_root", tmp_path).returncode == 0
    again = script("train", "--resume", one_run_dir(tmp_path))
    assert again.returncode == 2 and "has ended: limit reached" in again.stderr + again.stdout


class Manager:
    """A termination manager whose terms fire as they are told."""

    def __init__(self, slots: int, **time_outs: bool) -> None:
        self._time_outs = time_outs
        self._term_dones = torch.zeros(slots, len(time_outs), dtype=torch.bool)
        self.active_terms = list(time_outs)

    def get_term_cfg(self, name: str) -> Any:
        return SimpleNamespace(time_out=self._time_outs[name])

    def compute(self) -> torch.Tensor:
        return self._term_dones.any(dim=1)

    def fire(self, fired: list[list[int]]) -> torch.Tensor:
        self._term_dones[:] = torch.tensor(fired, dtype=torch.bool)
        return self.compute()


def made(manager: Manager, training_slots: int) -> EpisodeEndings:
    env: Any = SimpleNamespace(unwrapped=SimpleNamespace(termination_manager=manager))
    return EpisodeEndings(env, training_slots)


def test_the_first_term_counts_and_held_out_slots_do_not() -> None:
    manager = Manager(5, time_out=True, fell=False, flew=False)
    endings = made(manager, training_slots=3)
    assert endings.time_outs == {"time_out"}
    with endings.counting():
        done = manager.fire([[1, 1, 0], [0, 1, 1], [0, 0, 0], [1, 0, 0], [0, 0, 1]])
        assert done.tolist() == [True, True, False, True, True]
        manager.fire([[0, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 1], [0, 0, 1]])
        assert endings.take() == {"time_out": 1, "fell": 2, "flew": 0}
        with torch.inference_mode():  # libraries step the environment in it
            manager.fire([[0, 0, 1]] * 5)
        assert endings.take() == {"time_out": 0, "fell": 0, "flew": 3}, "since the last call"
    manager.fire([[1, 0, 0]] * 5)
    assert endings.take() == {"time_out": 0, "fell": 0, "flew": 0}


def test_episodes_that_unstable_physics_ends_are_counted_by_that_name() -> None:
    manager: Any = Manager(4, time_out=True, fell=False)
    manager.unstable = SimpleNamespace(last=torch.zeros(4, dtype=torch.bool))
    endings = made(manager, training_slots=3)
    with endings.counting():
        manager.unstable.last[:] = torch.tensor([True, True, False, True])
        manager.fire([[0, 0], [0, 1], [1, 0], [0, 1]])
        manager.unstable.last[:] = False
        manager.fire([[0, 0], [0, 1], [0, 0], [0, 0]])
    assert endings.take() == {"unstable": 2, "time_out": 1, "fell": 1}
    assert endings.take() == {"unstable": 0, "time_out": 0, "fell": 0}


@pytest.mark.gpu
def test_no_step_waits_for_the_device() -> None:
    manager = Manager(4, time_out=True, fell=False)
    manager._term_dones = manager._term_dones.cuda()
    endings = made(manager, 3)
    with endings.counting():
        torch.cuda.set_sync_debug_mode("error")
        try:
            manager.compute()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert endings.take() == {"time_out": 0, "fell": 0}
