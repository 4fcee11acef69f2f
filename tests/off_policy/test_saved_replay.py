"""The replay memory on disk: the last state always stays whole."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ledger_lab.errors import UserError
from ledger_lab.ledger import REPLAY_FOLDER
from ledger_lab.off_policy.replay_memory import Column, ReplayMemory
from ledger_lab.training.saved_replay import SavedReplay, remove_saved_replay

STEPS, ENVS = 10, 2
COLUMNS = {"seen": Column(3, observed=True), "pixels": Column(2, torch.uint8, observed=True), "rewards": Column(1)}


def memory_of(steps: int = 0) -> ReplayMemory:
    """Return a memory with some steps."""
    memory = ReplayMemory(STEPS, ENVS, COLUMNS, torch.device("cpu"))
    add(memory, steps)
    return memory


def add(memory: ReplayMemory, steps: int) -> None:
    """Add steps without ends of episodes."""
    for step in range(memory.added, memory.added + steps):
        seen = torch.full((ENVS, 3), float(step))
        pixels = seen[:, :2].to(torch.uint8)
        memory.add({"seen": seen, "pixels": pixels, "rewards": -seen[:, :1]}, {"seen": seen + 1, "pixels": pixels + 1})


def files(run_dir: Path) -> list[str]:
    """Return the names of the files of the saved memory."""
    return sorted(file.name for file in (run_dir / REPLAY_FOLDER).iterdir())


def saved(keeper: SavedReplay) -> dict[str, str]:
    """Save a memory, as the state does."""
    state = keeper.save()
    keeper.remove_unused()
    return state


def require_same(one: ReplayMemory, other: ReplayMemory) -> None:
    """Check that two memories hold the same."""
    assert (one.added, len(one)) == (other.added, len(other))
    index = torch.arange(len(one))
    for name in COLUMNS:
        assert torch.equal(one.read(name, index), other.read(name, index))
    assert torch.equal(one._next, other._next)


def test_each_state_has_one_file_which_restores_the_memory(tmp_path: Path) -> None:
    memory = memory_of()
    for attempt in range(1, 5):
        add(memory, 4)
        keeper = SavedReplay(memory, tmp_path, attempt)
        state = saved(keeper)
        assert files(tmp_path) == [f"{4 * attempt}.{attempt}.pt"]
        assert memory.nbytes < keeper.size_bytes < memory.nbytes + 5000
        restored = memory_of()
        assert SavedReplay(restored, tmp_path, attempt + 1).restore(state) is None
        require_same(restored, memory)


def test_an_interrupted_save_leaves_the_last_state_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = memory_of(8)
    keeper = SavedReplay(memory, tmp_path, 1)
    state = saved(keeper)
    add(memory, 9)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full, pytest.raises(OSError, match="No space left"):
        full.setattr(torch, "save", fail)
        keeper.save()
    assert files(tmp_path) == ["8.1.pt"], "the end of the attempt must still be written"
    keeper.save()  # killed before the state that belongs to it was complete
    restored = memory_of()
    SavedReplay(restored, tmp_path, 2).restore(state)
    require_same(restored, memory_of(8))
    assert files(tmp_path) == ["8.1.pt"], "what the killed attempt wrote takes no room from the next save"


def test_a_saved_memory_on_another_disk_is_removed_with_the_link_to_it(tmp_path: Path) -> None:
    disk, run_dir = tmp_path / "disk", tmp_path / "run"
    disk.mkdir()
    run_dir.mkdir()
    remove_saved_replay(run_dir)  # there is none
    (run_dir / REPLAY_FOLDER).symlink_to(disk)
    saved(SavedReplay(memory_of(3), run_dir, 1))
    assert files(run_dir) == ["3.1.pt"]
    (disk / "thesis.pt").touch()
    SavedReplay(memory_of(), run_dir, 1).remove_unused()
    remove_saved_replay(run_dir)
    assert [file.name for file in disk.iterdir()] == ["thesis.pt"], "other files stay"
    (disk / "thesis.pt").unlink()
    (run_dir / REPLAY_FOLDER).symlink_to(disk)
    remove_saved_replay(run_dir)
    assert [each.name for each in tmp_path.iterdir()] == ["run"] and not list(run_dir.iterdir())


@pytest.mark.parametrize(
    ("other", "complaint"),
    [
        ({"pixels": Column(2, observed=True)}, "8.1.pt has other columns: pixels of shape"),
        ({"pixels.0": Column(2, torch.uint8, observed=True)}, "has other columns: "),
    ],
)
def test_a_memory_with_other_columns_begins_empty(other: dict[str, Column], complaint: str, tmp_path: Path) -> None:
    state = saved(SavedReplay(memory_of(8), tmp_path, 1))
    columns = {"seen": COLUMNS["seen"], **other, "rewards": COLUMNS["rewards"]}
    restored = ReplayMemory(STEPS, ENVS, columns, torch.device("cpu"))
    assert complaint in (SavedReplay(restored, tmp_path, 2).restore(state) or "")
    assert len(restored) == 0


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda file: file.write_bytes(file.read_bytes()[:-1] + b"x"), "is damaged: its SHA-256 is"),
        (lambda file: file.unlink(), "is missing"),
    ],
)
def test_a_damaged_file_is_not_loaded_and_the_next_save_is_whole(damage: Any, complaint: str, tmp_path: Path) -> None:
    state = saved(SavedReplay(memory_of(8), tmp_path, 1))
    damage(tmp_path / REPLAY_FOLDER / "8.1.pt")
    restored = memory_of()
    again = SavedReplay(restored, tmp_path, 2)
    assert complaint in (again.restore(state) or "")
    assert len(restored) == 0
    add(restored, 4)
    state = saved(again)
    assert files(tmp_path) == ["4.2.pt"]
    whole = memory_of()
    assert SavedReplay(whole, tmp_path, 3).restore(state) is None
    require_same(whole, restored)


def test_a_disk_that_is_too_small_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = SavedReplay(memory_of(8), tmp_path, 1)
    needed = keeper.largest_bytes
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=needed))
    keeper.require_disk_space("agent.memory.memory_size")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=needed - 1))
    complaint = r"--save_replay: .* GB are free in .*: free some space, or start a run with a smaller agent"
    with pytest.raises(UserError, match=complaint) as refused:
        keeper.require_disk_space("agent.memory.memory_size")
    assert "\n" not in str(refused.value)
    saved(keeper)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=needed - keeper.size_bytes))
    keeper.require_disk_space("agent.memory.memory_size")
