"""The benchmark of grounds pairs episodes by seed, and knows on which patch each episode is."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.ground import Pair, compare, pairs_of, patches
from ledger_lab.errors import UserError
from ledger_lab.ledger import read_ledger
from tests.fakes.ledgers import write_run
from tests.tools.test_records import FIELDS, evaluated

OTHER = {**FIELDS, "physics": {"engine": "newton/mujoco"}}
HELD_OUT = {"ground": "held_out"}


def pair(seed: int, level: int, trained: bool, held_out: bool) -> Pair:
    """Return an episode on the first kind of ground."""
    return Pair(seed=seed, level=level, kind=0, trained=trained, held_out=held_out)


def test_patches_depend_on_the_seed_alone_and_cover_the_grid() -> None:
    levels, kinds = patches("task", range(256), 5, 6)
    assert (levels[7:9], kinds[7:9]) == patches("task", [7, 8], 5, 6)
    assert len(set(zip(levels, kinds, strict=True))) == 30


def test_failures_that_share_a_patch_say_less_than_failures_on_many_patches() -> None:
    scattered = [pair(seed, seed // 2, True, seed % 10 != 0) for seed in range(40)]
    gathered = [pair(seed, seed // 2, True, seed >= 4) for seed in range(40)]
    widths = []
    for pairs in (scattered, gathered):
        plain, by_patch = (compare(pairs, by_patch=each) for each in (False, True))
        assert plain.difference == by_patch.difference == -0.1
        widths.append(by_patch.interval[1] - by_patch.interval[0])
    assert widths[0] < widths[1]


def test_scores_with_other_physics_are_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.ground._paired", lambda run, grounds: [grounds])
    run_dir = write_run(tmp_path, "aa")
    evaluated(run_dir, {"model_2.pt": 9}, FIELDS)
    evaluated(run_dir, {"model_2.pt": 6}, OTHER | HELD_OUT)
    assert pairs_of(read_ledger(tmp_path).runs[0]) == []
    evaluated(run_dir, {"model_2.pt": 7}, FIELDS | HELD_OUT)
    evaluated(run_dir, {"model_2.pt": 4}, FIELDS | HELD_OUT | {"observation_noise": True})
    (scores,) = pairs_of(read_ledger(tmp_path).runs[0])
    assert {ground: outcomes.successes for ground, outcomes in scores.items()} == {"trained": 9, "held_out": 7}
    evaluated(run_dir, {"model_2.pt": 5}, OTHER)
    with pytest.raises(UserError, match="run aa has scores on both grounds in several simulations"):
        pairs_of(read_ledger(tmp_path).runs[0])
