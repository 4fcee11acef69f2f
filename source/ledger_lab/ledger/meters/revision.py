"""The commit of a source tree: from git, or from the file that the build of an image leaves where git is not."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

from ledger_lab.documents import read_json
from ledger_lab.errors import UserError
from ledger_lab.ledger.encoding import canonical_json

REVISION_FILE = ".revision.json"
"""At the root of a source tree without git: its commit, and a hash of its code at that time."""

_COMMIT, _SHA256 = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?"), re.compile(r"[0-9a-f]{64}")
_CODE = {".cpp", ".json", ".py", ".sh", ".toml"}
_MADE_BY_USE = {"__pycache__", "logs"}


def git_facts(folder: Path) -> dict[str, Any]:
    """Return the commit of a source tree, and a hash of its uncommitted changes.

    Args:
        folder: Any folder inside the tree.

    Returns:
        ``commit`` and ``changes_sha256``; the latter is ``None`` for a clean tree. Both are ``None`` if the folder is
        neither in a repository nor below a :data:`REVISION_FILE`, for example in an installed package.

    Raises:
        UserError: If there is such a file, and it is damaged.
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


def record_revision(root: Path, commit: str, changes_sha256: str | None) -> None:
    """Write the commit of a source tree into the tree, for :func:`git_facts` where git is not.

    Args:
        root: The tree.
        commit: Its commit.
        changes_sha256: Hash of its uncommitted changes, as :func:`git_facts` returns it; ``None`` for a clean tree.
    """
    facts = {"commit": commit, "changes_sha256": changes_sha256, "code_sha256": _code_sha256(root)}
    (root / REVISION_FILE).write_text(json.dumps(_checked(facts)) + "\n", encoding="utf-8")


def _recorded_facts(folder: Path) -> dict[str, Any]:
    """Return what the nearest file around a folder says, and whether the code has changed since."""
    folder = folder.resolve()
    path = next((path for at in (folder, *folder.parents) if (path := at / REVISION_FILE).is_file()), None)
    if path is None:
        return {"commit": None, "changes_sha256": None}
    try:
        facts = _checked(read_json(path))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} does not name the commit of the code: {error}; delete it") from None
    changes, code = facts["changes_sha256"], _code_sha256(path.parent)
    if code != facts["code_sha256"]:
        changes = hashlib.sha256(canonical_json([changes, code])).hexdigest()
    return {"commit": facts["commit"], "changes_sha256": changes}


def _checked(facts: dict[str, Any]) -> dict[str, Any]:
    """Return facts, or raise a ``ValueError`` that names the wrong one."""
    for name, form in (("commit", _COMMIT), ("changes_sha256", _SHA256), ("code_sha256", _SHA256)):
        value = facts.get(name)
        if not (isinstance(value, str) and form.fullmatch(value)) and (name, value) != ("changes_sha256", None):
            raise ValueError(f"{name} = {value!r} is no hash")
    return facts


def _code_sha256(root: Path) -> str:
    """Return a hash of the names and contents of all code and settings below a folder."""
    contents: dict[str, str] = {}
    for at, folders, names in os.walk(root):
        folders[:] = [
            name
            for name in folders
            if name not in _MADE_BY_USE and not name.startswith(".") and not name.endswith(".egg-info")
        ]
        for path in (Path(at, name) for name in names if Path(name).suffix in _CODE and not name.startswith(".")):
            contents[str(path.relative_to(root))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return hashlib.sha256(canonical_json(contents)).hexdigest()


def _git(folder: Path, *arguments: str) -> bytes | None:
    """Return the output of a git command; ``None`` if git or the repository is missing."""
    try:
        finished = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return finished.stdout if finished.returncode == 0 else None
