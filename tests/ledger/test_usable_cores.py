"""A process uses as many cores as it is bound to, and as its control group allows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ledger_lab.ledger import cores
from ledger_lab.ledger.control_groups import cpu_quota
from ledger_lab.ledger.cores import usable_cores


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
