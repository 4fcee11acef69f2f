"""The doctor knows limits of cores, memory, files and clocks, and of the disk."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from ledger_lab.cli.doctor import disk, machine

GIB = 1 << 30
MOUNTS = """\
20 1 8:1 / / rw - ext4 /dev/sda1 rw
21 20 0:20 / /data rw - nfs4 server:/data rw
22 20 0:21 / /data/fast\\040disk rw - xfs /dev/sdb rw
23 20 0:22 / /over rw - ext4 /dev/sdc rw
24 20 0:23 / /over rw - tmpfs tmpfs rw
"""


def test_a_quota_below_the_cores_is_told() -> None:
    assert machine.check_cores(4, None, {}).level == "ok"
    assert machine.check_cores(4, 4.0, {"OMP_NUM_THREADS": "4"}).level == "ok"
    limited = machine.check_cores(8, 1.5, {})
    assert (limited.level, "allows 1.5 at a time" in limited.text) == ("ok", True), "LedgerLab starts one thread"
    assert machine.check_cores(8, 1.5, {"OMP_NUM_THREADS": "2"}).level == "warn"
    assert machine.check_cores(8, 0.5, {}).level == "warn"
    assert machine.check_cores(2, None, {"OMP_NUM_THREADS": "16"}).level == "warn"


def test_threads_that_cannot_be_started_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine.check_threads(3).level == "ok"

    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    refused = machine.check_threads(3)
    assert (refused.level, refused.text) == ("fail", "only 0 of 3 threads can be started")


def test_little_memory_is_a_warning_and_too_little_a_failure() -> None:
    assert [machine.check_memory(int(gib * GIB)).level for gib in (1, 2, 8)] == ["fail", "warn", "ok"]


@pytest.mark.parametrize(
    ("now_s", "drift_s", "source", "level"),
    [
        (1.8e9, 0.001, "tsc", "ok"),
        (1.8e9, 0.0, "", "ok"),
        (1.8e9, -3600.0, "tsc", "warn"),
        (0.0, 0.0, "tsc", "warn"),
        (1.8e9, 0.0, "hpet", "warn"),
    ],
)
def test_a_clock_that_is_wrong_moved_or_slow_is_told(now_s: float, drift_s: float, source: str, level: str) -> None:
    assert machine.check_clock(now_s, drift_s, 10.0, source).level == level


def test_few_open_files_are_told() -> None:
    assert [machine.check_files(limit).level for limit in (64, 512, 1024)] == ["fail", "warn", "ok"]
    assert machine.check_files().text


def test_a_terminal_without_utf_8_is_told() -> None:
    assert machine.check_terminal("utf-8", "utf-8").level == "ok"
    assert machine.check_terminal("ascii", "utf-8").level == "warn"
    assert machine.check_terminal("utf-8", "ascii").level == "warn"


def test_processes_can_connect_or_the_address_is_named() -> None:
    assert machine.check_loopback().level == "ok"
    refused = machine.check_loopback("192.0.2.1")  # an address of documentation, which no machine has
    assert (refused.level, "192.0.2.1" in refused.text) == ("warn", True)


@pytest.mark.parametrize(
    ("folder", "kind"),
    [("/home/a", "ext4"), ("/data/logs", "nfs4"), ("/data/fast disk/logs", "xfs"), ("/over/a", "tmpfs")],
)
def test_the_file_system_is_that_of_the_innermost_mount(folder: str, kind: str) -> None:
    assert disk.file_system(Path(folder), MOUNTS) == kind


def test_a_mount_point_with_a_name_of_any_language_is_found() -> None:
    mounts = "36 35 0:30 / / rw - ext4 /dev/a rw\n37 36 0:31 / /mnt/donn\u00e9es\\0401 rw - tmpfs none rw\n"
    assert disk.file_system(Path("/mnt/donn\u00e9es 1/logs"), mounts) == "tmpfs"


def test_a_log_root_is_tried_and_nothing_remains(tmp_path: Path) -> None:
    fit = disk.check_log_root(tmp_path / "logs" / "deep", MOUNTS, free_bytes=100 * GIB, slow_s=60.0)
    assert (fit.level, fit.text.split(", durable")[0]) == ("ok", f"{tmp_path} (ext4), 100.0 GiB free")
    assert list(tmp_path.iterdir()) == []


def test_a_full_slow_volatile_or_broken_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def level(free_bytes: int, kind: str = "ext4", slow_s: float = 60.0) -> str:
        mounts = f"20 1 8:1 / / rw - {kind} /dev/sda1 rw\n"
        return disk.check_log_root(tmp_path, mounts, free_bytes, slow_s).level

    assert level(10 << 20) == "fail"
    assert level(GIB) == "warn"
    assert level(100 * GIB, "tmpfs") == "warn"
    assert level(100 * GIB, slow_s=0.0) == "warn"
    assert "a network file system" in disk.check_log_root(tmp_path, MOUNTS.replace("ext4", "nfs"), 100 * GIB, 60.0).text

    def fsync(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fsync)
    broken = disk.check_log_root(tmp_path, MOUNTS, 100 * GIB)
    assert (broken.level, "can't append to a file: Input/output error" in broken.text) == ("fail", True)


def test_a_cache_that_cannot_be_written_is_told_with_the_variable_that_moves_it(tmp_path: Path) -> None:
    kernels = disk.check_caches({"HOME": str(tmp_path), "WARP_CACHE_PATH": "/proc/warp"})
    assert (kernels.level, kernels.way_out) == ("fail", "set WARP_CACHE_PATH to a writable folder")
    assert disk.check_caches({"HOME": str(tmp_path)}).level == "ok"


def test_temporary_folders_that_are_missing_or_full_are_told(tmp_path: Path) -> None:
    assert disk.check_temporary(tmp_path, tmp_path, 100 * GIB).level == "ok"
    assert disk.check_temporary(None).level == "fail"
    assert disk.check_temporary(tmp_path, tmp_path, 1 << 20).level == "warn"
    no_memory = disk.check_temporary(tmp_path, tmp_path / "shm", 100 * GIB)
    assert (no_memory.level, "--shm-size" in (no_memory.way_out or "")) == ("warn", True)
