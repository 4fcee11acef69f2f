"""``python -m benchmarks off_policy_update`` divides an update into its parts, and says what it did not measure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import off_policy_update
from benchmarks.off_policy_learner import Case, Turns
from benchmarks.off_policy_parts import PARTS
from benchmarks.off_policy_update import bench_off_policy_update
from benchmarks.off_policy_variants import VARIANTS
from ledger_lab.errors import UserError


def test_every_part_and_every_change_is_in_the_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench_off_policy_update(["--quick", "--json", str(tmp_path / "found.json")]) == 0
    found = json.loads((tmp_path / "found.json").read_text())
    measured = {(each["algorithm"], each["size"]): each for each in found["figures"]}
    assert set(measured) == {(name, size) for name in ("sac", "td3") for size in ("cart-pole", "quadruped")}
    for (algorithm, _), figures in measured.items():
        expected = set(PARTS) - (set() if algorithm == "sac" else {"entropy"})
        assert set(figures["parts_ms"]) == expected
        assert all(spent_ms > 0 for spent_ms in figures["parts_ms"].values())
        assert set(figures["variants"]) == set(VARIANTS)
        foreach = figures["variants"]["torch._foreach_lerp_"]
        assert 0.0 < foreach["ratio"][0] <= foreach["ratio"][2]
        assert foreach["largest_difference"] < 0.01
        assert figures["variants"]["CUDA graphs of the networks"] == {"not_measured": "the device is a CPU"}
    assert found["complete"]
    printed = capsys.readouterr().out
    assert "44%" in printed and "not measured: --quick compiles nothing" in printed


def test_figures_so_far_remain_if_it_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def compare(case: Case, variant: str, turns: Turns) -> dict[str, Any]:
        raise KeyboardInterrupt

    monkeypatch.setattr(off_policy_update, "compare", compare)
    with pytest.raises(KeyboardInterrupt):
        bench_off_policy_update(["--quick", "--algorithm", "td3", "--json", str(tmp_path / "found.json")])
    found = json.loads((tmp_path / "found.json").read_text())
    assert not found["complete"]
    (figures,) = found["figures"]
    assert (figures["algorithm"], figures["size"], figures["variants"]) == ("td3", "cart-pole", {})
    assert figures["parts_ms"]["critics"] > 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_its_device_is_refused() -> None:
    with pytest.raises(UserError, match="--device cuda: this machine has no GPU"):
        bench_off_policy_update(["--device", "cuda"])


def test_impossible_numbers_are_refused() -> None:
    with pytest.raises(UserError, match="--updates and --rounds must be at least 1"):
        bench_off_policy_update(["--rounds", "0"])
