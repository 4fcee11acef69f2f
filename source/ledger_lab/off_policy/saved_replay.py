"""Saves and restores the replay memory of a training, beside its state.

A replay memory can be as large as the memory of a GPU, and between two states only a part of it changes. So it is saved
in segments: files that hold some steps of all environments, and never change. Each save writes the steps since the last
save. The state names the segments that belong to it, with their hashes. A segment is removed after a newer state,
which does not need it, is complete on disk. So an interrupted save leaves the last state and its segments as they were.
"""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
import torch

from ledger_lab.errors import UserError, first_line
from ledger_lab.files import file_sha256, remove, whole_file
from ledger_lab.ledger import REPLAY_FOLDER
from ledger_lab.ledger.row import Count, Positive
from ledger_lab.off_policy.replay_memory import ReplayMemory

_SEGMENT_BYTES = 1 << 28
"""Size of the largest segment [B], which is copied to the host's memory while it is written. A step that is larger has
a segment of its own."""


def _segment_name(first: int, last: int, attempt: int) -> str:
    """Return the name of the file with the steps from ``first`` up to, not including, ``last``."""
    return f"{first}-{last}.{attempt}.pt"


def _names_in(folder: Path) -> list[str]:
    """Return the names of the files in a folder that :func:`_segment_name` has named, unfinished ones included."""
    return [file.name for file in folder.glob("*") if re.fullmatch(r"\d+-\d+\.\d+\.pt(\.partial)?", file.name)]


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A file with some steps of all environments."""

    first: Count
    """Number of its first step, counted from the start of the replay memory."""
    last: Positive
    """Number of the step after its last one."""
    attempt: Positive
    """Number of the attempt that wrote it."""
    sha256: str
    size_bytes: Count

    @property
    def name(self) -> str:
        """Name of the file."""
        return _segment_name(self.first, self.last, self.attempt)


class SavedReplay:
    """The replay memory of one process, on disk."""

    def __init__(self, memory: ReplayMemory, run_dir: Path, attempt: int, steps_between: float) -> None:
        """Start with nothing saved.

        Args:
            memory: The replay memory.
            run_dir: The run's directory.
            attempt: Number of the attempt.
            steps_between: Most steps of each environment between two states; infinite if there is no limit.
        """
        self._memory, self._folder, self._attempt = memory, run_dir / REPLAY_FOLDER, attempt
        self._steps_each = max(1, _SEGMENT_BYTES // memory.saved_step_bytes)
        self._steps_between = min(steps_between, memory.steps)
        self._segments: list[Segment] = []

    @property
    def size_bytes(self) -> int:
        """Size of the files that belong to the last state [B]."""
        return sum(segment.size_bytes for segment in self._segments)

    @property
    def largest_bytes(self) -> int:
        """Most disk space that the files will need [B], while a new state replaces an old one.

        This is the whole memory, the new steps, and the steps of the oldest segment that are no longer needed. That
        segment may come from an earlier attempt, which may have saved less often. The priorities of all transitions are
        in the old and in the new state.
        """
        between = self._steps_between if self._attempt == 1 else self._memory.steps
        unneeded = min(between, self._steps_each)
        steps = math.ceil(self._memory.steps + self._steps_between + unneeded)
        return steps * self._memory.saved_step_bytes + 2 * self._memory.priority_bytes

    def require_disk_space(self, setting: str) -> None:
        """Refuse a disk on which the files will not fit.

        Args:
            setting: Setting of the agent's configuration for the steps of the memory.

        Raises:
            UserError: If they need more space than is free.
        """
        folder = self._folder if self._folder.is_dir() else self._folder.parent
        free = shutil.disk_usage(folder).free + sum(file.stat().st_size for file in self._folder.glob("*"))
        if self.largest_bytes > free:
            raise UserError(
                f"--save_replay: the saved replay memory needs up to {self.largest_bytes / 1e9:.1f} GB of disk space, "
                f"and {free / 1e9:.1f} GB are free in {folder}: free some space, or start a run with a "
                f"smaller {setting}, or with --log_root on another disk"
            )

    def save(self) -> dict[str, Any]:
        """Write the steps since the last save.

        Returns:
            What the state must hold for :meth:`restore`.

        Raises:
            OSError: If the disk can't be written.
        """
        memory = self._memory
        kept = [segment for segment in self._segments if segment.last > memory.oldest]
        settled = memory.added - 1  # the newest step may still be cut off, so the state itself holds it
        first = kept[-1].last if kept else memory.oldest
        self._folder.mkdir(exist_ok=True)
        written: list[Segment] = []
        try:
            for begin in range(first, settled, self._steps_each):
                written.append(self._write(begin, min(begin + self._steps_each, settled)))  # noqa: PERF401 - kept if one fails
        except BaseException:
            self._remove(segment.name for segment in written)  # a full disk needs room for the end of the attempt
            raise
        self._segments = [*kept, *written]
        return {"segments": [asdict(segment) for segment in self._segments], "newest": memory.newest()}

    def remove_unused(self) -> None:
        """Remove the files that the last state does not need. Call it when this state is complete on disk.

        What can't be removed stays until the next save, such as a file that a network file system keeps for a reader.
        """
        used = {segment.name for segment in self._segments}
        self._remove(name for name in _names_in(self._folder) if name not in used)

    def _remove(self, names: Iterable[str]) -> None:
        """Remove files of the folder, if they can be removed."""
        for name in names:
            with suppress(OSError):
                remove(self._folder / name)

    def restore(self, saved: Mapping[str, Any]) -> str | None:
        """Fill the memory with what was saved, and remove what an interrupted save has left.

        Args:
            saved: Result of :meth:`save`, from a state whose hash the ledger knows.

        Returns:
            Which file is missing, has changed or has other columns, if there is one. Then the memory stays empty, and
            no file is removed before the next save.
        """
        segments = [msgspec.convert(segment, Segment) for segment in saved["segments"]]
        for segment in segments:
            if damage := _damage(self._folder / segment.name, segment.sha256):
                return damage
        oldest = max(0, saved["newest"]["added"] - self._memory.steps)
        for segment in segments:
            content = torch.load(self._folder / segment.name, weights_only=True, map_location="cpu")
            overwritten = max(0, oldest - segment.first)
            steps = {name: values[overwritten:] for name, values in content.items()}
            try:
                self._memory.write_steps(segment.first + overwritten, steps)
            except (KeyError, ValueError) as error:  # of another version, which stored images as floats, for example
                return f"{self._folder / segment.name} has other columns: {first_line(error)}"
        self._memory.restore_newest(saved["newest"])
        self._segments = segments
        self.remove_unused()
        return None

    def _write(self, first: int, last: int) -> Segment:
        """Write a segment."""
        path = self._folder / _segment_name(first, last, self._attempt)
        with whole_file(path) as unfinished:
            torch.save(self._memory.copy_steps(first, last), unfinished)
            sha256, size = file_sha256(unfinished), unfinished.stat().st_size
        return Segment(first=first, last=last, attempt=self._attempt, sha256=sha256, size_bytes=size)


def _damage(path: Path, sha256: str) -> str | None:
    """Tell whether a file is missing or has changed; ``None`` if it is whole."""
    if not path.is_file():
        return f"{path} is missing"
    found = file_sha256(path)
    return None if found == sha256 else f"{path} is damaged: its SHA-256 is {found[:12]}…, not {sha256[:12]}…"


def remove_saved_replay(run_dir: Path) -> None:
    """Remove the saved replay memory of a run that has ended for good, if there is one.

    Users may have moved it to a larger disk, with a link to it. Other files in the folder stay.

    Args:
        run_dir: The run's directory.
    """
    folder = run_dir / REPLAY_FOLDER
    with suppress(OSError):
        for name in _names_in(folder):
            remove(folder / name)
        folder.resolve().rmdir()
    if folder.is_symlink():
        folder.unlink()
