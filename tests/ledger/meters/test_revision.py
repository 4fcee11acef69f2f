"""The commit of a source tree, where git knows it and where only a file does."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ledger_lab.ledger.meters.host import REVISION_FILE, git_facts

COMMIT, CHANGES = "a" * 40, "b" * 64


@pytest.mark.parametrize(
    ("text", "commit", "changes"),
    [(None, None, None), (f"{COMMIT} \n", COMMIT, None), (f"{COMMIT} {CHANGES}\n", COMMIT, CHANGES)],
)
def test_without_git_the_file_of_an_image_tells_commit_and_changes(
    tmp_path: Path, text: str | None, commit: str | None, changes: str | None
) -> None:
    (tmp_path / "source" / "part").mkdir(parents=True)
    if text is not None:
        (tmp_path / REVISION_FILE).write_text(text)
    assert git_facts(tmp_path / "source" / "part") == {"commit": commit, "changes_sha256": changes}


def test_git_has_the_first_word(tmp_path: Path) -> None:
    (tmp_path / REVISION_FILE).write_text(COMMIT)
    (tmp_path / "code.py").write_text("print(1)\n")
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    for arguments in (("init", "-q"), ("add", "code.py"), (*identity, "commit", "-q", "-m", "first")):
        subprocess.run(["git", "-C", str(tmp_path), *arguments], check=True)
    assert git_facts(tmp_path)["commit"] not in (None, COMMIT)
