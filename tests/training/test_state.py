"""Saving and restoring the state of a training."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ledger_lab.errors import UserError
from ledger_lab.files import file_sha256
from ledger_lab.ledger import Row
from ledger_lab.meters import PhaseClock
from ledger_lab.runners.process_group import ALONE
from ledger_lab.runners.replay_memory import Column, ReplayMemory
from ledger_lab.training.state import StateKeeper


def test_an_attempt_ends_when_a_later_attempt_has_begun(tmp_path: Path) -> None:
    unused: Any = None
    plan: Any = SimpleNamespace(
        run_dir=tmp_path,
        attempt=2,
        request=SimpleNamespace(save_state_every=0, save_replay=False),
        batch=SimpleNamespace(save_interval=50),
    )
    group: Any = SimpleNamespace(world=SimpleNamespace(first=True))
    keeper = StateKeeper(plan, group, unused, unused, None, unused, unused)
    assert not keeper.after_iteration(1, 64)
    (tmp_path / "journal-3-0.jsonl").touch()
    with pytest.raises(RuntimeError, match="a later attempt has begun"):
        keeper.after_iteration(2, 128)


def test_a_state_of_another_version_is_refused(tmp_path: Path) -> None:
    import torch

    unused: Any = None
    path = tmp_path / "training_state.pt"
    torch.save({"learner": {}, "processes": []}, path)
    resumed = SimpleNamespace(state=SimpleNamespace(sha256=file_sha256(path)))
    plan: Any = SimpleNamespace(
        run_dir=tmp_path,
        attempt=2,
        request=SimpleNamespace(save_state_every=0, save_replay=False),
        batch=SimpleNamespace(save_interval=50),
        resumed=resumed,
    )
    keeper = StateKeeper(plan, ALONE, unused, unused, None, unused, unused)
    with pytest.raises(UserError, match="saved by another version of LedgerLab: resume with that version, or start"):
        keeper.begin()


def test_an_attempt_that_is_suspended_while_it_saves_leaves_the_files_to_the_later_attempt(tmp_path: Path) -> None:
    import torch

    memory = ReplayMemory(4, 1, {"seen": Column(1, observed=True)}, torch.device("cpu"))
    plan: Any = SimpleNamespace(
        run_dir=tmp_path,
        attempt=1,
        request=SimpleNamespace(save_state_every=1, save_replay=True),
        batch=SimpleNamespace(save_interval=1, horizon=4, replay=SimpleNamespace(setting="replay_steps")),
    )
    trainer: Any = SimpleNamespace(replay=memory, inexact=None, state=dict)
    simulation: Any = SimpleNamespace(take=dict, inexact=None)
    rows: list[Row] = []
    clock = PhaseClock(0)
    keeper = StateKeeper(plan, ALONE, trainer, simulation, None, rows.append, clock)

    def files() -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in tmp_path.rglob("*.pt")}

    seen = {"seen": torch.zeros(1, 1)}
    for _ in range(4):
        memory.add(seen, seen)
    assert keeper.after_iteration(1, 4)
    before = files()
    for _ in range(4):
        memory.add(seen, seen)
    trainer.state = lambda: (tmp_path / "journal-2-0.jsonl").touch() or {}
    with pytest.raises(RuntimeError, match="a later attempt has begun"):
        keeper.after_iteration(2, 8)
    assert len(rows) == 1
    assert before.items() <= files().items(), "the later attempt resumes from these files"
