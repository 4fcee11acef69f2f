"""The memory that a process can still take, in control groups of both versions."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from ledger_lab.ledger.control_groups import memory_bytes, usable_bytes

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
