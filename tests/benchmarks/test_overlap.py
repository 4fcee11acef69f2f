"""``python -m benchmarks overlap`` compares trainings whose gradient steps take turns, and overlap."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.overlap import bench_overlap
from ledger_lab.errors import UserError


@pytest.mark.slow
def test_both_ways_are_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--quick", "--tasks", "LedgerLab-Cartpole", "--algorithms", "sac", "--updates", "1"]
    assert bench_overlap([*asked, "--json", str(tmp_path / "found.json")]) == 0
    (figures,) = json.loads((tmp_path / "found.json").read_text())["figures"]
    ((apart,), (both,)) = figures["in_turns"], figures["overlapping"]
    assert apart["gradient_steps_per_s"] > 0 and "replay_sample" in apart["phases_ms"]
    assert (both["policy_lag_steps"], both["policy_lag_updates"]) == (1.0, 1.0)
    assert both["overlapped_ms"] >= 0.0 and "replay_sample" not in both["phases_ms"]
    assert "1 step, 1 updates" in capsys.readouterr().out


def test_impossible_numbers_are_refused() -> None:
    with pytest.raises(UserError, match="--pairs must be at least 1"):
        bench_overlap(["--pairs", "0"])
