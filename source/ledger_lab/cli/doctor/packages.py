"""Checks of Python and the installed packages."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ledger_lab.cli.doctor.finding import Finding, fail, ok, warn

NEEDED = (
    *("isaaclab", "newton", "mujoco", "mujoco-warp", "warp-lang", "torch", "rsl-rl-lib", "gymnasium", "numpy", "scipy"),
    *("rich", "msgspec", "orjson", "psutil", "nvidia-ml-py"),
)
"""Packages without which no training runs."""
OPTIONAL = ("skrl", "rl-games", "gym", "duckdb", "jinja2", "markupsafe", "plotly", "moviepy")
"""Packages for two RL libraries, reports and videos."""
_MOST_NAMES = 6
_INSTALL = "run ./isaaclab.sh -p scripts/doctor.py, which installs the locked packages into .venv"
_REINSTALL = "remove .venv/.complete, and call ./isaaclab.sh again"


def check_python(found: tuple[int, ...] = sys.version_info[:3], executable: str = sys.executable) -> Finding:
    """Check the version of Python.

    Args:
        found: The version.
        executable: The interpreter.
    """
    text = f"{'.'.join(map(str, found))}, {executable}"
    if found[:2] != (3, 12):
        return fail(f"{text}: Isaac Lab 3.0 needs Python 3.12", _INSTALL)
    return ok(text)


def locked_versions(lock: str) -> dict[str, str]:
    """Return the versions by package in a lock file.

    Args:
        lock: Its text, as pip and uv write it.
    """
    return dict(re.findall(r"^([\w.-]+)==([\w.!+-]+)", lock, re.M))


def installed_version(name: str) -> str | None:
    """Return the version of an installed package; ``None`` if it is missing.

    Args:
        name: Name of the distribution.
    """
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def check_packages(
    locked: Mapping[str, str] | None, installed: Callable[[str], str | None] = installed_version
) -> Finding:
    """Compare the installed packages with the lock file.

    Args:
        locked: Versions in the lock file; ``None`` if there is none beside the source.
        installed: Returns the version of an installed package.
    """
    found = {name: installed(name) for name in {*NEEDED, *OPTIONAL, *(locked or {})}}
    if missing := [name for name in NEEDED if found[name] is None]:
        return fail(f"missing: {_some(missing)}", _REINSTALL)
    if missing := [name for name in OPTIONAL if found[name] is None]:
        return warn(f"missing: {_some(missing)}; some RL libraries, reports or videos do not work", _REINSTALL)
    if locked is None:
        return ok("all there; there is no lock file to compare versions with")
    other = [
        f"{name} {found[name]} instead of {wanted}"
        for name, wanted in sorted(locked.items())
        if found[name] is not None and _public(found[name] or "") != _public(wanted)
    ]
    if other:
        return warn(f"other versions: {_some(other)}; recorded scores may not be comparable", _REINSTALL)
    present = sum(each is not None for each in found.values())
    return ok(f"{present} packages, in the locked versions")


def _public(text: str) -> str:
    """Return a version without its local part, such as ``+cu130``."""
    return text.partition("+")[0]


def _some(names: list[str]) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def broken_installation(error: ImportError) -> list[str]:
    """Return the lines of a machine on which LedgerLab itself can't be imported: only the packages can be checked.

    Args:
        error: Why the import failed.
    """
    found = {"Python": check_python(), "packages": check_packages(None)}
    found["imports"] = fail(f"{type(error).__name__}: {error}", _REINSTALL)
    return [
        *(f"{each.level:4}  {name:12}  {each.text}" for name, each in found.items()),
        f"this machine is not fit for trainings: {_REINSTALL}",
    ]


def check_ledger_lab(installed: str | None, tree: str | None) -> Finding:
    """Check that LedgerLab itself is installed, and from which version.

    Args:
        installed: Its installed version; ``None`` if it is not installed.
        tree: Version in the ``pyproject.toml`` beside the source; ``None`` without one.
    """
    if installed is None:
        return warn(
            "not installed: scripts work from the source tree, but `isaaclab train` does not find the tasks",
            "python -m pip install --no-deps -e . in the source tree",
        )
    if tree is not None and tree != installed:
        return warn(f"version {installed} is installed, and the source tree is {tree}", _REINSTALL)
    return ok(f"version {installed}")


def version_of_tree(root: Path) -> str | None:
    """Return the version of a source tree; ``None`` if the folder is none.

    Args:
        root: Folder of ``pyproject.toml``.
    """
    file = root / "pyproject.toml"
    found = re.search(r'^version = "([^"]+)"', file.read_text("utf-8"), re.M) if file.is_file() else None
    return found[1] if found else None


def check_git(root: Path, program: str | None = shutil.which("git")) -> Finding:
    """Check that runs can record the commit of the code.

    Args:
        root: Folder of the source.
        program: Path of git; ``None`` if there is none.
    """
    if (root / ".revision.json").is_file():
        from ledger_lab.ledger.meters import git_facts  # its package needs others, which may be broken

        recorded = git_facts(root)
        changed = " with changes" if recorded["changes_sha256"] is not None else ""
        return ok(f"commit {recorded['commit'][:7]}{changed}, as the image says")
    if program is None:
        return warn("git is not on PATH: runs do not record the commit of the code", "install git")
    command = [program, "-C", str(root), "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    if done.returncode == 0:
        return ok(f"commit {done.stdout.strip()}")
    if "dubious ownership" in done.stderr:
        return warn(
            f"git refuses {root}, because it belongs to another user: runs do not record the commit of the code",
            f"git config --global --add safe.directory {root}",
        )
    return ok(f"{root} is not in a git repository: runs record no commit")
