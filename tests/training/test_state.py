"""Saving and restoring the state of a training."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ledger_lab.errors import UserError
from ledger_lab.ledger import Row
from ledger_lab.ledger.meters.phases import PhaseClock
from ledger_lab.training.runners.process_group import ALONE
from ledger_lab.training.state import StateKeeper


def plan_of(run_dir: Path, **fields: object) -> Any:
    """Return what a keeper of states reads of a plan."""
    return SimpleNamespace(
        run_dir=run_dir,
        request=SimpleNamespace(save_state_every=0, save_replay=False),
        batch=SimpleNamespace(save_interval=50),
        **fields,
    )


def test_an_attempt_ends_when_a_later_attempt_has_begun(tmp_path: Path) -> None:
    unused: Any = None
    plan = plan_of(tmp_path, attempt=2)
    group: Any = SimpleNamespace(world=SimpleNamespace(first=True))
    keeper = StateKeeper(plan, group, unused, unused, None, unused, unused)
    assert not keeper.after_iteration(1, 64)
    (tmp_path / "journal-3-0.jsonl").touch()
    with pytest.raises(RuntimeError, match="a later attempt has begun"):
        keeper.after_iteration(2, 128)


def test_a_checkpoint_that_changed_while_the_simulation_started_is_refused(tmp_path: Path) -> None:
    unused: Any = None
    path = tmp_path / "model_9.pt"
    path.write_bytes(b"another policy")
    plan = plan_of(
        tmp_path, attempt=1, resumed=None, beginning=SimpleNamespace(path=path, began_from={"sha256": "0" * 64})
    )
    keeper = StateKeeper(plan, ALONE, unused, unused, None, unused, unused)
    with pytest.raises(UserError, match=r"model_9\.pt has changed since this run was declared: start it again"):
        keeper.begin()


def test_states_with_a_replay_memory_that_do_not_fit_on_the_disk_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unused: Any = None
    (tmp_path / "training_state.pt").write_bytes(b"1234")
    plan = plan_of(tmp_path, attempt=1)
    plan.request.save_replay = True
    plan.batch.replay = SimpleNamespace(settings={"replay_steps": "agent.memory.memory_size"})
    trainer: Any = SimpleNamespace(replay=SimpleNamespace(nbytes=8))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=12))
    StateKeeper(plan, ALONE, trainer, unused, None, unused, unused)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=11))
    with pytest.raises(UserError, match="--save_replay: .* free some space, or start a run with a smaller agent"):
        StateKeeper(plan, ALONE, trainer, unused, None, unused, unused)


def test_an_attempt_that_is_suspended_while_it_saves_leaves_the_files_to_the_later_attempt(tmp_path: Path) -> None:

    memory = SimpleNamespace(nbytes=8, added=4, state=dict)
    plan: Any = SimpleNamespace(
        run_dir=tmp_path,
        attempt=1,
        request=SimpleNamespace(save_state_every=1, save_replay=True),
        batch=SimpleNamespace(save_interval=1, horizon=4, replay=SimpleNamespace(settings={"replay_steps": "steps"})),
    )
    trainer: Any = SimpleNamespace(replay=memory, state=dict)
    simulation: Any = SimpleNamespace(take=dict)
    rows: list[Row] = []
    clock = PhaseClock(0)
    keeper = StateKeeper(plan, ALONE, trainer, simulation, None, rows.append, clock)

    def files() -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in tmp_path.rglob("*.pt")}

    assert keeper.after_iteration(1, 4)
    before = files()
    memory.added = 8
    trainer.state = lambda: (tmp_path / "journal-2-0.jsonl").touch() or {}
    with pytest.raises(RuntimeError, match="a later attempt has begun"):
        keeper.after_iteration(2, 8)
    assert len(rows) == 1
    assert before.items() <= files().items(), "the later attempt resumes from these files"


def test_a_state_is_saved_with_each_checkpoint_when_it_is_old_and_when_it_is_asked_for(tmp_path: Path) -> None:
    unused: Any = None
    plan = plan_of(tmp_path, attempt=1)
    plan.request.save_state_every, plan.batch.save_interval = None, 2
    keeper, saved = StateKeeper(plan, ALONE, unused, unused, None, unused, PhaseClock(0)), []
    keeper._save = lambda iterations, env_steps: saved.append(iterations)  # type: ignore[method-assign]
    assert [keeper.after_iteration(n, n) for n in range(1, 5)] == [True, False, True, False] and saved == [1, 3]
    assert not keeper.overdue
    keeper.insist()
    assert keeper.after_iteration(4, 4) and saved == [1, 3, 4]
    keeper._last_s -= 301
    assert keeper.overdue, "by default, a state is at most five minutes old"
    plan.request.save_state_every = 0
    keeper = StateKeeper(plan, ALONE, unused, unused, None, unused, PhaseClock(0))
    assert not any(keeper.after_iteration(n, n) for n in range(1, 5)), "only when it is asked for"
    keeper._last_s -= 10**6
    assert not keeper.overdue
