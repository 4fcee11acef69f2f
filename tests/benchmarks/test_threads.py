"""The benchmark of torch's threads."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.threads import bench_threads


def test_each_number_of_threads_is_timed_and_the_rules_choice_is_marked(tmp_path: Path) -> None:
    path = tmp_path / "threads.json"
    argv = ["--tasks", "LedgerLab-Reach-Franka", "LedgerLab-Ant", "--threads", "1", "2"]
    assert bench_threads([*argv, "--steps", "1", "--rounds", "1", "--json", str(path)]) == 0
    found = json.loads(path.read_text())["steps"]
    chosen = [(each["task"], each["threads"]) for each in found if each["chosen"]]
    assert chosen == [("LedgerLab-Reach-Franka", 1), ("LedgerLab-Ant", 2)]
    assert len(found) == 4 and all(each["wall_us"] > 0 and each["cpu_us"] > 0 for each in found)
