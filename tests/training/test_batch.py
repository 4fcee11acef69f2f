"""The batch arithmetic of a request, and the learning rate that follows from it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from ledger_lab.errors import UserError
from ledger_lab.tasks.cartpole.recipe import CARTPOLE
from ledger_lab.tasks.pack import TASKS
from ledger_lab.training.batch import scaled_learning_rate
from ledger_lab.training.launch import World
from ledger_lab.training.runners import BatchPlan
from tests.fakes.plans import planned

if TYPE_CHECKING:
    pass


def batch(**changed: int | None) -> BatchPlan:
    plain: dict[str, int | str | None] = {"max_iterations": 1, "horizon": 16, "epochs": 4, "save_interval": 1}
    plain["minibatch_setting"] = "agent.cut_into"
    return BatchPlan(**{**plain, **changed})  # type: ignore[arg-type]


def test_a_library_with_minibatches_of_fixed_size_needs_enough_environments_for_a_minibatch() -> None:
    from ledger_lab.training.minibatches import check_batch

    fixed = batch(minibatch_size=16384)
    assert fixed.num_envs_step() == 1024
    assert fixed.minibatches_of(2048) == 2
    check_batch(1024, fixed)
    with pytest.raises(UserError, match=r"into minibatches of 16384, .* use 1024 environments \(any mult"):
        check_batch(512, fixed)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ["agent.algorithm.num_mini_batches=7"],
            r"^agent\.algorithm\.num_mini_batches asks for 7 equal minibatches, and the task's batch of 256 × 32 = "
            r"8192 steps .*: change agent\.algorithm\.num_mini_batches, or set env\.scene\.num_envs to 252 or 259",
        ),
        (
            ["--rl_library", "skrl", "agent.agent.mini_batches=7"],
            r"^agent\.agent\.mini_batches asks for 7 equal minibatches",
        ),
        (
            ["agent.algorithm.num_mini_batches=7", "--num_envs", "250"],
            r"^--num_envs 250: .* 7 equal minibatches, which agent\.algorithm\.num_mini_batches asks for: use 2",
        ),
    ],
)
def test_a_refused_batch_names_the_flag_or_setting(arguments: list[str], complaint: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=complaint):
        planned(*arguments, log_root=tmp_path)


def test_the_learning_rate_is_scaled_to_the_batch_and_recorded_as_an_override(tmp_path: Path) -> None:
    from ledger_lab.training.show import describe_batch

    plan = planned("--scale_lr", "sqrt", "--num_envs", "1024", log_root=tmp_path)
    assert plan.declared.overrides == ["physics=newton_mujoco", "agent.algorithm.learning_rate=0.002"]
    assert plan.agent_cfg.algorithm.learning_rate == 0.002
    assert describe_batch(plan) == (
        "batch 1024 × 32 = 32768 steps in 4 minibatches, 5 epochs: effective batch 163840 · "
        "learning rate 0.002 (scaled to the batch)"
    )


def test_each_of_several_processes_has_a_replay_memory_and_draws_a_batch(tmp_path: Path) -> None:
    from ledger_lab.training.plan import _check
    from ledger_lab.training.request import TrainRequest
    from ledger_lab.training.show import describe_batch

    asked = ["--algorithm", "sac", "--device", "cpu", "--num_envs", "64", "--log_root", str(tmp_path)]
    plan = _check(TrainRequest.parse(asked), World(rank=3, size=4, local_rank=1, local_size=2), None, 1)
    assert describe_batch(plan) == (
        "replay memory 1024 steps × 64 = 65536 transitions in each of 4 processes · 2 updates of 4 × 512 transitions "
        "per step: each transition is used 16 times · learning rate 0.001"
    )
    declared = plan.declared
    assert (declared.minibatches, declared.env_steps_per_iteration) == (32 * 2, 32 * 4 * 64)


def test_a_learning_rate_is_either_given_or_scaled(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"leave out agent.algorithm.learning_rate=…, or --scale_lr"):
        planned("--scale_lr", "sqrt", "agent.algorithm.learning_rate=0.1", log_root=tmp_path)


def test_the_learning_rate_grows_by_the_root_of_two_per_doubling() -> None:
    assert scaled_learning_rate(1e-3, 40_960, 40_960) == 1e-3
    assert scaled_learning_rate(1e-3, 81_920, 40_960) == pytest.approx(1.414e-3)
    assert scaled_learning_rate(1e-3, 163_840, 40_960) == 2e-3
    assert scaled_learning_rate(1e-3, 10_240, 40_960) == 5e-4
    assert scaled_learning_rate(1e-3, 163_840, 40_960, "linear") == 4e-3
    assert scaled_learning_rate(1e-3, 10_240, 40_960, "linear") == 2.5e-4


@pytest.mark.parametrize(
    ("library", "setting", "per_process"),
    [
        ("rsl_rl", "agent.algorithm.num_mini_batches", 16),
        ("skrl", "agent.agent.mini_batches", 16),
        ("rl_games", "agent.params.config.minibatch_size_per_env", 2),
    ],
)
def test_minibatches_keep_their_size(library: str, setting: str, per_process: int, tmp_path: Path) -> None:
    own = planned("--rl_library", library, log_root=tmp_path)
    plan = planned("--rl_library", library, "--keep_minibatch_size", "--num_envs", "1024", log_root=tmp_path)
    assert plan.declared.overrides[-1] == f"{setting}={per_process}"
    assert plan.batch.minibatches_of(1024) == 4 * own.batch.minibatches_of(256) == 16
    same = planned("--rl_library", library, "--keep_minibatch_size", log_root=tmp_path)
    assert same.batch == own.batch


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ["--keep_minibatch_size", "--num_envs", "300"],
            "300 environments × 32 steps does not split into minibatches of 2048",
        ),
        (["--keep_minibatch_size", "--num_envs", "16"], "use a multiple of the task's 256 environments, counted"),
        (
            ["--keep_minibatch_size", "agent.algorithm.num_mini_batches=2"],
            "leave out agent.algorithm.num_mini_batches=…",
        ),
        (["--keep_minibatch_size", "--scale_lr", "sqrt"], "a gradient step has as many samples as before: leave one"),
    ],
)
def test_minibatches_that_cannot_keep_their_size_are_refused(
    arguments: list[str], complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=complaint):
        planned(*arguments, log_root=tmp_path)


@pytest.mark.parametrize("task", sorted(TASKS))
def test_every_recipe_has_a_variant_for_a_gpu_that_splits_into_minibatches(task: str) -> None:
    from ledger_lab.tasks.registry import num_envs_on_gpu, registered_tasks

    registered_tasks()
    count, recipe = num_envs_on_gpu(task), TASKS[task].recipe
    assert count is not None and count >= 4096
    cut = batch(horizon=recipe.horizon, epochs=recipe.epochs, minibatches=recipe.minibatches)
    assert count % cut.num_envs_step() == 0


def test_a_training_on_a_gpu_has_more_environments_unless_the_user_chooses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from ledger_lab.training import plan as planning
    from ledger_lab.training.show import show_settings

    monkeypatch.setattr(planning, "resolve_device", lambda *_: "cuda:0")
    monkeypatch.setattr(planning, "gpu_model", lambda device: "made up")
    monkeypatch.setattr(planning, "gpu_uuid", lambda device: "1")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(total_memory=1))
    key, rate = "agent.algorithm.learning_rate", CARTPOLE.learning_rate
    scaled = scaled_learning_rate(rate, 4096, CARTPOLE.num_envs)
    found = {}
    for arguments in ((), ("--num_envs", "512"), ("env.scene.num_envs=512",), (f"{key}=0.25",)):
        plan = planned(*arguments, log_root=tmp_path)
        found[arguments] = plan.env_cfg.scene.num_envs, plan.agent_cfg.algorithm.learning_rate, plan.for_gpu
        console = Console(record=True)
        show_settings(plan, console)
        assert ("the defaults for a GPU" in console.export_text()) is plan.for_gpu
    assert [*found.values()] == [(4096, scaled, True), (512, rate, False), (512, rate, False), (4096, 0.25, True)]
    assert f"{key}={scaled}" in planned(log_root=tmp_path).declared.overrides
    go2 = "LedgerLab-Velocity-Flat-Go2"
    untried = planned("--task", go2, log_root=tmp_path)
    console = Console(record=True, width=200)
    show_settings(untried, console)
    assert "no such training of this task has reached its target yet" in console.export_text()
    console = Console(record=True, width=200)
    proven = planned("--task", "LedgerLab-Velocity-Flat-AnymalC", log_root=tmp_path)
    show_settings(proven, console)
    assert "the defaults for a GPU" in (text := console.export_text()) and "yet" not in text
    assert not torch.cuda.is_initialized()
