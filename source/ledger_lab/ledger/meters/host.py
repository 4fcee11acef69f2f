"""Facts about the host, the packages and the commit that a run depends on."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import subprocess
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ledger_lab.ledger.control_groups import cpu_quota, memory_bytes
from ledger_lab.ledger.encoding import canonical_json
from ledger_lab.ledger.libraries import LIBRARIES
from ledger_lab.ledger.source import source_sha256

_SIMULATION = ("ledger_lab", "isaaclab", "newton", "warp-lang", "mujoco", "mujoco-warp", "ovphysx", "torch")


def recorded_packages() -> tuple[str, ...]:
    """Return the packages whose versions a run records."""
    return (*_SIMULATION, *(library.distribution for library in LIBRARIES.values()), "numpy")


def package_versions(names: Iterable[str] | None = None) -> dict[str, str]:
    """Return the versions of the packages that are installed.

    Args:
        names: The packages; by default those whose versions a run records.
    """
    from importlib import metadata  # slow to import

    versions: dict[str, str] = {"python": platform.python_version()}
    for name in recorded_packages() if names is None else names:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def package_sha256(package: str, hash_file: Callable[[bytes], str] = source_sha256) -> str:
    """Return a hash of the names of the Python files of a package or a single module, and of what they compute.

    Args:
        package: Its name, without dots; it can be imported.
        hash_file: Returns the hash of a file's content.
    """
    spec = importlib.util.find_spec(package)
    assert spec is not None, f"{package} cannot be imported"
    roots = [Path(root) for root in spec.submodule_search_locations or ()]
    files = {str(path.relative_to(root)): path for root in roots for path in root.rglob("*.py") if path.is_file()}
    if not roots and spec.origin is not None:
        files = {f"{package}.py": Path(spec.origin)}
    contents = {name: hash_file(path.read_bytes()) for name, path in files.items()}
    return hashlib.sha256(canonical_json(contents)).hexdigest()


def hardware_facts() -> dict[str, Any]:
    """Return processor, cores and memory of this host, within the limits of this process's control group."""
    model = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), None
    )
    quota = cpu_quota()
    return {
        "cpu": model or platform.machine(),
        "cpu_cores": len(os.sched_getaffinity(0)),
        **({} if quota is None else {"cpu_quota": quota}),
        "memory_bytes": memory_bytes(),
    }


def _lines(path: str) -> list[str]:
    """Return the lines of a kernel file; none if it is missing."""
    file = Path(path)
    return file.read_text(encoding="utf-8", errors="replace").splitlines() if file.exists() else []


def peak_host_memory_bytes() -> int | None:
    """Return the peak resident memory of this process [B]; ``None`` if the kernel has no such count (``VmHWM``).

    ``getrusage`` is of no use here: a process inherits the peak of its parent.
    """
    peak_kb = next((line.split()[1] for line in _lines("/proc/self/status") if line.startswith("VmHWM:")), None)
    return None if peak_kb is None else int(peak_kb) * 1024


def measured_or_none(measure: Callable[[], int | None]) -> int | None:
    """Return a measurement; ``None`` if the device no longer responds."""
    try:
        return measure()
    except Exception:  # noqa: BLE001 - after any error of a broken device, the figure is unknown
        traceback.print_exc()
        return None


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
