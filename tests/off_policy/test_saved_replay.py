"""The replay memory on disk: only new steps are written, and the last state always stays whole."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ledger_lab.errors import UserError
from ledger_lab.ledger import REPLAY_FOLDER
from ledger_lab.off_policy import saved_replay
from ledger_lab.off_policy.replay_memory import Column, ReplayMemory
from ledger_lab.off_policy.saved_replay import SavedReplay, remove_saved_replay

STEPS, ENVS = 10, 2


def memory_of(steps: int = STEPS) -> ReplayMemory:
    """Return an empty memory."""
    columns = {"seen": Column(3, observed=True), "pixels": Column(2, torch.uint8, observed=True), "rewards": Column(1)}
    return ReplayMemory(steps, ENVS, columns, torch.device("cpu"))


def add(memory: ReplayMemory, steps: int) -> None:
    """Add steps without ends of episodes."""
    for step in range(memory.added, memory.added + steps):
        seen = torch.full((ENVS, 3), float(step))
        pixels = seen[:, :2].to(torch.uint8)
        memory.add({"seen": seen, "pixels": pixels, "rewards": -seen[:, :1]}, {"seen": seen + 1, "pixels": pixels + 1})


def files(run_dir: Path) -> dict[str, int]:
    """Return the files of the saved memory, with the times of their last changes."""
    return {file.name: file.stat().st_mtime_ns for file in (run_dir / REPLAY_FOLDER).iterdir()}


def saved(keeper: SavedReplay) -> dict[str, Any]:
    """Save a memory, as the state does."""
    state = keeper.save()
    keeper.remove_unused()
    return state


def fail(*_: object) -> None:
    """Fail as on a full disk."""
    raise OSError(28, "No space left on device")


def require_same(one: ReplayMemory, other: ReplayMemory) -> None:
    """Check that two memories hold the same."""
    assert (one.added, len(one)) == (other.added, len(other))
    index = torch.arange(len(one))
    for name in ("seen", "pixels", "rewards"):
        assert torch.equal(one.read(name, index), other.read(name, index))
    assert torch.equal(one._next, other._next)


@pytest.mark.parametrize("attempts", [1, 2], ids=["one attempt", "resumed after each save"])
def test_each_save_writes_the_new_steps_and_removes_what_no_state_needs(attempts: int, tmp_path: Path) -> None:
    memory = memory_of()
    keeper = SavedReplay(memory, tmp_path, 1, 4)
    before: dict[str, int] = {}
    for attempt in range(1, 9):
        add(memory, 4)
        state = saved(keeper)
        now = files(tmp_path)
        assert len(now.keys() - before.keys()) == 1, "only new steps are written"
        assert all(before[name] == time for name, time in now.items() if name in before), "and nothing else"
        held = sum((tmp_path / REPLAY_FOLDER / name).stat().st_size for name in now)
        assert keeper.size_bytes == held
        tensors = sum(int(last) - int(first) for first, last in (name.split(".")[0].split("-") for name in now))
        assert tensors * memory.saved_step_bytes <= keeper.largest_bytes
        before = now
        restored = memory_of()
        another = SavedReplay(restored, tmp_path, attempt + 1, 4)
        another.restore(state)
        require_same(restored, memory)
        if attempts > 1:
            memory, keeper = restored, another
    assert len(before) < 5


def test_large_segments_are_divided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_replay, "_SEGMENT_BYTES", 3 * memory_of().saved_step_bytes)
    memory = memory_of()
    add(memory, 25)
    state = saved(SavedReplay(memory, tmp_path, 1, 4))
    assert sorted(files(tmp_path)) == ["15-18.1.pt", "18-21.1.pt", "21-24.1.pt"]
    restored = memory_of()
    SavedReplay(restored, tmp_path, 2, 4).restore(state)
    require_same(restored, memory)


def test_an_interrupted_save_leaves_the_last_state_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = memory_of()
    keeper = SavedReplay(memory, tmp_path, 1, 4)
    add(memory, 8)
    state, then = saved(keeper), memory.newest()
    add(memory, 9)
    save = torch.save

    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(OSError, match="No space left"):
        keeper.save()
    monkeypatch.setattr(torch, "save", save)
    keeper.save()  # killed before the state that belongs to it was complete
    restored = memory_of()
    again = SavedReplay(restored, tmp_path, 2, 4)
    again.restore(state)
    assert sorted(files(tmp_path)) == ["0-7.1.pt"], "what the killed attempt wrote takes no room from the next save"
    assert restored.added == then["added"] == 8
    add(restored, 8)
    saved(again)
    assert sorted(files(tmp_path)) == ["0-7.1.pt", "7-15.2.pt"]


def test_a_save_that_a_full_disk_ends_gives_the_room_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the attempt must still be written."""
    monkeypatch.setattr(saved_replay, "_SEGMENT_BYTES", 3 * memory_of().saved_step_bytes)
    memory = memory_of()
    keeper = SavedReplay(memory, tmp_path, 1, 4)
    add(memory, 4)
    saved(keeper)
    before = files(tmp_path)
    add(memory, 6)
    save, calls = torch.save, iter(range(9))

    def fill(*asked: Any) -> None:
        save(*asked)
        if next(calls):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", fill)
    with pytest.raises(OSError, match="No space left"):
        keeper.save()
    assert files(tmp_path) == before


