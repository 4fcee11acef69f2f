"""Runs that start with the checkpoint of an earlier run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from ledger_lab.errors import UserError
from ledger_lab.ledger import Run, read_ledger
from ledger_lab.pretrained import shipped_checkpoint
from ledger_lab.reports import summarize_run
from tests.conftest import ROOT, script
from tests.evaluation.test_evaluate_bad_input import retold, with_other

PROVEN = shipped_checkpoint("LedgerLab-Cartpole")


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, str]:
    """A run of one iteration that started with a proven policy, and its output."""
    log_root = tmp_path_factory.mktemp("begun")
    finished = script(
        "train", "--checkpoint", "LedgerLab-Cartpole", "--num_envs", "32", "--max_iterations", "1", "--device", "cpu",
        "--log_root", log_root,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return read_ledger(log_root).runs[0], finished.stdout


def test_the_first_policy_of_the_run_is_as_good_as_the_checkpoint(begun: tuple[Run, str]) -> None:
    assert begun[0].results[0].outcomes.successes > 240, "of 256; a policy with random weights has none"


def test_the_ledger_names_the_checkpoint_and_its_cost(begun: tuple[Run, str]) -> None:
    run, printed = begun
    (theirs,) = read_ledger(PROVEN.parent).runs
    base, began = summarize_run(theirs), run.declared.began_from
    assert began is not None and base.confirmed is not None
    assert (began["run_id"], began["checkpoint"], began["task"]) == (base.run_id, PROVEN.name, base.task)
    assert began["sha256"] == next(each.sha256 for each in theirs.checkpoints if each.path == PROVEN.name)
    assert (began["env_steps"], began["wall_s"], began["usd"]) == (base.env_steps, base.wall_s, base.declared_usd)
    summary = summarize_run(run)
    assert summary.began_from == began and summary.env_steps == 32 * run.declared.horizon, "its own steps"
    line = f"{run.declared.run_id} began with {PROVEN.name} of run {base.run_id} ({base.task}), which had taken 0:4"
    assert line in " ".join(printed.split())


def test_sql_and_exports_name_the_checkpoint(begun: tuple[Run, str], tmp_path: Path) -> None:
    answer = tmp_path / "answer.json"
    query = "SELECT began_from FROM runs"
    finished = script("report", "--log_root", begun[0].directory, "--sql", query, "--json", answer)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    began = begun[0].declared.began_from
    assert began is not None and f"{began['run_id']}/{PROVEN.name}" in json.dumps(json.loads(answer.read_text()))


def test_an_interrupted_run_resumes_without_the_checkpoint(tmp_path: Path) -> None:
    request = ["--checkpoint", str(PROVEN), "--num_envs", "32", "--max_iterations", "2", "--no-stop_at_target"]
    request += ["--device", "cpu", "--log_root", str(tmp_path)]
    fake = str(ROOT / "tests" / "fakes" / "interrupted.py")
    asked = subprocess.run([sys.executable, fake, *request, "1:SIGTERM"], capture_output=True, text=True, check=False)
    assert asked.returncode == 75, asked.stdout + asked.stderr
    (before,) = read_ledger(tmp_path).runs
    finished = script("train", "--resume", before.directory)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    (run,) = read_ledger(tmp_path).runs
    assert run.declared == before.declared and run.declared.began_from is not None
    assert [saved.iteration for saved in run.checkpoints] == [1, 2]


def test_new_observations_may_follow_those_of_the_checkpoint(tmp_path: Path) -> None:
    from ledger_lab.runners.adapter import load_adapter
    from ledger_lab.runners.configs import resolve_configs
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.beginning import find_beginning

    registered_tasks()
    flat, rough = "LedgerLab-Velocity-Flat-AnymalC", "LedgerLab-Velocity-Rough-AnymalC"
    configs = resolve_configs(rough, "rsl_rl", [], "rsl_rl_with_symmetry_cfg_entry_point")
    beginning = find_beginning(flat, tmp_path, load_adapter("rsl_rl"), *configs)
    assert (beginning.path, beginning.began_from["task"]) == (shipped_checkpoint(flat), flat)


@pytest.fixture(scope="module")
def cartpole(trained: Path) -> tuple[Any, ...]:
    """The arguments of `find_beginning` after the name, for a run like the trained run."""
    from ledger_lab.runners.adapter import load_adapter
    from ledger_lab.runners.configs import resolve_configs
    from ledger_lab.tasks.registry import registered_tasks

    registered_tasks()
    (run,) = read_ledger(trained).runs
    return (trained, load_adapter("rsl_rl"), *resolve_configs("LedgerLab-Cartpole", "rsl_rl", run.declared.overrides))


def drifted(trained: Path, folder: Path, parts: Iterable[str]) -> Path:
    """Return the directory of a run like the trained run, with changes in some parts of its task."""
    (run,) = read_ledger(trained).runs
    return retold(trained, folder, "drifted0", panel_fields=with_other(run.declared, *parts))


@pytest.mark.parametrize("part", ["observations", "actions"])
def test_a_checkpoint_with_other_observations_or_actions_is_refused(
    trained: Path, tmp_path: Path, cartpole: tuple[Any, ...], part: str
) -> None:
    from ledger_lab.training.beginning import find_beginning

    with pytest.raises(UserError, match=rf"drifted0 was trained, so .* has learned from something else: {part}: "):
        find_beginning(str(drifted(trained, tmp_path, [part])), *cartpole)


def test_a_checkpoint_from_another_scene_is_accepted(trained: Path, tmp_path: Path, cartpole: tuple[Any, ...]) -> None:
    from ledger_lab.training.beginning import find_beginning

    (run,) = read_ledger(trained).runs
    others = set(run.declared.panel_fields["environment_sha256"]) - {"observations", "actions"}
    assert {"scene", "events", "terminations"} <= others
    assert find_beginning(str(drifted(trained, tmp_path, others)), *cartpole).began_from["run_id"] == "drifted0"


def test_a_checkpoint_of_a_run_that_does_not_describe_its_task_is_refused(
    trained: Path, tmp_path: Path, cartpole: tuple[Any, ...]
) -> None:
    from ledger_lab.training.beginning import find_beginning

    other = retold(trained, tmp_path, "foreign0", panel_fields={"env": "a cart-pole of one's own"})
    with pytest.raises(
        UserError, match=r"foreign0 was trained, .* != None \(now != then\)\. Restore the task as in .*env\.yaml"
    ):
        find_beginning(str(other), *cartpole)
