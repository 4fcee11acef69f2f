"""Policies with recurrent layers act, are scored and are exported with their memory, whatever else is simulated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch

from ledger_lab.panels.policy import Acting
from tests.fakes.held_out import Trial, runtime, still, task_cfg
from tests.fakes.observers import Heard
from tests.panels.test_leaks import PANEL
from tests.training.runners.test_adapters import NORMALIZED, RECURRENT, Training

STEPS = 6

_runtime = runtime("LedgerLab-Cartpole")


@pytest.fixture(scope="module", params=RECURRENT, ids="-".join)
def training(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Training:
    """A training of three iterations that has ended."""
    library, layers = request.param
    folder = tmp_path_factory.mktemp(layers)
    training = Training(library, folder, *NORMALIZED[library], heard=Heard(), layers=layers)
    training.train()
    return training


@pytest.fixture
def policy(training: Training) -> Any:
    """Its last policy."""
    return training.policy(training.heard.checkpoints[3])


def stepwise(rows: int = 8) -> list[dict[str, torch.Tensor]]:
    """Return observations of some steps."""
    torch.manual_seed(1)
    return [{"policy": 2 * torch.randn(rows, 2)} for _ in range(STEPS)]


def _live_rsl_rl(training: Any) -> Callable[[Mapping[str, torch.Tensor]], torch.Tensor]:
    from tensordict import TensorDict

    actor = training.trainer._runner.get_inference_policy()
    actor.reset()
    return lambda seen: actor(TensorDict(dict(seen), batch_size=[8]))


def _live_rl_games(training: Any) -> Callable[[Mapping[str, torch.Tensor]], torch.Tensor]:
    model = training.trainer._algo.model
    states = [torch.zeros(each.shape[0], 8, each.shape[2]) for each in model.get_default_rnn_state()]

    def act(seen: Mapping[str, torch.Tensor]) -> torch.Tensor:
        found = model.eval()({"is_train": False, "prev_actions": None, "obs": seen["policy"], "rnn_states": states})
        states[:] = found["rnn_states"]
        return found["mus"]

    return act


def test_a_policy_remembers_as_in_the_library(training: Training, policy: Any) -> None:
    live = {"rsl_rl": _live_rsl_rl, "rl_games": _live_rl_games}[training.adapter.library](training)
    act, seen = Acting(policy), stepwise()
    with torch.inference_mode():
        ours = [act(each) for each in seen]
        for mine, each in zip(ours, seen, strict=True):
            torch.testing.assert_close(mine, live(each))
        act.forget(torch.tensor([True, *[False] * 7]))
        again = act(seen[0])
    torch.testing.assert_close(again[0], ours[0][0])
    assert not torch.isclose(again[1:], ours[0][1:], atol=1e-6).all(), "the others remember"


def test_a_memory_is_the_same_in_any_company(policy: Any) -> None:
    from ledger_lab.panels.slots import BATCH, InBatches

    seen, few = stepwise(BATCH + 40), [3, 77, BATCH - 1, BATCH, BATCH + 30]
    together, alone, moved = InBatches(policy), InBatches(policy), InBatches(policy)
    with torch.inference_mode():
        for each in seen:
            expected = together(each)[few]
            assert torch.equal(alone({"policy": each["policy"][few]}), expected)
            assert torch.equal(moved({"policy": each["policy"].roll(9, dims=0)})[[row + 9 for row in few]], expected)


class OnCartpole:
    """A policy of the toy, which sees the cart and the pole of a cart-pole."""

    def __init__(self, policy: Any) -> None:
        self.memory, self._policy = policy.memory, policy

    def __call__(self, groups: Mapping[str, torch.Tensor], *memory: torch.Tensor) -> Any:
        return self._policy({"policy": groups["policy"][:, [0, 1]]}, *memory)


def test_outcomes_of_a_policy_with_a_memory_depend_on_the_seeds_alone(policy: Any) -> None:
    """The second of two panels, in other slots, beside another policy and training."""
    panel = replace(PANEL, seeds=tuple(range(9)))
    trial = Trial(panel, OnCartpole(policy), still, lambda: task_cfg("LedgerLab-Cartpole"))
    expected = trial.alone()
    assert len(set(expected.fingerprint)) == 9
    assert trial.in_company() == expected


def test_files_reproduce_the_memory(policy: Any) -> None:
    from ledger_lab.training.checkpoints.files import FlatPolicy, largest_error, live_actions, policy_files

    recorded = stepwise()
    begins = torch.zeros(STEPS, 8, dtype=torch.bool)
    begins[0] = True
    begins[3, :4] = True
    with torch.no_grad():
        flat = FlatPolicy(policy, recorded[0])
        seen, actions = torch.stack([flat.flatten(each) for each in recorded]), live_actions(policy, recorded, begins)
        for file in policy_files(flat, seen[0, :2], "the contract"):
            assert largest_error(file, seen, actions, begins) < 1e-6
            assert largest_error(file, seen, actions, torch.ones_like(begins)) > 1e-5, "without its memory"


def test_settings_of_a_policy_with_a_memory_in_skrl_are_refused() -> None:
    from ledger_lab.errors import UserError
    from tests.training.runners.test_adapters import configured

    with pytest.raises(UserError, match=r"agent.agent.class 'PPO_RNN': LedgerLab supports only PPO"):
        configured("skrl", "agent.agent.class=PPO_RNN")
