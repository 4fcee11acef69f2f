"""The commit of a source tree, where git knows it and where only a file does."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ledger_lab.errors import UserError
from ledger_lab.ledger.meters import git_facts
from ledger_lab.ledger.meters.revision import REVISION_FILE, record_revision

COMMIT, CHANGES = "a" * 40, "b" * 64


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A source tree without git, as an image contains it."""
    (tmp_path / "source" / "part").mkdir(parents=True)
    (tmp_path / "source" / "part" / "code.py").write_text("print(1)\n")
    return tmp_path


def test_a_tree_without_git_and_file_has_no_commit(tree: Path) -> None:
    assert git_facts(tree / "source") == {"commit": None, "changes_sha256": None}


@pytest.mark.parametrize("changes", [None, CHANGES])
def test_the_file_tells_commit_and_changes_of_the_build(tree: Path, changes: str | None) -> None:
    record_revision(tree, COMMIT, changes)
    assert git_facts(tree / "source" / "part") == {"commit": COMMIT, "changes_sha256": changes}


@pytest.mark.parametrize("changes", [None, CHANGES])
def test_code_that_changed_since_the_build_is_told(tree: Path, changes: str | None) -> None:
    record_revision(tree, COMMIT, changes)
    (tree / "source" / "part" / "new.py").write_text("print(2)\n")
    added = git_facts(tree)
    (tree / "source" / "part" / "new.py").write_text("print(3)\n")
    edited = git_facts(tree)
    assert added["commit"] == edited["commit"] == COMMIT
    assert len({None, CHANGES, added["changes_sha256"], edited["changes_sha256"]}) == 4


def test_what_a_run_leaves_behind_is_no_change(tree: Path) -> None:
    record_revision(tree, COMMIT, None)
    for name in ("logs/run/config.json", "source/part/__pycache__/code.py", "source/x.egg-info/a.py", ".cache/b.py"):
        (tree / name).parent.mkdir(parents=True)
        (tree / name).write_text("{}")
    assert git_facts(tree) == {"commit": COMMIT, "changes_sha256": None}


def test_git_has_the_first_word(tree: Path) -> None:
    record_revision(tree, COMMIT, None)
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    for arguments in (("init", "-q"), ("add", "source"), (*identity, "commit", "-q", "-m", "first")):
        subprocess.run(["git", "-C", str(tree), *arguments], check=True)
    assert git_facts(tree)["commit"] not in (None, COMMIT)


@pytest.mark.parametrize("text", ["", "{}", '{"commit": "main"}', '{"commit": 1}', "[]"])
def test_a_damaged_file_is_named(tree: Path, text: str) -> None:
    (tree / REVISION_FILE).write_text(text)
    with pytest.raises(UserError, match=r"\.revision\.json does not name the commit of the code: .*; delete it"):
        git_facts(tree)


def test_a_name_of_a_branch_is_not_recorded(tree: Path) -> None:
    with pytest.raises(ValueError, match="commit = 'main' is no hash"):
        record_revision(tree, "main", None)
    assert not (tree / REVISION_FILE).exists()
