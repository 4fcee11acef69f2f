"""Benchmarks refuse what they cannot measure, in one line, before the work."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from ledger_lab.errors import UserError


@pytest.mark.parametrize(
    "line",
    [
        "across_tasks --studies 0",
        "cost_interval --cohorts 0",
        "coverage --only mood",
        "engines {folder}",
        "error_budget --target 0.99",
        "evaluators --success 1.5",
        "ground {folder}",
        "kernels --architecture 91 --caches kernels",
        "ledger --rows 1000000000000 --runs 1",
        "load --writers 3 --kills 4",
        "log_rank --pairs 0",
        "native --threads 4096",
        "regress {folder}",
        "replay --steps 0",
        "reward_hacking --trainings 0",
        "shared_ledger --runs 3 --rows 4",
        "startup --against {folder}",
        "stock --tasks LedgerLab-Lift-Cube-Franka",
        "studies --studies 0",
        "threads --tasks LedgerLab-Ants",
        "verdict --stake 0.9",
        "versus --trials 0",
    ],
)
def test_what_cannot_be_measured_is_refused_in_one_line(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name, *arguments = line.format(folder=tmp_path).split()
    program = getattr(importlib.import_module(f"benchmarks.{name}"), f"bench_{name}")
    with pytest.raises(UserError) as refused:
        program(arguments)
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []
