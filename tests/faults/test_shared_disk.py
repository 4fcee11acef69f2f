"""The stand-in for a shared file system behaves as NFS does."""

from __future__ import annotations

import errno
import os
import time

import pytest

from tests.faults.conftest import CACHE_S, SharedFileSystem
from tests.faults.shared_disk import PAGE, WRITTEN_BACK_S


def test_what_a_host_writes_reaches_the_server_late_and_the_last_page_first(shared: SharedFileSystem) -> None:
    shared.a.switch(hold=True)
    file = os.open(shared.a.path / "file", os.O_RDWR | os.O_CREAT)
    os.pwrite(file, b"x" * (PAGE + 10), 0)
    assert os.pread(file, 2 * PAGE, 0) == b"x" * (PAGE + 10) and os.fstat(file).st_size == PAGE + 10
    deadline_s = time.monotonic() + 20
    while not (found := (shared.server / "file").read_bytes()) and time.monotonic() < deadline_s:
        time.sleep(WRITTEN_BACK_S / 2)
    assert found == b"\0" * PAGE + b"x" * 10
    os.fsync(file)
    assert (shared.server / "file").read_bytes() == b"x" * (PAGE + 10)
    os.close(file)


def test_a_host_sees_names_and_sizes_of_others_late(shared: SharedFileSystem) -> None:
    a, b = shared.a.path, shared.b.path
    late = False
    for number in range(50):  # on a busy machine, some tries take longer than the host remembers
        new, size = f"new-{number}", number + 1
        (a / "old").write_bytes(bytes(size))
        time.sleep(2 * CACHE_S)
        assert not (b / new).exists() and (b / "old").stat().st_size == size
        (a / new).touch()
        (a / "old").write_bytes(bytes(size + 100))
        if late := not (b / new).exists() and (b / "old").stat().st_size == size:
            break
    assert late
    time.sleep(2 * CACHE_S)
    assert (b / new).exists() and (b / "old").read_bytes() == bytes(size + 100)


def test_a_file_that_another_host_removes_is_stale(shared: SharedFileSystem) -> None:
    (shared.a.path / "file").write_bytes(b"1" * 3 * PAGE)
    with (shared.b.path / "file").open("rb", buffering=0) as file:
        (shared.a.path / "file").unlink()
        with pytest.raises(OSError) as caught:
            file.read()
    assert caught.value.errno == errno.ESTALE


def test_only_one_of_two_hosts_creates_a_file(shared: SharedFileSystem) -> None:
    assert not (shared.b.path / "file").exists()
    os.close(os.open(shared.a.path / "file", os.O_CREAT | os.O_EXCL))
    with pytest.raises(FileExistsError):
        os.open(shared.b.path / "file", os.O_CREAT | os.O_EXCL)
