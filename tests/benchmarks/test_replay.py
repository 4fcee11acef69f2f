"""``python -m benchmarks replay`` measures the memories, and refuses impossible sizes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.replay import bench_replay

SMALL = ["--observations", "4", "--actions", "1", "--num_envs", "4", "--steps", "8", "--batch", "4", "--repeats", "3"]


def test_all_memories_are_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench_replay([*SMALL, "--json", str(tmp_path / "found.json")]) == 0
    found = json.loads((tmp_path / "found.json").read_text())
    ours = 29 + 4 * 4 / 8
    held = {"SKRL": 49, "LedgerLab": ours, "LedgerLab, sums of rewards": ours}
    assert found["bytes_per_transition"] == held
    assert set(found["medians_us"]) == {f"{name} {what}" for name in held for what in ("write a step", "draw a batch")}
    saves = found["saves"]
    assert 0 < saves["save"]["size_bytes"] == saves["restore"]["size_bytes"]
    assert "bytes per transition" in capsys.readouterr().out
