"""A new library is one folder and one registration."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import pytest

from ledger_lab.errors import UserError
from ledger_lab.ledger.libraries import LIBRARIES, Library, dialect_of
from ledger_lab.tasks.cartpole.recipe import CARTPOLE


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> str:
    """Register the made-up library, and a task with its agent configuration."""
    from ledger_lab.tasks.registered import agent_entry_points
    from ledger_lab.tasks.registry import registered_tasks

    monkeypatch.setitem(LIBRARIES, "made_up", Library("tests.fakes.made_up_library", "rich"))
    registered_tasks()
    cartpole = gym.spec("LedgerLab-Cartpole")
    kwargs = {**cartpole.kwargs, **agent_entry_points(CARTPOLE)}
    monkeypatch.setattr(cartpole, "kwargs", kwargs)
    return "made_up"


def test_a_recipe_is_translated_to_its_settings(made_up: str) -> None:
    config = dialect_of(made_up).config(CARTPOLE)
    assert config["learner"] == {"passes": 5, "parts": 4, "rate": 2e-3}
    assert config["network"] == {"widths": [32, 32], "activation": "elu", "scaled": False}
    assert (config["rollout"], config["dice"]) == ({"steps": CARTPOLE.horizon}, 1)


def test_a_training_with_it_is_planned_like_any_other(made_up: str, tmp_path: Path) -> None:
    from ledger_lab.training.plan import plan_training
    from ledger_lab.training.request import TrainRequest

    arguments = ["--rl_library", made_up, "--device", "cpu", "--seed", "7", "--max_iterations", "9"]
    arguments += ["--scale_lr", "sqrt", "--num_envs", "512", "--log_root", str(tmp_path)]
    plan = plan_training(TrainRequest.parse(arguments))
    assert (plan.adapter.library, plan.declared.seed, plan.batch.max_iterations) == (made_up, 7, 9)
    assert plan.declared.overrides == ["physics=newton_mujoco", "agent.learner.rate=0.002828"]
    assert plan.run_dir.parent == tmp_path / made_up / CARTPOLE.experiment_name
    for wrong, complaint in (
        ("agent.network.activation=relu", r"agent.network.activation 'relu': "),
        ("agent.learner.parts=0", "agent.learner.parts 0: must be a whole number"),
        ("agent.learner.pases=2", "agent.learner has no 'pases': did you mean 'passes'"),
    ):
        with pytest.raises(UserError, match=complaint):
            plan_training(TrainRequest.parse([*arguments, wrong]))
