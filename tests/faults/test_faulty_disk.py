"""The faulty disk itself gives the errors of a real one."""

from __future__ import annotations

import errno
import os

import pytest

from tests.faults.conftest import Disk


@pytest.mark.parametrize("error", ["ENOSPC", "EDQUOT", "EROFS", "EIO", "ESTALE"])
def test_an_open_file_fails_while_the_fault_lasts(disk: Disk, error: str) -> None:
    path = disk.path / "file"
    path.write_bytes(b"before")
    with path.open("r+b", buffering=0) as file:
        disk.fail(error)
        with pytest.raises(OSError) as caught:
            file.write(b"now")
        assert caught.value.errno == getattr(errno, error)
        disk.heal()
        file.write(b"after!")
        os.fsync(file.fileno())
    assert (disk.behind / "file").read_bytes() == b"after!"


def test_only_the_named_files_fail(disk: Disk) -> None:
    for name in ("a.jsonl", "b.log"):
        (disk.path / name).write_text(name)
    disk.fail("EIO", names="*.jsonl")
    assert (disk.path / "b.log").read_text() == "b.log"
    with pytest.raises(OSError, match="Input/output error"):
        (disk.path / "a.jsonl").read_text()
    assert sorted(os.listdir(disk.path)) == ["a.jsonl", "b.log"]
