"""Processors and memory that a process can still take, in control groups of both versions."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from ledger_lab.ledger import cores
from ledger_lab.ledger.control_groups import cpu_quota, memory_bytes, usable_bytes
from ledger_lab.ledger.cores import usable_cores

V1 = {
    "memory.limit_in_bytes": "1000000\n",
    "memory.usage_in_bytes": "900000\n",
    "memory.stat": "total_inactive_file 7\n",
}
V2 = {"memory.max": "1000000\n", "memory.current": "900000\n", "memory.stat": "anon 1\ninactive_file 7\n"}
UNLIMITED = {"memory.max": "max\n", "memory.current": "5\n", "memory.stat": "inactive_file 0\n"}


@pytest.mark.parametrize(
    ("group", "folders", "usable"),
    [
        ("0::/job/step", {"job/step": V2}, 100_007),
        ("0::/job/step", {"job/step": UNLIMITED, "job": V2}, 100_007),
        ("0::/job/step", {"": V2}, 100_007),  # in a container, which sees only its own group
        ("0::/job", {"job": {**V2, "memory.current": "2000000\n"}}, 0),
        ("4:memory:/docker/a", {"memory/docker/a": V1}, 100_007),
        ("4:memory:/docker/a", {"memory": V1}, 100_007),
        ("4:cpu,memory:/a\n0::/", {"memory/a": {**V1, "memory.stat": ""}}, 100_000),
        ("4:memory:/", {"memory": {**V1, "memory.limit_in_bytes": "9223372036854771712\n"}}, None),
        ("0::/job", {"job": UNLIMITED}, None),
        ("", {}, None),
    ],
)
def test_the_narrowest_limit_counts(
    tmp_path: Path, group: str, folders: dict[str, dict[str, str]], usable: int | None
) -> None:
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "cgroup").write_text(f"{group}\n" if group else "")
    for folder, files in folders.items():
        path = tmp_path / "sys" / "fs" / "cgroup" / folder
        path.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (path / name).write_text(text)
    expected = pytest.approx(psutil.virtual_memory().available, rel=0.2) if usable is None else usable
    assert usable_bytes(tmp_path) == expected
    assert memory_bytes(tmp_path) == (psutil.virtual_memory().total if usable is None else 1_000_000)


@pytest.mark.parametrize(
    ("group", "files", "quota"),
    [
        ("0::/a/b", {"a/b/cpu.max": "max 100000", "a/cpu.max": "250000 100000"}, 2.5),
        ("0::/a", {"a/cpu.max": "max 100000"}, None),
        ("4:cpu,cpuacct:/a", {"cpu/a/cpu.cfs_quota_us": "50000", "cpu/a/cpu.cfs_period_us": "100000"}, 0.5),
        ("4:cpu,cpuacct:/a", {"cpu/a/cpu.cfs_quota_us": "-1", "cpu/a/cpu.cfs_period_us": "100000"}, None),
        ("", {}, None),
    ],
)
def test_quotas_of_both_versions_of_control_groups_are_read(
    tmp_path: Path, group: str, files: dict[str, str], quota: float | None
) -> None:
    contents = {"proc/self/cgroup": group, **{f"sys/fs/cgroup/{name}": text for name, text in files.items()}}
    for name, text in contents.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n" if text else "")
    assert cpu_quota(tmp_path) == quota


@pytest.mark.parametrize(("quota", "usable"), [(None, 4), (64.0, 4), (3.0, 3), (2.5, 2), (0.5, 1)])
def test_threads_that_could_not_compute_at_a_time_are_not_used(
    monkeypatch: pytest.MonkeyPatch, quota: float | None, usable: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(4)))
    monkeypatch.setattr(cores, "cpu_quota", lambda: quota)
    assert usable_cores() == usable
