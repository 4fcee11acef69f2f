"""A judge extends near misses. In a resumed run, it keeps all proofs, and their seeds serve one policy only."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ledger_lab.ledger import CheckpointSaved, Outcomes, PanelResult, read_ledger
from ledger_lab.ledger.meters.phases import PhaseClock
from ledger_lab.panels import ERROR_BUDGET, RULE_VERSION, Panel, PanelIdentity, VerdictRule, load_panel
from ledger_lab.panels.verdict import Verdict
from ledger_lab.training.judge import Judge
from ledger_lab.training.runners.process_group import ALONE
from ledger_lab.training.writer import RunWriter
from tests.conftest import ROOT

PANEL = load_panel("cartpole_v1")


class Slots:
    """Held-out slots in which each policy has a given number of successes."""

    first, count = 0, 256

    def __init__(self, successes: int | list[int]) -> None:
        self.successes, self.begun = successes, []
        self.idle = True
        self.replayed: int | None = None
        self.started: dict[str, str] | None = None

    def begin(self, policies: list[Any], panel: Panel) -> None:
        self.begun.append(panel)

    def outcomes(self) -> list[Outcomes]:
        successes = self.successes if isinstance(self.successes, int) else self.successes.pop(0)
        return [outcomes(self.begun[-1], successes)]

    def invalid(self, outcomes: Outcomes) -> None:
        return None

    def starts(self, policy: int) -> dict[str, str] | None:
        return self.started


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


def proof(number: int, checkpoint: str, successes: int, extension: int = 0) -> PanelResult:
    panel = PANEL.proof("run", number, extension)
    return PanelResult(
        run_id="run", checkpoint=f"{checkpoint}.pt", checkpoint_sha256=checkpoint, panel=panel.name, panel_id="p1-x",
        purpose="proof", proof=number, extension=extension, needed=241, exactness="bitwise",
        device="cpu", wall_ns=1, invalid=None, outcomes=outcomes(panel, successes),
    )  # fmt: skip


def check(checkpoint: str, successes: int) -> PanelResult:
    found = outcomes(PANEL, successes)
    return dataclasses.replace(
        proof(1, checkpoint, successes), panel=PANEL.name, purpose="check", needed=224, outcomes=found
    )


def scoring(checkpoint: str) -> dict[str, Any]:
    """Return the saved state of a judge that scores a checkpoint."""
    return {"checked": 5, "scored": saved(checkpoint).to_data()}


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that makes a judge, with its slots and what it writes."""
    monkeypatch.setattr("ledger_lab.training.judge.exactness", lambda cfg: "bitwise")

    def make(
        newest: str,
        successes: int | list[int],
        error_budget: float = ERROR_BUDGET,
    ) -> tuple[Judge, Slots, list[PanelResult]]:
        plan: Any = SimpleNamespace(
            declared=SimpleNamespace(
                run_id="run",
                verdict_rule=RULE_VERSION,
                error_budget=error_budget,
                panel_fields=PanelIdentity.of(PANEL, {}).fields,
            ),
            panel=PANEL,
            env_cfg=None,
            device="cpu",
            changed_code={},
            request=SimpleNamespace(eval_every=None, stop_at_target=True),
        )
        slots: Any = Slots(successes)
        rows: list[PanelResult] = []
        append: Any = rows.append
        writer = RunWriter(append, PhaseClock(0), run_id="run", directory=Path(), device="cpu")
        judge = Judge(plan, slots, ALONE, writer, lambda: saved(newest), lambda _: lambda seen: seen)
        return judge, slots, rows

    return make


STATE: dict[str, Any] = {"checked": 5, "scored": None}


@pytest.mark.parametrize("resumed", [True, False])
def test_the_first_proof_needs_what_the_error_budget_of_the_run_allows(judged: Any, resumed: bool) -> None:
    judge, _, rows = judged("new", 256, error_budget=0.01)
    if resumed:
        judge.resume(STATE, [])
    for iteration in (10, 20, 30):
        judge.after_iteration(iteration)
    needed = VerdictRule(PANEL.target_success, 0.01).first_needs(len(PANEL.episodes))
    assert needed > VerdictRule(PANEL.target_success).first_needs(len(PANEL.episodes))
    assert [row.needed for row in rows if row.purpose == "proof"] == [needed]


@pytest.mark.parametrize("newest", ["new", "lost"])
def test_seeds_of_an_earlier_attempt_are_not_used_again(judged: Any, newest: str) -> None:
    judge, slots, rows = judged(newest, 256)
    judge.resume(STATE, [proof(1, "lost", 200)])
    for iteration in (10, 20, 30):
        judge.after_iteration(iteration)
    assert [(row.purpose, row.proof) for row in rows][-1] == ("proof", 2)
    assert slots.begun[-1] == PANEL.proof("run", 2)
    assert rows[-1].needed > proof(1, "lost", 200).needed, "of one error budget"


