"""Runs a program as a script: errors in one line, and exit statuses.

It prepares what a program needs around it: a terminal that can show every text, a home folder, threads that sleep, and
Warp's cache of compiled kernels.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import pkgutil
import re
import select
import stat
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NoReturn

from ledger_lab.errors import UserError, as_user_error
from ledger_lab.ledger.cores import imports
from ledger_lab.ledger.endings import Terminated
from ledger_lab.reports.terminal.console import tell_error

_UNFINISHED = re.compile(r"_p\d+_t\d+")
"""End of the name of a folder that another process compiles into."""


def cache_home(environ: Mapping[str, str]) -> Path:
    """Return the folder for the caches of all programs.

    Args:
        environ: The environment.
    """
    return Path(environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or "/nonexistent") / ".cache")


def require_kernel_cache(environ: Mapping[str, str]) -> Path:
    """Return the folder of compiled kernels, which is created if needed.

    Kernels that others have compiled can be used from a folder that this user can't write.

    Args:
        environ: The environment.

    Raises:
        UserError: If it can't be written and holds no kernels, or a file in it is empty. A full disk or a power failure
            leaves empty files.
    """
    folder = Path(environ.get("WARP_CACHE_PATH") or cache_home(environ) / "warp")
    reason: str | None = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror
    modules = [module for module in folder.glob("*/wp_*") if not _UNFINISHED.search(module.name)]
    if reason is None and not modules and not os.access(folder, os.W_OK):
        reason = os.strerror(errno.EACCES)
    if reason is not None:
        raise UserError(
            f"compiled kernels can't be kept in {folder} ({reason}): set WARP_CACHE_PATH to a writable folder"
        )
    for file in (file for module in modules for file in module.iterdir()):
        if not file.stat().st_size:
            raise UserError(f"the compiled kernel {file} is empty; the disk may have been full: remove {folder}")
    return folder


_PLAIN = {
    "–": "-", "—": "-", "−": "-", "·": "|", "…": "...", "×": "x", "÷": "/", "→": "->", "≥": ">=", "≤": "<=", "±": "+/-",
    "≈": "~", "µ": "u", "█": "#", "■": "#", "▼": "v", "★": "*", "✓": "ok", "‑": "-", "’": "'", "“": '"', "”": '"',
}  # fmt: skip
"""Characters of our own output in ASCII."""

_OTHERS_WRITE = 0o002
"""Permission bit with which every user may write."""

_ERRORS = "ledger_lab.plain"

SPINS = 2000
"""How often a thread of OpenMP looks for new work before it sleeps: about 0.04 ms. OpenMP's own number is 150 times as
large. While other programs use the cores, most of the processor time of a training would then pass in such waiting."""


def accept_surroundings() -> None:
    """Replace characters that standard streams cannot show, and give a home folder to a user without one.

    No file or folder that this process or its children create can be written by every user of the machine, whatever the
    umask: what a run holds decides what a later program loads.

    Call it before torch is imported, because it also bounds how long torch's threads wait without sleeping.

    A terminal or pipe may be ASCII or Latin-1 (``PYTHONIOENCODING``, ``LC_ALL``), and file names may be no text at all.
    In a container, a user may have no ``$HOME`` and no entry in ``/etc/passwd``. Libraries then write into a folder
    named ``~``, or fail as they ask for the user's name.
    """
    os.umask(os.umask(_OTHERS_WRITE) | _OTHERS_WRITE)
    codecs.register_error(_ERRORS, _in_other_characters)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ERRORS)
    home = os.path.expanduser("~")
    if not os.path.isabs(home):
        home = str(_private_home())
        for name in ("LOGNAME", "USER"):
            os.environ.setdefault(name, str(os.getuid()))
    if not os.path.isabs(os.environ.get("HOME", "")):
        os.environ["HOME"] = home
    let_threads_sleep()


def let_threads_sleep() -> None:
    """Bound how long threads of OpenMP wait without sleeping, unless the user has set this. Call it before torch."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", str(SPINS))


def compile_forward_only() -> None:
    """Let Warp compile no derivatives of its kernels, which nothing here uses: they are half of what it compiles.

    Isaac Lab's own programs do the same. A module of kernels keeps the setting that it finds when it is imported, so
    call this before Isaac Lab and Newton are imported.
    """
    with suppress(ImportError):  # whoever needs Warp says so
        import warp

        warp.config.enable_backward = False


def _in_other_characters(error: UnicodeError) -> tuple[str, int]:
    """Replace what can't be encoded: by similar characters, or by the escape sequence that Python writes for it."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    shown = "".join(_PLAIN.get(each) or each.encode("unicode_escape").decode() for each in missing)
    return shown, error.end


def _private_home() -> Path:
    """Return a folder below the temporary folder for caches, which only this user can write."""
    folder = Path(tempfile.gettempdir(), f"ledger_lab-home-{os.getuid()}")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return Path(tempfile.mkdtemp(prefix="ledger_lab-home-"))
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    return folder if ours else Path(tempfile.mkdtemp(prefix="ledger_lab-home-"))


EXIT_NOBODY_READS = 141
"""Exit status that shells show for a program that SIGPIPE ended."""


def run_script(program: Callable[[Sequence[str]], int | None]) -> NoReturn:
    """Run a program with the command line, and exit with its status.

    An error that the user can correct is printed in one line, with status 2. If foreign code caused it, ``--verbose``
    prints the traceback first.

    Args:
        program: Takes the command line without the program's name, and returns the exit status.
    """
    accept_surroundings()
    try:
        try:
            _require_working_folder()
            sys.exit(program(sys.argv[1:]))
        finally:
            sys.stdout.flush()  # a reader that has gone is noticed here, and not at the exit of the interpreter
    except UserError as error:
        if error.__cause__ is not None and "--verbose" in sys.argv:
            traceback.print_exception(error.__cause__)
        sys.exit(tell_error(error))
    except BrokenPipeError:
        if not _nobody_reads(sys.stdout):
            raise
        # The interpreter writes what is left at its exit, and would report the broken pipe again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_NOBODY_READS)
    except (OSError, ValueError, RuntimeError, ImportError) as error:
        if as_user_error(error) is None:
            raise
        sys.exit(tell_error(error))
    except MemoryError:
        sys.exit(tell_error(UserError("not enough memory: free some, or raise the limit of this process (ulimit -v)")))
    except KeyboardInterrupt:
        sys.exit(130)
    except Terminated:
        sys.exit(143)


def _require_working_folder() -> None:
    """Refuse a working folder that was removed: some libraries then end the process without a word on the cause."""
    try:
        os.getcwd()
    except FileNotFoundError as error:
        raise UserError("the working folder was removed: change to another folder (cd)") from error


def _nobody_reads(stream: IO[str]) -> bool:
    """Tell whether a stream is a pipe whose reader has gone, as `head` does when it has read enough."""
    look = select.poll()
    look.register(stream.fileno(), 0)
    return any(event & select.POLLERR for _, event in look.poll(0))


def imported_later(name: str) -> Callable[..., Any]:
    """Return a program that is imported when it runs, because it imports torch and Isaac Lab.

    Args:
        name: Its module and function, like ``ledger_lab.training.run:train_run``.

    The program raises a :class:`~ledger_lab.errors.UserError` if the cache of compiled kernels can't be used.
    """

    def program(*arguments: Any) -> Any:  # noqa: ANN401 - what the program takes and returns
        require_kernel_cache(os.environ)
        with imports():
            compile_forward_only()
            function = pkgutil.resolve_name(name)
        return function(*arguments)

    return program