def test_what_cannot_be_removed_does_not_end_a_training(tmp_path: Path) -> None:
    memory = memory_of()
    keeper = SavedReplay(memory, tmp_path, 1, 4)
    (tmp_path / REPLAY_FOLDER / "copies").mkdir(parents=True)
    add(memory, 4)
    saved(keeper)
    assert sorted(files(tmp_path)) == ["0-3.1.pt", "copies"]


def test_a_state_without_old_steps_needs_no_folder(tmp_path: Path) -> None:
    memory = memory_of()
    add(memory, 1)
    state = saved(SavedReplay(memory, tmp_path, 1, 4))
    (tmp_path / REPLAY_FOLDER).rmdir()  # tools that copy files leave empty folders out
    restored = memory_of()
    SavedReplay(restored, tmp_path, 2, 4).restore(state)
    require_same(restored, memory)


def test_a_saved_memory_on_another_disk_is_removed_with_the_link_to_it(tmp_path: Path) -> None:
    disk, run_dir = tmp_path / "disk", tmp_path / "run"
    disk.mkdir()
    run_dir.mkdir()
    (run_dir / REPLAY_FOLDER).symlink_to(disk)
    memory = memory_of()
    add(memory, 3)
    saved(SavedReplay(memory, run_dir, 1, 4))
    assert [file.name for file in disk.iterdir()] == ["0-2.1.pt"]
    (disk / "thesis.pt").touch()
    SavedReplay(memory, run_dir, 1, 4).remove_unused()
    remove_saved_replay(run_dir)
    assert [file.name for file in disk.iterdir()] == ["thesis.pt"], "other files stay"
    (disk / "thesis.pt").unlink()
    (run_dir / REPLAY_FOLDER).symlink_to(disk)
    remove_saved_replay(run_dir)
    assert [each.name for each in tmp_path.iterdir()] == ["run"] and not list(run_dir.iterdir())


