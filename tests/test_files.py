"""Files are complete or absent."""

from __future__ import annotations

import errno
import fcntl
import subprocess
from pathlib import Path

import pytest

from ledger_lab.errors import UserError
from ledger_lab.files import NoLocksError, file_lock, file_sha256, unused_path, whole_file


def test_a_file_appears_under_its_name_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    with whole_file(path) as unfinished:
        unfinished.write_text("all of it")
        assert not path.exists()
    assert path.read_text() == "all of it"
    assert [*tmp_path.iterdir()] == [path]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    with pytest.raises(ValueError, match="no more"), whole_file(path) as unfinished:
        unfinished.write_text("half")
        raise ValueError("no more")
    assert path.read_text() == "old"
    assert [*tmp_path.iterdir()] == [path]


def test_a_lock_is_kept_by_a_process_that_inherits_it(tmp_path: Path) -> None:
    def is_free() -> bool:
        with file_lock(tmp_path / "lock") as (_, is_locked):
            return is_locked

    with file_lock(tmp_path / "lock") as (descriptor, is_locked):
        assert is_locked and not is_free()
        child = subprocess.Popen(["sleep", "600"], pass_fds=[descriptor])
    try:
        assert not is_free()
    finally:
        child.kill()
        child.wait()
    assert is_free()


def test_a_lock_that_is_impossible_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        pytest.raises(UserError, match="cannot write to .*nowhere: No such file"),
        file_lock(tmp_path / "nowhere" / "lock"),
    ):
        pass

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with (
        pytest.raises(NoLocksError, match="cannot lock .*: No locks available: use a log root"),
        file_lock(tmp_path / "lock"),
    ):
        pass


def test_processes_that_share_a_file_write_to_different_ones(tmp_path: Path) -> None:
    with (
        whole_file(tmp_path / "a.csv", shared=True) as unfinished,
        whole_file(tmp_path / "a.csv", shared=True) as other,
    ):
        unfinished.touch()
        other.touch()
        assert other != unfinished


def test_the_hash_is_that_of_the_content(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.touch()
    assert file_sha256(path).startswith("e3b0c44298fc1c14")


def test_a_new_video_does_not_overwrite_an_old_one(tmp_path: Path) -> None:
    path = tmp_path / "model_2.mp4"
    assert unused_path(path) == path
    path.touch()
    (tmp_path / "model_2-2.mp4").touch()
    assert unused_path(path) == tmp_path / "model_2-3.mp4"
