"""Health events are written into the ledger, printed, and may end a run."""

from __future__ import annotations

import io
import math
from pathlib import Path

import pytest
from rich.console import Console

from ledger_lab.errors import UserError
from ledger_lab.ledger import Health, Status, read_ledger
from ledger_lab.training.health import HealthMonitor
from ledger_lab.training.health.monitor import HealthWatch
from ledger_lab.training.request import parse_stop_on
from tests.conftest import script


def test_non_finite_always_stops_and_events_have_a_fixed_order() -> None:
    assert parse_stop_on("") == parse_stop_on("non_finite") == ["non_finite"]
    assert parse_stop_on("slowdown, kl_out_of_range") == ["non_finite", "kl_out_of_range", "slowdown"]


def test_an_unknown_event_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UserError, match=r"--stop_on 'entropy_collaps': no such event: did you mean 'entropy_collapse'"):
        parse_stop_on("non_finite,entropy_collaps")


def watched(stop_on: list[str]) -> tuple[HealthWatch, list[Health], io.StringIO]:
    rows: list[Health] = []
    said = io.StringIO()
    watch = HealthWatch(
        HealthMonitor(100, 0.9), stop_on, rows.append, lambda: 5, lambda: None, Console(file=said, width=200)
    )
    return watch, rows, said


def collapse(watch: HealthWatch) -> None:
    for iteration in range(1, 20):
        watch.on_iteration(iteration, 10, {"action_std": 0.5**iteration}, {})


def test_an_event_becomes_one_row_and_one_line_and_training_continues() -> None:
    watch, rows, said = watched(["non_finite"])
    collapse(watch)
    (row,) = rows
    assert (row.event, row.wall_ns, row.stops) == ("entropy_collapse", 5, False)
    assert said.getvalue().startswith(f"entropy_collapse at iteration {row.iteration}: {row.evidence}; {row.advice}")
    assert watch.stopped is None


def test_an_event_in_stop_on_stops_the_training() -> None:
    watch, rows, said = watched(["non_finite", "entropy_collapse"])
    collapse(watch)
    assert [row.stops for row in rows] == [True]
    assert str(watch.stopped).startswith("entropy_collapse: standard deviation of the actions")
    assert "--stop_on" in said.getvalue()


def test_non_finite_numbers_are_reported_once_and_other_errors_are_not() -> None:
    watch, rows, _ = watched(["non_finite"])
    with pytest.raises(FloatingPointError), watch.ending():
        watch.on_iteration(1, 10, {"value_loss": math.nan}, {})
        raise FloatingPointError("value_loss not finite at iteration 1")
    with pytest.raises(KeyError), watch.ending():
        raise KeyError("nan")
    assert [row.event for row in rows] == ["non_finite"]


@pytest.mark.slow
def test_a_training_ends_on_a_chosen_event(tmp_path: Path) -> None:
    finished = script("train", "--num_envs", "64", "--max_iterations", "1000", "--device", "cpu", "--no_eval",
                      "agent.algorithm.entropy_coef=-1", "--stop_on", "entropy_collapse", "--usd_per_hour", "36",
                      "--log_root", tmp_path)  # fmt: skip
    assert finished.returncode == 1, finished.stdout + finished.stderr
    (run,) = read_ledger(tmp_path).runs
    assert run.declared.stop_on == ["non_finite", "entropy_collapse"]
    (attempt,) = run.attempts
    assert attempt.status is Status.STOPPED
    assert attempt.ended is not None and attempt.ended.reason is not None
    assert attempt.ended.reason.startswith("HealthEvent: entropy_collapse: standard deviation of the actions")
    row = attempt.of(Health)[-1]
    assert (row.event, row.stops) == ("entropy_collapse", True)
    assert "agent.algorithm.entropy_coef" in row.advice
    assert row.iteration == max(window.iteration or 0 for window in attempt.windows) < 200
    assert run.checkpoints[-1].iteration == row.iteration, "the last policy is kept"
    assert f"entropy_collapse at iteration {row.iteration}: " in finished.stdout
    assert "Traceback" not in finished.stdout + finished.stderr
