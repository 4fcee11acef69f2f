"""``--recipe`` changes the plan of a run as overrides would, and a run can be resumed without the file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ledger_lab.errors import UserError

if TYPE_CHECKING:
    from ledger_lab.training.plan import TrainPlan
    from ledger_lab.training.request import TrainRequest


def asked(*arguments: str | Path) -> TrainRequest:
    from ledger_lab.training.request import TrainRequest

    return TrainRequest.parse(list(map(str, arguments)))


def planned(*arguments: str | Path) -> TrainPlan:
    from ledger_lab.training.plan import plan_training

    return plan_training(asked(*arguments))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(
        'version = 1\nnum_envs = 32\noverrides = ["env.episode_length_s=4"]\n'
        "[recipe]\nlearning_rate = 0.002\nmax_iterations = 7\n"
    )
    return path


@pytest.mark.parametrize("library", ["rsl_rl", "rl_games", "skrl"])
def test_a_run_declares_the_changes_of_a_recipe_file(library: str, file: Path, tmp_path: Path) -> None:
    from ledger_lab.tasks.recipes.settings import read_setting
    from ledger_lab.training.request import TrainRequest

    more = ("max_iterations = 7\n", "max_iterations = 7\nhorizon = 16\nsave_interval = 7\nminibatches = 4\n")
    file.write_text(file.read_text().replace(*more))
    plan = planned("--recipe", file, "--rl_library", library, "--log_root", tmp_path / "logs", "--no_eval")
    assert (plan.env_cfg.scene.num_envs, plan.env_cfg.episode_length_s, plan.batch.max_iterations) == (32, 4, 7)
    assert read_setting(plan.agent_cfg, plan.adapter.dialect.overrides["learning_rate"]) == 0.002
    declared = plan.declared
    assert "env.episode_length_s=4" in declared.overrides
    assert declared.request is not None
    again = TrainRequest.from_data(declared.request)
    assert (again.num_envs, again.recipe, again.overrides) == (32, str(file.resolve()), tuple(plan.declared.overrides))


@pytest.mark.parametrize(("library", "algorithm"), [("skrl", "sac"), ("skrl", "td3"), ("rl_games", "sac")])
def test_a_recipe_file_changes_the_recipe_of_the_algorithm_that_is_trained(
    library: str, algorithm: str, file: Path, tmp_path: Path
) -> None:
    from ledger_lab.tasks.recipes.settings import read_setting

    pytest.importorskip("ledger_lab.off_policy")
    more = "max_iterations = 7\nhorizon = 16\nsave_interval = 7\nreplay_steps = 99\naction_bound = 2.5\n"
    more += "exploration_noise = [0.1, 0.2]\n" if algorithm == "td3" else "initial_entropy_coef = 0.3\n"
    file.write_text(file.read_text().replace("max_iterations = 7\n", more))
    plan = planned(
        *("--recipe", file, "--rl_library", library, "--algorithm", algorithm),
        *("--log_root", tmp_path / "logs", "--no_eval"),
    )
    assert (plan.batch.max_iterations, plan.batch.horizon, plan.batch.save_interval) == (7, 16, 7)
    assert plan.batch.replay is not None and plan.batch.replay.replay_steps == 99
    overrides = plan.adapter.dialect.overrides
    assert read_setting(plan.agent_cfg, overrides["learning_rate"]) == 0.002
    assert read_setting(plan.agent_cfg, overrides["action_bound"]) == 2.5
    own = overrides["exploration_noise" if algorithm == "td3" else "initial_entropy_coef"]
    assert read_setting(plan.agent_cfg, own) == ([0.1, 0.2] if algorithm == "td3" else 0.3)
    assert plan.declared.recipe is not None and plan.declared.recipe["fields"]["replay_steps"] == 99


def test_a_recipe_file_for_another_algorithm_is_refused(file: Path, tmp_path: Path) -> None:
    pytest.importorskip("ledger_lab.off_policy")
    file.write_text(file.read_text() + "clip = 0.1\n")
    with pytest.raises(UserError, match="'clip' is not a field of sac"):
        planned("--recipe", file, "--algorithm", "sac", "--log_root", tmp_path / "logs")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["agent.algorithm.learning_rate=0.1"], r"override agent.algorithm.learning_rate=0.1: .*sets .*=0.002: leave"),
        (["env.episode_length_s=3"], r"override env.episode_length_s=3: .*sets env.episode_length_s=4"),
        (["--num_envs", "64"], r"--num_envs 64: .* sets num_envs = 32: leave one of them out"),
        (["env.scene.num_envs=64"], r"env.scene.num_envs=64: .* sets num_envs = 32"),
        (["--max_iterations", "3"], r"--max_iterations 3: .* sets max_iterations = 7"),
    ],
)
def test_a_value_that_the_command_line_sets_too_is_refused(
    arguments: list[str], complaint: str, file: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=complaint):
        planned("--recipe", file, "--log_root", tmp_path / "logs", *arguments)


def test_an_override_that_may_load_code_is_refused(file: Path, tmp_path: Path) -> None:
    file.write_text(file.read_text().replace("env.episode_length_s=4", "env.rewards.alive.func=os:system"))
    with pytest.raises(UserError, match=re.escape("override 'env.rewards.alive.func=os:system' may load code")):
        planned("--recipe", file, "--log_root", tmp_path / "logs")


def test_a_job_finds_the_file_of_a_relative_path(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from ledger_lab.clusters.engine import load_site
    from ledger_lab.clusters.submit import planned_training

    _, site = load_site("local")
    monkeypatch.chdir(file.parent)
    for each in (site, replace(site, project=Path("/elsewhere"))):
        training = planned_training(each, "training", ["--nproc", "2", "--recipe", file.name], nodes=1)
        assert asked(*training.start).recipe == str(file.absolute())
        assert "--recipe" not in training.resume, "the run has recorded the changes"
    with pytest.raises(UserError, match=r"absent\.toml: the file can't be read"):
        planned_training(site, "training", ["--recipe", "absent.toml"], nodes=1)
    file.write_text(file.read_text() + "replay_steps = 9\n")
    planned_training(site, "training", ["--recipe", file.name, "--algorithm", "sac"], nodes=1)
    with pytest.raises(UserError, match="'replay_steps' is not a field of ppo"):
        planned_training(site, "training", ["--recipe", file.name], nodes=1)
