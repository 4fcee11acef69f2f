"""Errors that a user can cause, told in one line."""

from __future__ import annotations

import difflib
import errno
import re
import traceback
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType


class UserError(Exception):
    """A request that cannot be carried out as given.

    The message is one line that names the thing and the way out. Scripts print it without a traceback and exit with
    status 2.
    """


def as_user_error(error: BaseException) -> UserError | None:
    """Return the error for the user behind an error of the system; ``None`` if it is anything else.

    Any program can meet these: names that no file can have, limits of the system on this user or process, and a disk
    that fails.

    Args:
        error: The error.
    """
    if isinstance(error, UserError):
        return error
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return UserError(f"{error.filename}: {error.strerror}: give a shorter name")
    if isinstance(error, OSError) and error.errno in _OF_DISK and error.filename is not None:
        return UserError(f"{error.filename}: {error.strerror}: {_OF_DISK[error.errno]}")
    if isinstance(error, OSError) and error.errno == errno.EAGAIN and _started_process(error):
        return UserError(f"cannot start a process ({error.strerror}): {_FEWER_PROCESSES}")
    for each in (error, error.__cause__):
        if isinstance(each, ImportError | OSError) and _NO_MEMORY.search(str(each)):
            return UserError(
                f"not enough memory ({first_line(each)}): free some, or raise the limit of this process (ulimit -v)"
            )
    if isinstance(error, ValueError) and str(error).startswith("embedded null"):
        return UserError("a path contains the character NUL: name another path")
    if isinstance(error, UnicodeEncodeError) and error.reason == "surrogates not allowed":
        return UserError(f"{error.object!r} is not UTF-8: give a name that a library can write")
    if isinstance(error, RuntimeError) and str(error).startswith("Symlink loop"):  # from Path.resolve
        return UserError(f"{first_line(error)}: name a file or a folder instead")
    if isinstance(error, RuntimeError) and str(error) == "can't start new thread":
        return UserError(f"cannot start a thread: {_FEWER_PROCESSES}")
    return None


class FirstErrorStack(ExitStack):
    """An ``ExitStack`` whose closing does not replace the error that ended its block.

    When a GPU is lost, everything that is closed afterwards fails, too. Such errors become notes of the first error.
    """

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> bool | None:
        """Close everything; only an error that was raised *from* the first one replaces it."""
        try:
            return super().__exit__(kind, error, trace)
        except BaseException as later:
            if error is None or later is error or later.__cause__ is not None:
                raise
            error.add_note(f"closing failed, too: {type(later).__name__}: {first_line(later)}")
            return False


_OF_DISK = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space, or ask for a larger quota",
    errno.EROFS: "the system may have made the disk read-only after an error; see dmesg",
    errno.EIO: "the disk or its server may be broken; see dmesg",
    errno.ESTALE: "the server of this file system has removed or replaced the file",
}
"""Errors of a disk or a file server, with what to do."""

_NO_MEMORY = re.compile("Cannot allocate memory|failed to map segment from shared object")
"""Messages of the C library and of the loader of libraries when memory, or the limit of addresses, runs out."""

_FEWER_PROCESSES = "the limit of this user or container is reached; end some processes, or raise the limit (ulimit -u)"


def _started_process(error: BaseException) -> bool:
    """Tell whether an error comes from a line that starts a process, and not from a socket."""
    frames = traceback.extract_tb(error.__traceback__)[-2:]
    return any("fork" in (frame.line or "") or Path(frame.filename).name == "subprocess.py" for frame in frames)


_MOST_KNOWN = 30
"""Names that :func:`nearest` lists at most."""


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message; without a message, the name of its type."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def place_of(error: BaseException, folder: Path | None = None) -> str:
    """Describe an error of foreign code in one line, with the file and line that it comes from.

    Args:
        error: The error, as it was caught.
        folder: Folder of the user's code. The deepest line of the traceback in this folder is named; without a folder,
            or if no line is in it, the deepest line outside LedgerLab and Python's import system.
    """
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{type(error).__name__}: {error.msg} ({error.filename}:{error.lineno})"
    files = [(Path(frame.filename), frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    own = [(file, line) for file, line in files if folder is not None and file.is_relative_to(folder)]
    foreign = [(file, line) for file, line in files if not _is_own_or_import_system(file)]
    where = "".join(f" ({file}:{line})" for file, line in (own or foreign)[-1:])
    return f"{type(error).__name__}: {first_line(error)}{where}"


def _is_own_or_import_system(file: Path) -> bool:
    """Tell whether a file of a traceback is part of LedgerLab or of Python's import system."""
    return file.is_relative_to(Path(__file__).parent) or "importlib" in str(file)


def nearest(name: str, known: Iterable[str]) -> str:
    """Suggest what the user may have meant.

    Args:
        name: The name that was not found.
        known: All names that exist.

    Returns:
        ``"did you mean 'a' or 'b'?"`` when something is close, otherwise the list of the known names; of many, the
        first ones and the count.
    """
    names = sorted(set(known))
    folded = {candidate.casefold(): candidate for candidate in names}
    close = [folded[match] for match in difflib.get_close_matches(name.casefold(), folded, n=3, cutoff=0.5)]
    if close:
        return "did you mean " + " or ".join(repr(candidate) for candidate in close) + "?"
    more = f" and {len(names) - _MOST_KNOWN} more" if len(names) > _MOST_KNOWN else ""
    return "known: " + (", ".join(names[:_MOST_KNOWN]) if names else "none") + more
