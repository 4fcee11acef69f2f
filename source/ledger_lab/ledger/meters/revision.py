"""The commit of a source tree: from git, or from the file that the build of an image leaves where git is not."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Any

REVISION_FILE = ".revision"
"""At the root of a source tree without git: its commit, and the hash of its uncommitted changes if there were any."""


def git_facts(folder: Path) -> dict[str, Any]:
    """Return the commit of a source tree, and a hash of its uncommitted changes.

    Args:
        folder: Any folder inside the tree.

    Returns:
        ``commit`` and ``changes_sha256``; the latter is ``None`` for a clean tree. Both are ``None`` if the folder is
        neither in a repository nor below a :data:`REVISION_FILE`, for example in an installed package.
    """
    if not _git(folder, "ls-files", "--", "."):
        return _recorded_facts(folder)
    commit = _git(folder, "rev-parse", "HEAD")
    changes = [_git(folder, "diff", "HEAD"), _git(folder, "status", "--porcelain")]
    known = b"".join(change for change in changes if change is not None)
    clean = known == b"" and None not in changes
    return {
        "commit": commit.decode().strip() if commit else None,
        "changes_sha256": None if clean else hashlib.sha256(known).hexdigest(),
    }


def git_changes(folder: Path) -> str:
    """Return how a source tree differs from its commit, as ``git diff`` writes it; untracked files are left out.

    Args:
        folder: Any folder inside the tree.

    Returns:
        The difference; empty for a clean tree, and where the folder is not part of a repository.
    """
    if not _git(folder, "ls-files", "--", "."):
        return ""
    return (_git(folder, "diff", "HEAD") or b"").decode(errors="replace")


def _recorded_facts(folder: Path) -> dict[str, Any]:
    """Return what the nearest file around a folder says."""
    folder = folder.resolve()
    found = next((path for at in (folder, *folder.parents) if (path := at / REVISION_FILE).is_file()), None)
    words = [] if found is None else found.read_text(encoding="utf-8").split()
    return {"commit": next(iter(words), None), "changes_sha256": words[1] if len(words) > 1 else None}


def _git(folder: Path, *arguments: str) -> bytes | None:
    """Return the output of a git command; ``None`` if git or the repository is missing."""
    try:
        finished = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return finished.stdout if finished.returncode == 0 else None
