"""A training is the same to the ledger, whichever library does it. What ``trained`` shows of RSL-RL is not repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger_lab.ledger import FIGURES, CheckpointSaved, PanelResult, PhaseWindow, Status, read_ledger
from ledger_lab.runners.adapter import LIBRARIES, load_adapter
from tests.conftest import script


@pytest.mark.parametrize("library", [name for name in LIBRARIES if name != "rsl_rl"])
def test_a_library_trains_is_judged_and_scored_like_any_other(library: str, tmp_path: Path) -> None:
    arguments = ["--rl_library", library, "--agent", f"{library}_cfg_entry_point", "--device", "cpu"]
    short = ["--num_envs", "64", "--max_iterations", "3", f"{load_adapter(library).settings['epochs']}=2"]
    finished = script("train", *arguments, *short, "--log_root", tmp_path)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "batch 64 × 32 = 2048 steps in 4 minibatches, 2 epochs: effective batch 4096" in finished.stdout

    (run,) = read_ledger(tmp_path).runs
    (attempt,) = run.attempts
    declared = run.declared
    assert attempt.status is Status.COMPLETED
    assert (declared.rl_library, declared.agent) == (library, f"{library}_cfg_entry_point")
    assert (declared.max_iterations, declared.horizon, declared.epochs, declared.minibatches) == (3, 32, 2, 4)
    windows = [row for row in attempt.of(PhaseWindow) if row.iteration in (1, 2, 3)]
    spent = {phase for row in windows for phase in row.phase_ns}
    assert {"simulate", "manage", "infer", "returns", "learn", "evaluate", "log"} <= spent
    assert {"value_loss", "policy_loss", "entropy", "action_std", "kl", "grad_norm"} <= set(windows[-1].figures)
    assert set(windows[-1].figures) <= set(FIGURES)
    saved = {row.path: row for row in attempt.of(CheckpointSaved)}
    assert max(row.iteration for row in saved.values()) == 3
    judged = attempt.of(PanelResult)
    assert [saved[row.checkpoint].iteration for row in judged] == [1, 3]

    scored = script("evaluate", run.directory, "--log_root", tmp_path, "--device", "cpu")
    assert scored.returncode == 0, scored.stdout + scored.stderr
    (run,) = read_ledger(tmp_path).runs
    again = {row.checkpoint: row.outcomes for row in run.results if row.purpose == "evaluation"}
    assert set(again) == set(saved)
    for row in judged:
        assert again[row.checkpoint] == row.outcomes, "episode by episode, bit for bit"
