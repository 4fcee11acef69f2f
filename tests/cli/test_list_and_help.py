"""``list_envs.py``, and the help of every program."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest
from isaaclab.app import add_launcher_args

from ledger_lab.cli.list_tasks import _record
from ledger_lab.cli.programs import known_commands
from ledger_lab.ledger import Run, read_ledger
from ledger_lab.reports import summarize_run
from ledger_lab.reports.terminal.request import LAUNCHER_FLAGS
from ledger_lab.tasks.pack import TASKS
from ledger_lab.tasks.pretrained import ROOT
from ledger_lab.units import duration
from tests.conftest import answers_without, script
from tests.fakes.ledgers import write_run
from tests.warm import HEAVY


def test_the_tasks_are_listed_with_their_panels() -> None:
    import torch

    default = "newton/mjwarp" if torch.cuda.is_available() else "newton/mujoco"

    def engine(run: Run) -> str:
        return "" if run.declared.physics == default else f" with {run.declared.physics}"

    finished = script("list_envs")
    assert finished.returncode == 0, finished.stderr
    lines = finished.stdout.splitlines()
    (first,) = [index for index, line in enumerate(lines) if line.startswith("LedgerLab-Cartpole")]
    row = lines[first]
    assert "rsl_rl, rl_games, skrl" in row and "newton_mjwarp, newton_mujoco, ovphysx" in row, "a pipe gets whole cells"
    assert any("cartpole_robust_v1" in line for line in lines[first + 1 : first + 4])
    (run,) = read_ledger(ROOT / "LedgerLab-Cartpole").runs
    summary = summarize_run(run)
    record = rf"{summary.heldout_successes}/256 in {duration(summary.wall_to_target_s)}{engine(run)}"
    assert re.search(rf"\s4 +1 +256 +cartpole_v1 +p1-\w{{8}}… +256 +90 % +{record}$", row.rstrip())
    for task in TASKS:
        (own,) = [line for line in lines if line.startswith(f"{task} ")]
        (run,) = read_ledger(ROOT / task).runs
        began = run.declared.began_from
        before = rf" \+ {duration(began['wall_s'])}" if began else ""
        record = rf"\d+/\d+ in [\d:]+{before}{engine(run)}(?: as p1-\w{{8}}…)?"
        assert re.search(rf" \d+ +\d+ +\d+ +\w+_v1 +p1-\w{{8}}… +\d+ +90 % +{record}$", own.rstrip())


def test_a_policy_that_missed_its_target_is_listed_with_its_best_score(tmp_path: Path) -> None:
    write_run(tmp_path, "a", scores=(7, 6))
    assert _record(summarize_run(read_ledger(tmp_path).runs[0])) == "7/10, short of it"


def test_a_panel_that_cannot_be_read_is_named_and_the_other_tasks_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    import gymnasium as gym
    from gymnasium.envs.registration import EnvSpec

    from ledger_lab.cli.list_tasks import list_tasks
    from ledger_lab.tasks.registry import load_task_packages

    load_task_packages()
    panel = tmp_path / "theirs.toml"
    panel.write_text("task = [")
    ours, task = gym.spec("LedgerLab-Cartpole"), "LedgerLab-Cartpole-Unreadable"
    theirs = EnvSpec(task, ours.entry_point, kwargs={**ours.kwargs, "default_panel": str(panel)})
    monkeypatch.setitem(gym.registry, task, theirs)
    assert list_tasks(["--keyword", "Cartpole"]) == 0
    lines = capfd.readouterr().out.splitlines()
    (row,) = [line for line in lines if line.startswith(task)]
    assert " cartpole_v1 " not in row
    assert any(line.startswith("LedgerLab-Cartpole ") and " cartpole_v1 " in line for line in lines)
    (warning,) = [line for line in lines if line.startswith("warning:")]
    assert str(panel) in warning


WORDS = {
    "evaluate": ["RUN_OR_CHECKPOINT", "--panel"],
    "export_policy": ["contract.json", "--tolerance"],
    "play": ["--video_length", "--pretrained"],
    "profile_run": ["--trace", "--nsys", "--iterations"],
    "report": ["--json", "--details", "--prices"],
    "search": ["--at_once", "sealed seeds", "search.py ant_recipe --status"],
    "train": ["--cohort_size", "physics=NAME"],
}
"""What the help of a program explains."""


def test_help_explains_every_program_without_waiting_for_torch_or_isaac_lab() -> None:
    names = list(known_commands())
    for name, (out, error) in zip(names, answers_without(HEAVY, *([name, "--help"] for name in names)), strict=True):
        assert error is None and f"usage: {name}.py" in out
        assert all(word in out for word in WORDS.get(name, []))


def test_the_help_of_a_task_lists_its_presets_and_health_rules() -> None:
    finished = script("train", "--task", "LedgerLab-Cartpole", "--help")
    assert finished.returncode == 0, finished.stderr
    assert all(word in finished.stdout for word in ("--rl_library", "- newton_kamino", "--viz", "reward_hacking:"))


def test_the_short_help_has_every_flag_of_isaac_labs_launcher() -> None:
    parser = argparse.ArgumentParser()
    add_launcher_args(parser)
    theirs = {flag for action in parser._actions for flag in action.option_strings} - {"-h", "--help"}
    assert {flag for flags, _, _ in LAUNCHER_FLAGS for flag in flags} == theirs
