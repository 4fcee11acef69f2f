"""Runs that start with the checkpoint of an earlier run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from ledger_lab.errors import UserError
from ledger_lab.ledger import AttemptStarted, Journal, PanelResult, Run, read_journal, read_ledger
from ledger_lab.panels import ERROR_BUDGET, RULE_VERSION
from ledger_lab.reports import summarize_run
from ledger_lab.tasks.pretrained import shipped_checkpoint
from ledger_lab.units import duration
from tests.conftest import fake, one_run_dir, script
from tests.training.evaluation.test_evaluate_bad_input import retold, with_other

PROVEN = shipped_checkpoint("LedgerLab-Cartpole")


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, str]:
    """A run of two iterations that started with a proven policy and was interrupted in between, and its output."""
    log_root = tmp_path_factory.mktemp("begun")
    request = ["--checkpoint", "LedgerLab-Cartpole", "--num_envs", "32", "--max_iterations", "2", "--device", "cpu"]
    request += ["--no_stop_at_target", "--log_root", str(log_root)]
    asked = fake("interrupted", *request, "1:SIGTERM")
    assert asked.returncode == 75, asked.stdout + asked.stderr
    (before,) = read_ledger(log_root).runs
    finished = script("train", "--resume", before.directory)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    (run,) = read_ledger(log_root).runs
    assert run.declared == before.declared
    return run, finished.stdout


def test_the_first_policy_of_the_run_is_as_good_as_the_checkpoint(begun: tuple[Run, str]) -> None:
    assert begun[0].results[0].outcomes.successes > 240, "of 256; a policy with random weights has none"


def test_the_ledger_names_the_checkpoint_and_its_cost(begun: tuple[Run, str]) -> None:
    run, printed = begun
    (theirs,) = read_ledger(PROVEN.parent).runs
    base, began = summarize_run(theirs), run.declared.began_from
    assert began is not None and base.proven is not None
    assert (began["run_id"], began["checkpoint"], began["task"]) == (base.run_id, PROVEN.name, base.task)
    assert began["sha256"] == next(each.sha256 for each in theirs.checkpoints if each.path == PROVEN.name)
    assert (began["env_steps"], began["wall_s"], began["usd"]) == (base.env_steps, base.wall_s, base.declared_usd)
    summary = summarize_run(run)
    assert (run.declared.error_budget, began["proof_panels"]) == (ERROR_BUDGET, 1), "its proof spent nothing"
    assert summary.began_from == began and summary.env_steps == 2 * 32 * run.declared.horizon, "its own steps"
    line = f"began with {PROVEN.name} of run {base.run_id} ({base.task}), which had taken "
    assert line + duration(began["wall_s"]) in " ".join(printed.split())


def test_an_interrupted_run_resumes_without_the_checkpoint(begun: tuple[Run, str]) -> None:
    run, _ = begun
    assert run.declared.began_from is not None
    assert len(run.attempts) == 2
    assert [saved.iteration for saved in run.checkpoints] == [1, 2]


def test_new_observations_may_follow_those_of_the_checkpoint(tmp_path: Path) -> None:
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.beginning import find_beginning
    from ledger_lab.training.runners.adapter import load_adapter
    from ledger_lab.training.runners.configs import resolve_configs

    registered_tasks()
    flat, rough = "LedgerLab-Velocity-Flat-AnymalC", "LedgerLab-Velocity-Rough-AnymalC"
    configs = resolve_configs(rough, "rsl_rl", [])
    beginning = find_beginning(flat, tmp_path, load_adapter("rsl_rl"), *configs)
    assert (beginning.path, beginning.began_from["task"]) == (shipped_checkpoint(flat), flat)
    weights = torch.load(beginning.path, weights_only=True)["actor_state_dict"]
    assert weights["obs_normalizer._mean"].shape == (1, 48), "what the networks of the new run have, too"


@pytest.fixture(scope="module")
def cartpole(trained: Path) -> tuple[Any, ...]:
    """The arguments of `find_beginning` after the name, for a run like the trained run."""
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.adapter import load_adapter
    from ledger_lab.training.runners.configs import resolve_configs

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

    with pytest.raises(
        UserError, match=rf"drifted0 was trained, so its policy would see or do something else: {part}: "
    ):
        find_beginning(str(drifted(trained, tmp_path, [part])), *cartpole)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("actor.distribution_cfg.std_type", "log"), ("actor.distribution_cfg.class_name", "Beta"), ("clip_actions", 1.0)],
)
def test_a_checkpoint_is_refused_if_its_outputs_would_mean_other_actions(
    cartpole: tuple[Any, ...], setting: str, value: object
) -> None:
    from ledger_lab.tasks.recipes.settings import write_setting
    from ledger_lab.training.beginning import find_beginning

    trained, adapter, env_cfg, agent_cfg = cartpole
    changed = deepcopy(agent_cfg)
    write_setting(changed, f"agent.{setting}", value)
    with pytest.raises(UserError, match=rf"agent\.{re.escape(setting)} was .* when it was trained, and is {value} now"):
        find_beginning(str(one_run_dir(trained)), trained, adapter, env_cfg, changed)


def test_a_checkpoint_of_an_earlier_recipe_is_refused(trained: Path, tmp_path: Path, cartpole: tuple[Any, ...]) -> None:
    """The present recipe does not tell what its networks look like."""
    from ledger_lab.training.beginning import find_beginning

    (run,) = read_ledger(trained).runs
    earlier = {**run.declared.config_sha256, "agent": "0" * 64}
    with pytest.raises(
        UserError, match=r"agent configuration of LedgerLab-Cartpole has changed since run earlier0 was"
    ):
        find_beginning(str(retold(trained, tmp_path, "earlier0", config_sha256=earlier)), *cartpole)


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
        UserError, match=r"foreign0 was trained, .* != None; .*\(now != then\)\. Restore the task as in .*env\.yaml"
    ):
        find_beginning(str(other), *cartpole)


def spent(trained: Path, folder: Path, proofs: int, **changes: object) -> Path:
    """Return the directory of a run like the trained run, with failed proofs after its own."""
    directory = retold(trained, folder, "spent000", **changes)
    before = read_journal(directory / "journal-1-0.jsonl").rows
    row = next(each for each in before if isinstance(each, PanelResult))
    lost = replace(row, purpose="proof", outcomes=replace(row.outcomes, success=[False] * row.outcomes.episodes))
    with Journal(directory / "journal-2-0.jsonl") as journal:
        journal.append(AttemptStarted(run_id="spent000", attempt=2, rank=0, pid=2**22 + 1, host="h", wall_ns=1))
        for number in range(proofs):
            journal.append(replace(lost, proof=100 + number))
    return directory


def test_a_run_begins_with_the_error_budget_that_its_checkpoint_has_left(
    trained: Path, tmp_path: Path, cartpole: tuple[Any, ...]
) -> None:
    from ledger_lab.training.beginning import find_beginning

    whole = find_beginning(str(spent(trained, tmp_path / "0", 0)), *cartpole)
    rest = find_beginning(str(spent(trained, tmp_path / "3", 3)), *cartpole)
    assert rest.error_budget == pytest.approx(whole.error_budget / 8, rel=0.01)
    assert rest.began_from["proof_panels"] == whole.began_from["proof_panels"] + 3
    again = find_beginning(str(spent(trained, tmp_path / "chain", 3, error_budget=rest.error_budget)), *cartpole)
    assert again.error_budget == pytest.approx(whole.error_budget / 64, rel=0.02), "of a run that began so itself"


def test_a_budget_that_proves_nothing_is_refused(trained: Path, tmp_path: Path, cartpole: tuple[Any, ...]) -> None:
    from ledger_lab.panels import load_panel
    from ledger_lab.training.beginning import find_beginning

    beginning = find_beginning(str(spent(trained, tmp_path, 5)), *cartpole)
    panel = load_panel("cartpole_v1")
    beginning.require_provable(panel)
    too_few = replace(panel, seeds=panel.seeds[:50])
    with pytest.raises(UserError, match=r"its run has 0\.\d\d % of error budget left, and 50 episodes are then too"):
        beginning.require_provable(too_few)


def test_a_rule_that_is_not_known_leaves_no_known_budget(
    trained: Path, tmp_path: Path, cartpole: tuple[Any, ...]
) -> None:
    from ledger_lab.training.beginning import find_beginning

    other = retold(trained, tmp_path, "newer000", verdict_rule=RULE_VERSION + 1)
    with pytest.raises(UserError, match=r"run newer000 was judged by version \d+ of .* use a newer version"):
        find_beginning(str(other), *cartpole)
