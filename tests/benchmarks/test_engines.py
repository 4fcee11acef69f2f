"""The benchmark of engines compares scores of the same policy on the same episodes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.engines import bench_engines
from ledger_lab.errors import UserError
from tests.fakes.ledgers import write_run
from tests.tools.test_records import FIELDS, evaluated

NATIVE_FIELDS = {**FIELDS, "physics": {"engine": "newton/mujoco"}}


def test_policies_with_valid_scores_under_both_engines_are_compared_by_seed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_dir = write_run(tmp_path, "aa", task="LedgerLab-T")
    evaluated(run_dir, {"model_2.pt": 9, "model_1.pt": 3}, FIELDS)
    evaluated(run_dir, {"model_2.pt": 6}, NATIVE_FIELDS)
    evaluated(run_dir, {"model_1.pt": 3}, NATIVE_FIELDS, invalid="capacity")
    assert bench_engines([str(tmp_path), "--json", str(tmp_path / "found.json")]) == 0
    (policy,) = json.loads((tmp_path / "found.json").read_text())["policies"]
    assert (policy["task"], policy["episodes"]) == ("LedgerLab-T", 10)
    assert policy["successes"] == {"newton/mjwarp": 9, "newton/mujoco": 6}
    difference = policy["difference"]
    assert (difference["difference"], difference["only_first"], difference["only_second"]) == (-0.3, 3, 0)
    assert difference["interval"][0] < -0.3 < difference["interval"][1]
    assert "-30.0" in capsys.readouterr().out


def test_scores_on_different_ground_are_not_compared(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, "aa")
    evaluated(run_dir, {"model_2.pt": 9}, FIELDS | {"ground": "held_out"})
    evaluated(run_dir, {"model_2.pt": 6}, NATIVE_FIELDS)
    with pytest.raises(UserError, match="contains no policy with scores under both engines"):
        bench_engines([str(tmp_path)])
    evaluated(run_dir, {"model_2.pt": 8}, NATIVE_FIELDS | {"ground": "held_out"})
    assert bench_engines([str(tmp_path), "--json", str(tmp_path / "found.json")]) == 0
    (policy,) = json.loads((tmp_path / "found.json").read_text())["policies"]
    assert policy["successes"] == {"newton/mjwarp": 9, "newton/mujoco": 8}


def test_scores_in_another_simulation_are_not_compared(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, "aa")
    evaluated(run_dir, {"model_2.pt": 9}, FIELDS)
    evaluated(run_dir, {"model_2.pt": 6}, NATIVE_FIELDS)
    evaluated(run_dir, {"model_2.pt": 2}, NATIVE_FIELDS | {"environment_sha256": {"scene": "0" * 64}})
    assert bench_engines([str(tmp_path), "--json", str(tmp_path / "found.json")]) == 0
    (policy,) = json.loads((tmp_path / "found.json").read_text())["policies"]
    assert policy["successes"] == {"newton/mjwarp": 9, "newton/mujoco": 6}
    evaluated(run_dir, {"model_2.pt": 5}, FIELDS | {"physics": {"engine": "newton/mujoco", "settings": {"cone": 1}}})
    with pytest.raises(UserError, match="run aa has scores on p with several settings of one engine"):
        bench_engines([str(tmp_path)])
