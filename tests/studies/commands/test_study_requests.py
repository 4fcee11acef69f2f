"""A study counts no run that was trained with other arguments than its file now asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ledger_lab.errors import UserError
from ledger_lab.ledger import Status
from ledger_lab.reports.terminal.flags import DEFAULT_TASK
from ledger_lab.studies.commands.study import run_study
from ledger_lab.training.request import TrainRequest
from tests.fakes.ledgers import write_run
from tests.fakes.scaled import write_scaled

HEAD = "version = 1\nseeds = [1, 2]\n"
SIZES = '[scaling]\nkind = "weak"\nnum_envs = 256\nsizes = [{ processes = 1 }, { processes = 2 }]\n'


def study(folder: Path, content: str) -> list[str]:
    (folder / "s.toml").write_text(HEAD + content)
    return [str(folder / "s.toml"), "--log_root", str(folder / "logs"), "--dry_run"]


def trained(folder: Path, arguments: list[str], cohort: str = "s", **changes: Any) -> None:
    """Write a run of seed 1 that recorded its request."""
    request = TrainRequest.parse([*arguments, "--seed", "1", "--cohort", cohort, "--cohort_size", "2"])
    declared = {"cohort": cohort, "seed": 1, "request": request.to_data(), **changes}
    write_run(folder / "logs", "0badc0de", status=Status.COMPLETED, **declared)


@pytest.mark.parametrize(
    ("then", "now", "said"),
    [
        (["--num_envs", "4"], ["--num_envs", "8"], "with --num_envs 4, .* asks for a training with --num_envs 8: "),
        (["--max_iterations", "3"], [], "with --max_iterations 3, .* a training without --max_iterations: "),
        ([], ["--eval_every", "3"], "without --eval_every, .* a training with --eval_every 3: "),
        ([], ["--scale_lr", "sqrt"], "without --scale_lr, .* a training with --scale_lr sqrt: "),
        ([], ["--keep_minibatch_size"], "without --keep_minibatch_size, .* with --keep_minibatch_size: "),
        (["--target", "0.8"], ["--target", "0.9"], "with --target 0.8, .* with --target 0.9: "),
        (["agent.gamma=0.9"], ["agent.gamma=0.99"], "with agent.gamma=0.9, .* with agent.gamma=0.99: "),
        (["agent.gamma=0.9"], [], "with agent.gamma=0.9, .* without agent.gamma=…: "),
        ([], ["--task", "LedgerLab-Ant"], "with --task LedgerLab-Cartpole, .* with --task LedgerLab-Ant: "),
        ([], ["--rl_library", "skrl"], "with --rl_library rsl_rl, .* with --rl_library skrl: "),
        ([], ["--nproc", "2"], "in 1 process, .* a training in 2 processes: "),
        (["agent.x=\x1b[2J"], [], r"with agent.x=\\x1b\[2J, .*: "),
    ],
)
def test_a_run_with_other_arguments_is_refused(tmp_path: Path, then: list[str], now: list[str], said: str) -> None:
    trained(tmp_path, then)
    with pytest.raises(UserError, match=f"study s: run 0badc0de of cohort s was trained .*{said}rename the study file"):
        run_study(study(tmp_path, f"arguments = {now}\n"))


def test_arguments_after_the_dashes_count_too(tmp_path: Path) -> None:
    trained(tmp_path, ["--num_envs", "4", "--max_iterations", "3"])
    asked = study(tmp_path, 'arguments = ["--num_envs", "4"]\n')
    with pytest.raises(UserError, match="with --max_iterations 3, .* without --max_iterations: "):
        run_study(asked)
    assert run_study([*asked, "--", "--max_iterations", "3"]) == 0


@pytest.mark.parametrize(
    ("then", "now"),
    [
        (["--usd_per_hour", "1"], ["--usd_per_hour", "2"]),
        (["--instance", "aws-g6.xlarge"], []),
        ([], ["--save_state_every", "5", "--mirror", "tensorboard"]),
        ([], ["--rl_library", "rsl_rl", "--num_envs", "10", "--device", "cpu"]),
        (["agent.a=1", "agent.b=2"], ["agent.b=2", "agent.a=1"]),
        (["agent.a=1"], ["agent.a=3", "agent.a=1"]),
    ],
)
def test_what_trains_the_same_is_counted(tmp_path: Path, then: list[str], now: list[str]) -> None:
    """A default that is named later is no difference, and a price may change."""
    trained(tmp_path, then)
    assert run_study(study(tmp_path, f"arguments = {now}\n")) == 0


@pytest.mark.parametrize("repeats", [True, False])
def test_only_a_repeated_training_may_have_less_time(tmp_path: Path, repeats: bool) -> None:
    """Its earlier run has used up a part of the limit."""
    asked = study(tmp_path, 'arguments = ["--limit_s", "100"]\n')
    if repeats:
        request = TrainRequest.parse(["--limit_s", "100"]).to_data()
        write_run(tmp_path / "logs", "0badc0d0", status=Status.KILLED, cohort="s", seed=1, request=request)
    trained(tmp_path, ["--limit_s", "91"])
    if repeats:
        assert run_study(asked) == 0
        return
    with pytest.raises(UserError, match="with --limit_s 91.0, .* with --limit_s 100.0: "):
        run_study(asked)


def test_an_engine_that_train_py_chose_is_no_difference(tmp_path: Path) -> None:
    trained(tmp_path, ["physics=newton_mujoco"], command=["train.py", "--seed", "1"])
    assert run_study(study(tmp_path, "")) == 0
    with pytest.raises(UserError, match="with physics=newton_mujoco, .* with physics=ovphysx: "):
        run_study(study(tmp_path, 'arguments = ["physics=ovphysx"]\n'))


def test_an_engine_that_was_asked_for_is_compared(tmp_path: Path) -> None:
    trained(tmp_path, ["physics=ovphysx"], command=["train.py", "physics=ovphysx"])
    with pytest.raises(UserError, match="with physics=ovphysx, .* without physics=…: "):
        run_study(study(tmp_path, ""))


def test_a_recipe_file_is_compared_by_what_it_sets(tmp_path: Path) -> None:
    recipe = tmp_path / "r.toml"
    recipe.write_text("version = 1\n[recipe]\nlearning_rate = 0.002\n")
    trained(tmp_path, ["--recipe", "elsewhere.toml", "agent.algorithm.learning_rate=0.002"])
    asked = study(tmp_path, f'arguments = ["--recipe", "{recipe}"]\n')
    assert run_study(asked) == 0
    recipe.write_text("version = 1\n[recipe]\nlearning_rate = 0.003\n")
    with pytest.raises(UserError, match="learning_rate=0.002, .* with agent.algorithm.learning_rate=0.003: "):
        run_study(asked)


@pytest.mark.parametrize("processes", [2, 4])
def test_sizes_are_compared_with_the_processes_of_a_run(tmp_path: Path, processes: int) -> None:
    request = TrainRequest.parse(["--num_envs", "256", "--seed", "1", "--cohort", "s-2x1x256"]).to_data()
    named = {"cohort": "s-2x1x256", "task": DEFAULT_TASK, "request": request}
    write_scaled(tmp_path / "logs", "0badc0de", processes, 256, rate=1000.0, iterations=4, **named)
    if processes == 2:
        assert run_study(study(tmp_path, SIZES)) == 0
        return
    with pytest.raises(UserError, match="was trained in 4 processes, .* a training in 2 processes: "):
        run_study(study(tmp_path, SIZES))


@pytest.mark.parametrize("request_data", [None, {"flag_of_a_later_version": 1}, {"num_envs": "four"}, {"num_envs": -1}])
def test_runs_without_a_readable_request_are_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], request_data: dict[str, object] | None
) -> None:
    trained(tmp_path, [], request=request_data)
    assert run_study(study(tmp_path, 'arguments = ["--num_envs", "8"]\n')) == 0
    assert "not checked whether they were trained as the study now asks: 0badc0de (" in capfd.readouterr().out


def test_runs_of_other_seeds_are_not_counted_and_not_checked(tmp_path: Path) -> None:
    trained(tmp_path, ["--num_envs", "4"], seed=7)
    assert run_study(study(tmp_path, 'arguments = ["--num_envs", "8"]\n')) == 0
