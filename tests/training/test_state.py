"""Saving and restoring the state of a training."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ledger_lab.errors import UserError
from ledger_lab.files import file_sha256
from ledger_lab.runners.process_group import ALONE
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
