"""A judge in a resumed run keeps all confirmations, and uses the seeds of each one for one policy only."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ledger_lab.ledger import CheckpointSaved, Outcomes, PanelResult
from ledger_lab.meters import PhaseClock
from ledger_lab.panels import Panel, load_panel
from ledger_lab.recording.writer import RunWriter
from ledger_lab.training.judge import Judge

PANEL = load_panel("cartpole_v1")


class Slots:
    """Held-out slots in which each policy has a given number of successes."""

    first, count = 0, 256

    def __init__(self, successes: int) -> None:
        self.successes, self.begun, self.went_on = successes, [], []
        self.idle = True
        self.taking = [([1, 2], True), ([0], False)]

    def begin(self, policies: list[Any], panel: Panel) -> None:
        self.begun.append(panel)

    def go_on(self, policies: list[Any], taking: Any, panel: Panel | None = None) -> None:
        self.went_on.append(taking)

    def outcomes(self) -> list[Outcomes]:
        return [outcomes(self.begun[-1], self.successes)]

    def invalid(self, outcomes: Outcomes) -> None:
        return None


def outcomes(panel: Panel, successes: int) -> Outcomes:
    count = len(panel.episodes)
    won = [place < successes for place in range(count)]
    return Outcomes(
        cell=[cell for cell, _ in panel.episodes], seed=[seed for _, seed in panel.episodes], success=won,
        success_any=won, steps=[1] * count, episode_return=[0.0] * count, ended_by=["horizon"] * count,
        fingerprint=["0"] * count,
    )  # fmt: skip


def saved(name: str) -> CheckpointSaved:
    return CheckpointSaved(path=f"{name}.pt", sha256=name, size_bytes=1, iteration=9, env_steps=1, wall_ns=1)


def confirmation(number: int, checkpoint: str, successes: int) -> PanelResult:
    panel = PANEL.confirmation("run", number)
    return PanelResult(
        run_id="run", checkpoint=f"{checkpoint}.pt", checkpoint_sha256=checkpoint, panel=panel.name, panel_id="p1-x",
        purpose="confirmation", confirmation=number, needed=241, exactness="bitwise", device="cpu", wall_ns=1,
        invalid=None, outcomes=outcomes(panel, successes),
    )  # fmt: skip


def evaluation(checkpoint: str, number: int, needed: int) -> dict[str, Any]:
    """Return the stored state of a confirmation whose episodes are running."""
    row = saved(checkpoint).to_data()
    return {"saved": row, "purpose": "confirmation", "confirmation": number, "needed": needed}


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that makes a judge, with its slots and what it writes."""
    monkeypatch.setattr("ledger_lab.training.judge.exactness", lambda cfg: "bitwise")
    monkeypatch.setattr(
        "ledger_lab.training.judge.PanelIdentity", SimpleNamespace(of=lambda *_: SimpleNamespace(id="i"))
    )

    def make(newest: str, successes: int, *earlier: PanelResult) -> tuple[Judge, Slots, list[PanelResult]]:
        plan: Any = SimpleNamespace(
            run_id="run",
            panel=PANEL,
            simulation={},
            env_cfg=None,
            device="cpu",
            request=SimpleNamespace(eval_every=None, stop_at_target=True),
        )
        slots: Any = Slots(successes)
        rows: list[PanelResult] = []
        append: Any = rows.append
        writer = RunWriter(append, PhaseClock(0), run_id="run", directory=Path(), device="cpu", earlier_results=earlier)
        judge = Judge(plan, slots, writer, lambda: saved(newest), lambda _: lambda seen: seen)
        return judge, slots, rows

    return make


STATE = {"confirmations": 0, "screened": 5, "taking": [([1, 2], True), ([0], False)], "evaluation": None}


@pytest.mark.parametrize("whole", [True, False])
def test_seeds_used_for_another_policy_are_not_used_again(judged: Any, whole: bool) -> None:
    judge, slots, rows = judged("new", 256)
    judge.resume(STATE, [confirmation(1, "lost", 200)], whole)
    judge.after_iteration(10)
    judge.after_iteration(20)
    judge.after_iteration(30)
    assert [(row.purpose, row.confirmation) for row in rows][-1] == ("confirmation", 2)
    assert slots.begun[-1] == PANEL.confirmation("run", 2)
    assert rows[-1].needed > confirmation(1, "lost", 200).needed, "of one error budget"


def test_the_same_policy_is_confirmed_on_the_same_seeds_again(judged: Any) -> None:
    failed = confirmation(1, "lost", 200)
    judge, slots, rows = judged("lost", 256, failed)
    judge.resume(STATE, [failed], True)
    judge.after_iteration(10)
    judge.after_iteration(20)
    assert slots.begun[-1] == PANEL.confirmation("run", 1)
    (again,) = judge.after_iteration(30)
    assert again.result is failed, "a written result is final, even if all episodes succeed this time"
    assert judge.confirmed is None and failed not in rows


@pytest.mark.parametrize("whole", [True, False])
def test_a_running_confirmation_continues_or_restarts_on_its_seeds(judged: Any, whole: bool) -> None:
    judge, slots, _ = judged("new", 256)
    state = {**STATE, "confirmations": 2, "evaluation": evaluation("m", 2, 244)}
    judge.resume(state, [confirmation(1, "old", 200)], whole)
    assert slots.went_on == ([STATE["taking"]] if whole else [])
    assert slots.begun == ([] if whole else [PANEL.confirmation("run", 2)])
    assert judge.state()["evaluation"] == state["evaluation"] and judge.state()["confirmations"] == 2


def test_a_finished_evaluation_is_not_repeated(judged: Any) -> None:
    judge, slots, _ = judged("new", 256)
    state = {**STATE, "confirmations": 1, "evaluation": evaluation("m", 1, 241)}
    judge.resume(state, [confirmation(1, "m", 200)], False)
    assert slots.begun == [] and judge.state()["evaluation"] is None
