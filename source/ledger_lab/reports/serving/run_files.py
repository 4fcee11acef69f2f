"""The files of a run that a page may show: policies, videos and the console. No link is followed out of the run."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path, PurePosixPath

from ledger_lab.ledger import Run
from ledger_lab.names import visible

_CONSOLE = re.compile(r"console(?:-(\d{1,9}))?\.log")

_MOST_VIDEOS = 1000
"""Files below the folder of videos that are looked at."""

_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""Escape sequences with which programs colour a terminal, or move its cursor."""


def policies(run: Run) -> Iterator[str]:
    """Yield the saved policies of a run that are files, the newest first; paths below its directory.

    Args:
        run: The run.
    """
    return (saved.path for saved in reversed(run.checkpoints) if _status(run.directory, saved.path) is not None)


def videos(run: Run) -> list[str]:
    """Return the videos of a run, the newest first; paths below its directory.

    Args:
        run: The run.
    """
    found = []
    for path in islice((run.directory / "videos").rglob("*"), _MOST_VIDEOS):  # which follows no link to a folder
        below = str(path.relative_to(run.directory))
        if below.endswith(".mp4") and (status := _status(run.directory, below)) is not None:
            found.append((status.st_mtime_ns, below))
    return [below for _, below in sorted(found, reverse=True)]


def console_end(run: Run, most_bytes: int) -> tuple[str, str] | None:
    """Return the newest console file of a run, and its last lines; ``None`` if there is none that can be read.

    The lines have no colours, and control characters are escape sequences.

    Args:
        run: The run.
        most_bytes: Size of the tail [B].
    """
    try:
        names = os.listdir(run.directory)
        numbered = [(int(match[1] or 1), name) for name in names if (match := _CONSOLE.fullmatch(name))]
        _, name = max(each for each in numbered if _status(run.directory, each[1]) is not None)
        with os.fdopen(open_below(run.directory, name), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - most_bytes))
            text = file.read(most_bytes).decode("utf-8", errors="replace")
    except (OSError, ValueError):  # there is none, or it was removed meanwhile
        return None
    if size > most_bytes:
        text = text.partition("\n")[2] or text
    return name, "\n".join(map(_shown, _COLOURS.sub("", text).split("\n"))).rstrip("\n")


def _shown(line: str) -> str:
    """Return a line as a terminal shows it. A progress bar goes back to its beginning: what it wrote last counts."""
    return visible(line.rstrip("\r").rpartition("\r")[2].replace("\t", "    "))


def open_below(folder: Path, path: str) -> int:
    """Open a file below a folder for reading, and follow no symbolic link on the way.

    Args:
        folder: The folder.
        path: Path of the file below it.

    Returns:
        A descriptor, which the caller closes.

    Raises:
        OSError: If there is no such regular file, or a link is on the way.
    """
    parts = PurePosixPath(path).parts
    if not parts or any(part in ("..", "/") for part in parts):
        raise FileNotFoundError(path)
    at = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            below = os.open(part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            os.close(at)
            at = below
        # Without O_NONBLOCK, opening a pipe would wait for its writer.
        opened = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
    finally:
        os.close(at)
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise FileNotFoundError(path)
    return opened


def _status(folder: Path, path: str) -> os.stat_result | None:
    """Return the status of a file below a folder; ``None`` if it can't be opened, or has no name that is text."""
    try:
        path.encode()  # what an address on the page consists of
        opened = open_below(folder, path)
    except (OSError, ValueError):  # bytes that are not UTF-8, or a name with NUL
        return None
    try:
        return os.fstat(opened)
    finally:
        os.close(opened)