@pytest.mark.parametrize(
    ("other", "complaint"),
    [
        ({"pixels": Column(2, observed=True)}, "0-7.1.pt has other columns: pixels of shape"),
        ({"pixels.0": Column(2, torch.uint8, observed=True)}, "has other columns: "),
    ],
)
def test_a_memory_with_other_columns_begins_empty(other: dict[str, Column], complaint: str, tmp_path: Path) -> None:
    memory = memory_of()
    keeper = SavedReplay(memory, tmp_path, 1, 4)
    add(memory, 8)
    state = saved(keeper)
    columns = {"seen": Column(3, observed=True), **other, "rewards": Column(1)}
    restored = ReplayMemory(STEPS, ENVS, columns, torch.device("cpu"))
    assert complaint in (SavedReplay(restored, tmp_path, 2, 4).restore(state) or "")
    assert len(restored) == 0


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda file: file.write_bytes(file.read_bytes()[:-1] + b"x"), "is damaged: its SHA-256 is"),
        (lambda file: file.unlink(), "is missing"),
    ],
)
def test_with_a_damaged_file_nothing_is_loaded_and_the_next_save_is_whole(
    damage: Any, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = memory_of()
    keeper = SavedReplay(memory, tmp_path, 1, 4)
    for _ in range(2):
        add(memory, 4)
        state = saved(keeper)
    damage(tmp_path / REPLAY_FOLDER / "3-7.1.pt")
    restored = memory_of()
    again = SavedReplay(restored, tmp_path, 2, 4)
    assert complaint in (again.restore(state) or "")
    assert len(restored) == 0
    whole_files = files(tmp_path)
    add(restored, 4)
    with monkeypatch.context() as full:
        full.setattr(torch, "save", fail)
        with pytest.raises(OSError, match="No space left"):
            again.save()
    assert files(tmp_path) == whole_files, "until the next state is complete, a user can restore the damaged file"
    state = saved(again)
    assert sorted(files(tmp_path)) == ["0-3.2.pt"]
    whole = memory_of()
    assert SavedReplay(whole, tmp_path, 3, 4).restore(state) is None
    require_same(whole, restored)


def test_a_disk_that_is_too_small_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = memory_of()
    keeper = SavedReplay(memory, tmp_path, 1, 4)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=keeper.largest_bytes))
    keeper.require_disk_space("agent.memory.memory_size")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=keeper.largest_bytes - 1))
    complaint = (
        r"--save_replay: .* needs up to .* GB are free in .*: free some space, or start a run with a smaller agent"
    )
    with pytest.raises(UserError, match=complaint) as refused:
        keeper.require_disk_space("agent.memory.memory_size")
    assert "\n" not in str(refused.value)
    add(memory, 8)
    saved(keeper)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=keeper.largest_bytes - keeper.size_bytes))
    keeper.require_disk_space("agent.memory.memory_size")


def test_the_most_disk_space_is_never_more_than_three_memories() -> None:
    whole = STEPS * memory_of().saved_step_bytes
    for steps_between in (1, 4, 10, 1000, float("inf")):
        keeper = SavedReplay(memory_of(), Path("unused"), 1, steps_between)
        assert whole < keeper.largest_bytes <= 3 * whole


def test_an_earlier_attempt_may_have_saved_less_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = memory_of()
    add(memory, 20)
    state = saved(SavedReplay(memory, tmp_path, 1, 1000))
    restored = memory_of()
    again = SavedReplay(restored, tmp_path, 2, 1)
    again.restore(state)
    largest = 0
    for _ in range(2 * STEPS):
        add(restored, 1)
        again.save()
        spans = (file.split(".")[0].split("-") for file in files(tmp_path))
        largest = max(largest, sum(int(last) - int(first) for first, last in spans) * restored.saved_step_bytes)
        again.remove_unused()
    assert largest <= again.largest_bytes <= 3 * STEPS * restored.saved_step_bytes
    monkeypatch.setattr(saved_replay, "_SEGMENT_BYTES", 2 * restored.saved_step_bytes)
    small = SavedReplay(memory_of(), tmp_path, 2, 1)
    assert small.largest_bytes == (STEPS + 1 + 2) * restored.saved_step_bytes, "no file is larger than a segment"


def test_nothing_remains_of_a_run_that_is_over(tmp_path: Path) -> None:
    remove_saved_replay(tmp_path)
    memory = memory_of()
    add(memory, 3)
    SavedReplay(memory, tmp_path, 1, 4).save()
    remove_saved_replay(tmp_path)
    assert not list(tmp_path.iterdir())
