"""Saves and restores the replay memory of a training, in a file beside its state.

The state names the file that belongs to it, with its hash. An older file is removed after the newer state is complete
on disk, so an interrupted save leaves the last state and its file as they were.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from ledger_lab.errors import UserError, first_line
from ledger_lab.files import file_sha256, remove, whole_file
from ledger_lab.ledger import REPLAY_FOLDER

if TYPE_CHECKING:
    from ledger_lab.off_policy.replay_memory import ReplayMemory

_NAME = re.compile(r"\d+\.\d+\.pt(\.partial)?")
"""Matches the names of the files: steps in the memory's life, and the attempt that wrote them."""


class SavedReplay:
    """The replay memory of one process, on disk."""

    def __init__(self, memory: ReplayMemory, run_dir: Path, attempt: int) -> None:
        """Start with nothing saved.

        Args:
            memory: The replay memory.
            run_dir: The run's directory.
            attempt: Number of the attempt.
        """
        self._memory, self._folder, self._attempt = memory, run_dir / REPLAY_FOLDER, attempt
        self._path: Path | None = None

    @property
    def size_bytes(self) -> int:
        """Size of the file that belongs to the last state [B]."""
        return 0 if self._path is None else self._path.stat().st_size

    @property
    def largest_bytes(self) -> int:
        """Most disk space that the files need [B], while a new state replaces an old one."""
        return 2 * self._memory.nbytes

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

    def save(self) -> dict[str, str]:
        """Write the memory to a new file.

        Returns:
            What the state must hold for :meth:`restore`.

        Raises:
            OSError: If the disk can't be written.
        """
        self._folder.mkdir(exist_ok=True)
        path = self._folder / f"{self._memory.added}.{self._attempt}.pt"
        with whole_file(path) as unfinished:
            torch.save(self._memory.state(), unfinished)
            sha256 = file_sha256(unfinished)
        self._path = path
        return {"file": path.name, "sha256": sha256}

    def remove_unused(self) -> None:
        """Remove the files that the last state does not need. Call it when this state is complete on disk."""
        _remove_files(self._folder, kept=self._path)

    def restore(self, saved: Mapping[str, str]) -> str | None:
        """Fill the memory with what was saved, and remove what an interrupted save has left.

        Args:
            saved: Result of :meth:`save`, from a state whose hash the ledger knows.

        Returns:
            Why the file can't be used, if it is missing, has changed or has other columns. Then the memory stays empty,
            and no file is removed before the next save.
        """
        path = self._folder / Path(saved["file"]).name
        if not path.is_file():
            return f"{path} is missing"
        if (found := file_sha256(path)) != saved["sha256"]:
            return f"{path} is damaged: its SHA-256 is {found[:12]}…, not {saved['sha256'][:12]}…"
        try:
            self._memory.restore(torch.load(path, weights_only=True, map_location="cpu"))
        except (KeyError, ValueError) as error:
            return f"{path} has other columns: {first_line(error)}"
        self._path = path
        self.remove_unused()
        return None


def _remove_files(folder: Path, kept: Path | None = None) -> None:
    """Remove the saved memories in a folder but one, if they can be removed. Other files stay."""
    for file in folder.glob("*"):
        if _NAME.fullmatch(file.name) and file != kept:
            with suppress(OSError):  # such as a file that a network file system keeps for a reader
                remove(file)


def remove_saved_replay(run_dir: Path) -> None:
    """Remove the saved replay memory of a run that has ended for good, if there is one.

    Users may have moved it to a larger disk, with a link to it. Other files in the folder stay.

    Args:
        run_dir: The run's directory.
    """
    folder = run_dir / REPLAY_FOLDER
    _remove_files(folder)
    with suppress(OSError):
        folder.resolve().rmdir()
    if folder.is_symlink():
        folder.unlink()
