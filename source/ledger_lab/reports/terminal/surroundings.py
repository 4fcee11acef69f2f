"""What a program needs around it: a terminal that can show every text, a home folder, and threads that sleep."""

from __future__ import annotations

import codecs
import io
import os
import stat
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

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
