"""``python -m benchmarks native`` compares engines in turn, and each turn with the one beside it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks import native
from benchmarks.native_scaling import Physics


def test_ratios_are_of_turns_that_follow_each_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    slow = iter([1.0, 4.0, 1.0])  # the machine is slower during the second pair
    asked = []

    def run_python(arguments: Sequence[str], what: str) -> str:
        asked.append(list(arguments[2:]))
        nonlocal factor
        if arguments[5] == "64":
            return json.dumps({"peak_memory_bytes": 1e9}) + "\n"
        if arguments[3] == "newton_mjwarp":
            factor = next(slow)
            return "lines of Isaac Lab\n" + json.dumps({"step_us": 900.0 * factor, "physics_us": 800.0 * factor}) + "\n"
        own = {"step_us": 300.0 * factor, "physics_us": 200.0 * factor, "mujoco_us": 150.0 * factor}
        own |= {"physics_cpu_us": 375.0 * factor, "peak_memory_bytes": 1.064e9}
        return json.dumps(own) + "\n"

    factor = 1.0
    monkeypatch.setattr(native, "run_python", run_python)
    monkeypatch.setattr(native, "require_tasks", lambda tasks: None)
    written = tmp_path / "found.json"
    arguments = ["--tasks", "Some-Task", "--threads", "2", "--num_envs", "128", "--steps", "5", "--json", str(written)]
    assert native.bench_native(arguments) == 0
    assert asked == [
        *(3 * [["Some-Task", "newton_mjwarp", "1", "128", "5"], ["Some-Task", "newton_mujoco", "2", "128", "5"]]),
        ["Some-Task", "newton_mujoco", "2", "64", "1"],
    ]
    line = next(line for line in capsys.readouterr().out.splitlines() if "newton_mujoco" in line)
    assert line.split() == ["Some-Task", "newton_mujoco", "2", "426,667", "3.00", "75%", "80%", "1.00"]
    assert [len(figure["turns"]) for figure in json.loads(written.read_text())["figures"]] == [3, 3]


def test_a_speed_up_is_limited_by_what_one_thread_does_and_by_the_slowest_block() -> None:
    even = Physics(
        worlds=640, whole_us=1e6, divisible_us=0.9e6, mujoco_us=0.8e6, tasks=0, steps=4, world_us=[0.8e6 / 4 / 640]
    )
    assert even.serial_share == pytest.approx(0.1)
    for threads in (1, 2, 16, 64):
        assert even.most(threads) == pytest.approx(1 / (0.1 + 0.9 / threads))
        assert even.simulated(threads) == pytest.approx(even.most(threads), rel=1e-6), (
            "even blocks leave no thread idle"
        )
    uneven = dataclasses.replace(even, world_us=[100.0, 100.0, 100.0, 900.0])
    assert uneven.simulated(1) == pytest.approx(1.0, abs=0.1)
    assert 0.8 * even.most(16) < uneven.simulated(16) < even.most(16)
    assert dataclasses.replace(even, tasks=1000).simulated(64) < 0.99 * even.simulated(64)