def test_a_running_proof_starts_again_on_its_seeds(judged: Any) -> None:
    judge, slots, _ = judged("new", 256)
    judge.resume(scoring("m"), [check("old", 231), proof(1, "old", 200), check("m", 231)])
    assert slots.begun == [PANEL.proof("run", 2)]
    assert judge.state() == scoring("m")


@pytest.mark.parametrize(
    ("since", "begun"),
    [
        ([], [PANEL]),
        ([check("m", 200)], []),
        ([check("m", 231)], [PANEL.proof("run", 1)]),
        ([check("m", 231), proof(1, "m", 200)], []),
        ([check("m", 231), proof(1, "m", 240)], [PANEL.proof("run", 1, 1)]),
        ([check("m", 231), proof(1, "m", 240), proof(1, "m", 200, 1)], []),
        ([check("m", 231), proof(1, "m", 256)], []),
    ],
)
def test_resuming_continues_after_what_has_ended_since_the_last_state(
    judged: Any, since: list[PanelResult], begun: list[Panel]
) -> None:
    judge, slots, _ = judged("m", 256)
    judge.resume(scoring("m"), since)
    assert slots.begun == begun


def test_the_last_policy_is_proven_if_only_its_check_had_ended(judged: Any) -> None:
    judge, slots, _ = judged("m", 256)
    slots.idle_here, slots.action_count = True, 1
    judge.resume({**scoring("m"), "checked": 9}, [check("m", 231)])
    (found,) = judge.finish(lambda: None)
    assert judge.proven is found.result and found.saved.sha256 == "m"


def test_a_near_miss_is_extended_on_further_fresh_seeds_until_it_is_proven(judged: Any) -> None:
    judge, slots, rows = judged("m", [231, 240, 240, 240])
    judge.after_iteration(1)
    for iteration in (2, 3, 4):
        judge.after_iteration(iteration)
        assert slots.begun[-1] == PANEL.proof("run", 1, iteration - 2), "not a newer policy"
    judge.after_iteration(5)
    assert [(row.purpose, row.proof, row.extension) for row in rows] == [
        ("check", 1, 0), ("proof", 1, 0), ("proof", 1, 1), ("proof", 1, 2),
    ]  # fmt: skip
    assert [row.proves for row in rows] == [False, False, False, True]
    assert rows[1].needed == 241
    assert judge.proven is rows[-1] and judge.ends_training
    seeds = [seed for row in rows for seed in row.outcomes.seed]
    assert len(seeds) == len(set(seeds)), "each episode has a seed of its own"


def test_a_running_extension_starts_again_and_earlier_successes_count(judged: Any) -> None:
    judge, slots, rows = judged("new", [240, 240])
    judge.resume(scoring("m"), [check("m", 231), proof(1, "m", 240)])
    assert slots.begun == [PANEL.proof("run", 1, 1)]
    judge.after_iteration(10)
    judge.after_iteration(11)
    assert [(row.proof, row.extension) for row in rows] == [(1, 1), (1, 2)]
    assert judge.proven is rows[-1], "the successes of the first attempt count"


def test_an_invalid_panel_is_not_extended_and_costs_its_whole_stake(judged: Any) -> None:
    judge, slots, rows = judged("m", [231, 240, 231, 200])
    judge.after_iteration(1)
    judge.after_iteration(2)
    slots.invalid = lambda outcomes: "contacts were dropped"
    judge.after_iteration(3)
    slots.invalid = lambda outcomes: None
    judge.after_iteration(4)
    judge.after_iteration(5)
    assert [(row.purpose, row.proof) for row in rows] == [
        ("check", 1), ("proof", 1), ("check", 2), ("proof", 2),
    ]  # fmt: skip
    assert rows[-1].needed == 242


def test_runs_of_older_ledgers_keep_the_rule_that_they_declared() -> None:
    runs = read_ledger(ROOT / "records" / "time-to-target-cpu").runs
    assert {run.declared.verdict_rule for run in runs} == {1}
    for run in runs:
        rule = VerdictRule.of_version(run.declared.verdict_rule, run.declared.target_success)
        proofs = [row for row in run.results if row.purpose == "proof"]
        assert run.proven and proofs[-1].proves
        for at, row in enumerate(proofs):
            what = Verdict(rule, proofs[:at]).proof(row.checkpoint_sha256, row.outcomes.episodes)
            assert (row.extension, row.needed) == (0, what.needed)


def test_a_check_whose_episodes_start_differently_than_before_is_invalid_by_name(judged: Any) -> None:
    judge, slots, rows = judged("new", 100)
    slots.started = {"joint_position of 'robot'": 16 * "0"}
    judge.after_iteration(10)
    judge.after_iteration(20)
    slots.started = {"joint_position of 'robot'": "01"}
    judge.after_iteration(30)
    assert [row.invalid is None for row in rows] == [True, False]
    assert "start differently from earlier episodes with the same seeds: joint_position of 'robot'" in rows[-1].invalid
    assert rows[0].starts == {"joint_position of 'robot'": 16 * "0"}
