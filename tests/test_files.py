"""Files are complete or absent."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from ledger_lab.errors import UserError
from ledger_lab.files import NoLocksError, appended_file, file_lock, new_file, unused_path, whole_file


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


def test_a_new_video_does_not_overwrite_an_old_one(tmp_path: Path) -> None:
    path = tmp_path / "model_2.mp4"
    assert unused_path(path) == path
    path.touch()
    (tmp_path / "model_2-2.mp4").touch()
    assert unused_path(path) == tmp_path / "model_2-3.mp4"


@pytest.fixture
def decoy(tmp_path: Path) -> Path:
    """A file outside of the folders of a test, which nothing may change."""
    path = tmp_path / "decoy" / "precious"
    path.parent.mkdir()
    path.write_text("precious")
    return path


def written(path: Path, root: Path | None = None) -> None:
    with whole_file(path, root=root) as unfinished:
        unfinished.write_text("new")


def logged(path: Path, root: Path | None = None) -> None:
    with new_file(path, root) as file:
        file.write(b"new")


def appended(path: Path, root: Path | None = None) -> None:
    with appended_file(path, root) as file:
        file.write(b"new")


@pytest.mark.parametrize("planted", ["model_2.pt", "model_2.pt.partial", "model_2.pt.partial/model_2.pt"])
@pytest.mark.parametrize("write", [written, logged, appended])
def test_a_link_in_the_place_of_a_file_is_not_followed(
    tmp_path: Path, decoy: Path, planted: str, write: Callable[[Path], None]
) -> None:
    run_dir = tmp_path / "run"
    (run_dir / planted).parent.mkdir(parents=True)
    (run_dir / planted).symlink_to(decoy)
    refused = write is appended and planted == "model_2.pt"
    with pytest.raises(OSError, match="run/model_2.pt") if refused else nullcontext():
        write(run_dir / "model_2.pt")
    assert decoy.read_text() == "precious"
    if not refused:
        assert (run_dir / "model_2.pt").read_text() == "new" and not (run_dir / "model_2.pt").is_symlink()


@pytest.mark.parametrize(("planted", "write"), [("videos", written), ("videos/play", logged), ("videos", appended)])
def test_a_linked_folder_below_the_root_is_refused(
    tmp_path: Path, decoy: Path, planted: str, write: Callable[[Path, Path], None]
) -> None:
    run_dir = tmp_path / "run"
    (run_dir / planted).parent.mkdir(parents=True)
    (run_dir / planted).symlink_to(decoy.parent)
    (decoy.parent / "play").mkdir()
    with pytest.raises(UserError, match=f"run/{planted} is a link or a file, and must be a folder: remove it"):
        write(run_dir / "videos" / "play" / "precious", run_dir)
    assert decoy.read_text() == "precious" and not list(decoy.parent.glob("play/*"))


def test_folders_below_the_root_are_created_and_the_root_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "logs").symlink_to(tmp_path / "disk")
    written(tmp_path / "logs" / "videos" / "play" / "a.txt", tmp_path / "logs")
    assert (tmp_path / "disk" / "videos" / "play" / "a.txt").read_text() == "new"


def test_a_folder_that_is_moved_meanwhile_leads_nowhere_else(tmp_path: Path, decoy: Path) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    with whole_file(run_dir / "precious") as unfinished:
        run_dir.rename(tmp_path / "away")
        run_dir.symlink_to(decoy.parent)
        unfinished.write_text("new")
    assert decoy.read_text() == "precious" and (tmp_path / "away" / "precious").read_text() == "new"


def test_an_unfinished_file_has_a_path_for_child_processes(tmp_path: Path) -> None:
    with whole_file(tmp_path / "clip.mp4") as unfinished:
        subprocess.run(["sh", "-c", 'printf frames >"$0"', unfinished], check=True)
    assert (tmp_path / "clip.mp4").read_text() == "frames"


def test_what_a_killed_process_has_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "a.pt.partial").mkdir()
    (tmp_path / "a.pt.partial" / "a.pt").write_text("half")
    written(tmp_path / "a.pt")
    assert [path.name for path in tmp_path.iterdir()] == ["a.pt"]


def test_a_lock_is_no_link(tmp_path: Path, decoy: Path) -> None:
    (tmp_path / "lock").symlink_to(decoy)
    with pytest.raises(UserError, match="cannot write to"), file_lock(tmp_path / "lock"):
        pass


def test_a_pipe_in_the_place_of_a_file_stays(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    with pytest.raises(FileExistsError, match="it is a device or a pipe: .*log"):
        new_file(tmp_path / "log")
    assert (tmp_path / "log").is_fifo()
