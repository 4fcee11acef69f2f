"""Real episodes on Newton: each depends on its seed alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch

from ledger_lab.ledger import Outcomes
from ledger_lab.panels import load_panel

SEEDS = tuple(range(24))


def balance(observations):  # noqa: ANN001, ANN201
    """Push the cart under the pole."""
    return observations["policy"] @ torch.tensor([[0.02], [-0.6], [0.15], [-0.15]])


def stand_still(observations):  # noqa: ANN001, ANN201
    """Do nothing."""
    return torch.zeros(observations["policy"].shape[0], 1)


def push(observations):  # noqa: ANN001, ANN201
    """Leave the rail."""
    return torch.ones(observations["policy"].shape[0], 1)


def broken(observations):  # noqa: ANN001, ANN201
    """Ask for a force that is no number."""
    return torch.full((observations["policy"].shape[0], 1), float("nan"))


PANEL = replace(load_panel("cartpole_v1"), seeds=SEEDS)


@contextmanager
def slots(count: int) -> Iterator[object]:
    from ledger_lab.runners.configs import resolve_configs
    from ledger_lab.runners.session import environment, held_out_config, registered_tasks, simulation_app

    registered_tasks()
    env_cfg, _ = resolve_configs("LedgerLab-Cartpole", "rsl_rl", [])
    env_cfg.sim.device, env_cfg.seed = "cpu", 3
    cfg = held_out_config(env_cfg, PANEL, count * len(SEEDS))
    with simulation_app(cfg, {"device": "cpu"}), environment("LedgerLab-Cartpole", cfg) as env:
        yield env


@pytest.fixture(scope="module")
def together() -> list[Outcomes]:
    """Return outcomes of four policies in one round."""
    from ledger_lab.panels.scoring import score_policies

    with slots(4) as env:
        return score_policies(env, PANEL, [stand_still, balance, push, broken])  # type: ignore[arg-type]


def test_every_end_has_its_label(together: list[Outcomes]) -> None:
    still, balanced, pushed, not_a_number = together
    assert set(still.ended_by) == {"horizon"}
    assert still.successes == 0, "a cart that stands still survives, and its pole hangs"
    assert set(still.steps) == {300}
    assert balanced.successes > 0
    assert set(pushed.ended_by) == {"cart_out_of_bounds"} and pushed.successes == 0
    assert max(pushed.steps) < 300
    assert set(not_a_number.ended_by) == {"non_finite"}
    assert not_a_number.successes == sum(not_a_number.success_any) == 0
    assert set(not_a_number.episode_return) == {None}
    for outcome in together:
        assert all(now <= best for now, best in zip(outcome.success, outcome.success_any, strict=True))


def test_episodes_do_not_depend_on_slot_company_or_round(together: list[Outcomes]) -> None:
    from ledger_lab.panels.scoring import score_policies

    with slots(2) as env:
        torch.manual_seed(99)  # the global stream is somewhere else
        again = score_policies(env, PANEL, [push, stand_still, balance])  # type: ignore[arg-type]
    still, balanced, pushed, _ = together
    assert again == [pushed, still, balanced]
    assert len(set(balanced.episode_return)) == len(SEEDS), "each seed is an episode of its own"


def test_scoring_leaves_the_global_random_streams_alone() -> None:
    import random

    import numpy as np

    from ledger_lab.panels.episodes import _random_stream

    torch.manual_seed(1), random.seed(1), np.random.seed(1)
    expected = torch.rand(1).item(), random.random(), np.random.rand()
    torch.manual_seed(1), random.seed(1), np.random.seed(1)
    with _random_stream(5, "cpu"):
        first = torch.rand(1).item(), random.random(), np.random.rand()
    assert (torch.rand(1).item(), random.random(), np.random.rand()) == expected
    with _random_stream(5, "cpu"):
        assert (torch.rand(1).item(), random.random(), np.random.rand()) == first
