"""The files of a run that a page may show: policies, videos and the console. No link is followed out of the run."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from ledger_lab.ledger import Run
from ledger_lab.names import visible

_VIDEOS, _VIDEO = "videos", ".mp4"
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
    return (saved.path for saved in reversed(run.checkpoints) if _is_file(run.directory, saved.path))


def videos(run: Run) -> list[str]:
    """Return the videos of a run, the newest first; paths below its directory.

    Args:
        run: The run.
    """
    found = []
    for seen, (path, name) in enumerate(_files(run.directory / _VIDEOS)):
        if seen >= _MOST_VIDEOS:
            break
        if name.endswith(_VIDEO):
            below = os.path.relpath(path, run.directory)
            if (status := _status(run.directory, below)) is not None:
                found.append((status.st_mtime_ns, below))
    return [below for _, below in sorted(found, reverse=True)]


def console(run: Run) -> str | None:
    """Return the newest file with console output in the directory of a run; ``None`` if there is none.

    Args:
        run: The run.
    """
    try:
        names = os.listdir(run.directory)
    except OSError:
        return None
    numbered = [(int(match[1] or 1), name) for name in names if (match := _CONSOLE.fullmatch(name))]
    return max((each for each in numbered if _is_file(run.directory, each[1])), default=(0, None))[1]


def console_tail(run: Run, name: str, most_bytes: int) -> str:
    """Return the last lines of a console file, without colours, and with control characters as escape sequences.

    Args:
        run: The run.
        name: Name of the file, see :func:`console`.
        most_bytes: Size of the tail [B].

    Raises:
        OSError: If it can't be read.
    """
    with os.fdopen(open_below(run.directory, name), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - most_bytes))
        text = file.read(most_bytes).decode("utf-8", errors="replace")
    if size > most_bytes:
        text = text.partition("\n")[2] or text
    lines = _COLOURS.sub("", text).split("\n")
    return "\n".join(map(_shown, lines)).rstrip("\n")


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


def _files(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the files below a folder as paths and names; links to folders are not followed."""
    for directory, _, names in os.walk(folder):
        for name in names:
            yield os.path.join(directory, name), name


def _is_file(folder: Path, path: str) -> bool:
    """Tell whether there is such a file, and no link on the way."""
    return _status(folder, path) is not None


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
