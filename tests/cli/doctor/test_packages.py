"""The doctor compares Python and packages with what LedgerLab needs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from ledger_lab.cli.doctor import packages
from ledger_lab.ledger.meters.revision import record_revision
from tests.conftest import ROOT


def installed(**changes: str | None) -> Callable[[str], str | None]:
    """Return a function that finds version 1.0 of all packages but some."""
    return lambda name: changes.get(name, "1.0")


def test_only_python_3_12_is_fit() -> None:
    assert packages.check_python((3, 12, 7)).level == "ok"
    wrong = packages.check_python((3, 13, 0), "/usr/bin/python3")
    assert (wrong.level, wrong.text) == ("fail", "3.13.0, /usr/bin/python3: Isaac Lab 3.0 needs Python 3.12")


def test_a_missing_package_is_named_and_how_bad_that_is() -> None:
    assert packages.check_packages({"torch": "1.0"}, installed()).level == "ok"
    assert packages.check_packages(None, installed()).level == "ok"
    needed = packages.check_packages(None, installed(newton=None))
    assert (needed.level, needed.text) == ("fail", "missing: newton")
    optional = packages.check_packages(None, installed(skrl=None))
    assert (optional.level, "missing: skrl" in optional.text) == ("warn", True)


def test_versions_that_differ_from_the_lock_are_named_but_not_tools_that_are_missing() -> None:
    locked = {"torch": "2.11.0", "sphinx": "9.0"}
    found = packages.check_packages(locked, installed(torch="2.11.0+cu130", sphinx=None))
    assert found.level == "ok", "the local part does not count"
    other = packages.check_packages(locked, installed(torch="2.12.0", sphinx=None))
    assert (other.level, "torch 2.12.0 instead of 2.11.0" in other.text) == ("warn", True)


def test_the_lock_of_the_project_names_all_packages_that_the_doctor_needs() -> None:
    locked = packages.locked_versions((ROOT / "tools/requirements/main.lock").read_text())
    assert {*packages.NEEDED, *packages.OPTIONAL} <= locked.keys()
    assert locked["torch"] == "2.11.0"


def test_another_version_of_ledger_lab_than_that_of_the_tree_is_told() -> None:
    version = packages.version_of_tree(ROOT)
    assert version is not None and packages.check_ledger_lab(version, version).level == "ok"
    assert packages.check_ledger_lab("0.0.1", version).level == "warn"
    assert packages.check_ledger_lab(None, version).level == "warn"
    assert packages.version_of_tree(ROOT / "docs") is None


def test_git_is_needed_only_to_record_the_commit(tmp_path: Path) -> None:
    assert packages.check_git(tmp_path, None).level == "warn"
    assert packages.check_git(tmp_path).text.endswith("is not in a git repository: runs record no commit")
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    for arguments in (("init", "-q"), (*identity, "commit", "-q", "--allow-empty", "-m", "first")):
        subprocess.run(["git", "-C", str(tmp_path), *arguments], check=True)
    assert packages.check_git(tmp_path).text.startswith("commit ")


def test_an_image_needs_no_git_to_know_the_commit(tmp_path: Path) -> None:
    record_revision(tmp_path, "a" * 40, None)
    assert packages.check_git(tmp_path, None).text == "commit aaaaaaa, as the image says"
    (tmp_path / "new.py").touch()
    assert packages.check_git(tmp_path, None).text == "commit aaaaaaa with changes, as the image says"


def test_a_repository_that_git_refuses_is_told_with_the_command_that_helps(tmp_path: Path) -> None:
    program = tmp_path / "git"
    program.write_text("#!/bin/sh\necho 'fatal: detected dubious ownership in repository' >&2\nexit 128\n")
    program.chmod(0o755)
    refused = packages.check_git(tmp_path, str(program))
    assert (refused.level, refused.way_out) == ("warn", f"git config --global --add safe.directory {tmp_path}")
