"""Tasks whose terms depend on more than an episode, and panels that they can't do, are refused, in one simulation."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from isaaclab.managers import EventTermCfg, ObservationTermCfg, TerminationTermCfg

from ledger_lab.errors import UserError
from ledger_lab.panels import Cell, Panel, load_panel
from ledger_lab.panels.perturbations import read_perturbations
from tests.fakes.held_out import task_cfg, thorough
from tests.fakes.lasting_cartpole import CachedRange, Latch
from tests.fakes.leaky_cartpole import (
    KICKS,
    MIXING_OBSERVATIONS,
    generator_kick,
    numpy_kick,
    relative_to_the_others,
    shared_kick,
    somebody_is_far,
)

PANEL = replace(load_panel("cartpole_v1"), seeds=tuple(range(24)))
TRAINING = 4


def nothing(env: Any, env_ids: Any) -> None:
    """Stand for a reset event."""


def steady(env: Any) -> torch.Tensor:
    """Stand for an observation."""
    return torch.zeros(env.num_envs, 2)


def never(env: Any) -> torch.Tensor:
    """Stand for a termination."""
    return torch.zeros(env.num_envs, dtype=torch.bool)


@pytest.fixture(scope="module")
def env() -> Iterator[Any]:
    """A simulation with room for the panel and a few training slots."""
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.session import environment, held_out_config, simulation_app

    registered_tasks()
    cfg = held_out_config(task_cfg(PANEL.task), len(PANEL.episodes), TRAINING)
    cfg.seed = 3
    cfg.events.surprise = EventTermCfg(func=nothing, mode="reset")
    cfg.observations.policy.mixed = ObservationTermCfg(func=steady)
    cfg.terminations.far = TerminationTermCfg(func=never)
    with simulation_app(cfg, {"device": "cpu"}), environment(PANEL.task, cfg) as made:
        yield made


def attach(env: Any, panel: Panel = PANEL, training: int = 0) -> None:
    """Attach held-out slots with a panel, and detach them."""
    from ledger_lab.panels.slots import HeldOutSlots

    with HeldOutSlots(env, panel, training).attached():
        pass


TERMS: dict[str, tuple[Any, str]] = {
    "numpy": (numpy_kick, "^reset event 'surprise' draws from numpy"),
    "shared": (shared_kick, "^reset event 'surprise': .*are shared by environments"),
    "own generator": (generator_kick, "reset event 'surprise' changes joint_velocity of 'robot'"),
    "cached range": (CachedRange, "reset event 'surprise' changes joint_velocity of 'robot' at the start"),
    **{
        name: (KICKS[name], "reset event 'surprise' changes joint_velocity of 'robot' .*on other environments")
        for name in ("centred", "fixed", "spread")
    },
    **{
        name: (KICKS[name], "reset event 'surprise' changes .*step counters, the clock")
        for name in (
            "hourly",
            "imported_clock",
            "clock_elsewhere",
            "dated",
            "dated_today",
            "process",
            "hashed",
            "threads",
        )
    },
    "others": (relative_to_the_others, "observation 'mixed' .*This depends on other environments"),
    "farthest": (MIXING_OBSERVATIONS["farthest"], "observation 'mixed' .*This depends on other environments"),
    "last mean": (MIXING_OBSERVATIONS["last_mean"], "observation 'mixed' .*This depends on (what happened|other)"),
    "average": (MIXING_OBSERVATIONS["moving_average"], "observation 'mixed' .*This depends on what happened before"),
    "kept average": (
        MIXING_OBSERVATIONS["kept_average"],
        "observation 'mixed' .*This depends on (what happened|other)",
    ),
    "age": (MIXING_OBSERVATIONS["age"], "observation 'mixed' .*This depends on step counters"),
    "latch": (Latch, "observation 'mixed'"),
    "somebody is far": (somebody_is_far, "termination 'far' .*This depends on other environments"),
}
"""Terms that depend on more than their own episode, and what a message says of each."""


SIMILAR = {"dated", "hourly", "kept average", "last mean", "others", "spread", "threads"}
"""Terms of which the others have at least one that is found in the same way."""


@pytest.mark.parametrize("name", [thorough(name) if name in SIMILAR else name for name in TERMS])
def test_a_term_that_depends_on_more_than_its_own_episode_is_refused_by_name(env: Any, name: str) -> None:
    base, (term, complaint) = env.unwrapped, TERMS[name]
    events, observations = base.event_manager, base.observation_manager
    if "observation" in complaint:
        place = observations._group_obs_term_cfgs["policy"][observations.active_terms["policy"].index("mixed")]
    elif "termination" in complaint:
        place = base.termination_manager.get_term_cfg("far")
    else:
        place = events._mode_term_cfgs["reset"][events.active_terms["reset"].index("surprise")]
    before, place.func = place.func, term(place, base) if isinstance(term, type) else term
    try:
        with pytest.raises(UserError, match=complaint):
            attach(env)
    finally:
        place.func = before


def judged_by(name: str) -> Panel:
    """Return the panel with another success function."""
    return replace(PANEL, success_function=f"{__name__}:{name}", success_params={})


def number(env: Any) -> torch.Tensor:
    return env.episode_length_buf


def average(env: Any) -> torch.Tensor:
    height = env.scene["robot"].data.joint_pos.torch[:, 1]
    return height > height.mean()


def first(env: Any) -> torch.Tensor:
    height = env.scene["robot"].data.joint_pos.torch[:, 1]
    return height >= height[0]


def lucky(env: Any) -> torch.Tensor:
    return torch.rand(env.num_envs) > 0.5


def alternating(env: Any, calls: list[int] = []) -> torch.Tensor:  # noqa: B006 - the list remembers
    calls.append(1)
    return torch.full((env.num_envs,), len(calls) % 2 == 0)


def raising(env: Any) -> torch.Tensor:
    return env.scene["no such thing"]


def everything_at_once(env: Any) -> torch.Tensor:
    position, velocity = env.scene["robot"].data.joint_pos.torch, env.scene["robot"].data.joint_vel.torch
    slow = torch.stack((position[:, 1].abs() < 1.0, velocity.norm(dim=1) < 2.0)).all(dim=0)
    return slow & (position.unsqueeze(1).repeat(1, 3, 1).reshape(-1, 2).norm(dim=-1).reshape(-1, 3).amax(dim=1) < 5.0)


class Near:
    """A success function that is an object."""

    def __init__(self, limit: float) -> None:
        self.limit = limit

    def __call__(self, env: Any, scale: float = 1.0) -> torch.Tensor:
        return env.scene["robot"].data.joint_pos.torch[:, 1].abs() < scale * self.limit


near = Near(1.0)
nearer = functools.partial(near, scale=0.5)


@pytest.mark.parametrize("name", ["everything_at_once", "nearer"])
def test_a_success_function_may_combine_what_belongs_to_one_environment(env: Any, name: str) -> None:
    attach(env, judged_by(name))


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("number", r"returns torch.int64 of shape \(64,\): it must return torch.bool of shape \(num_envs,\)"),
        ("average", r"success .*This depends on other environments"),
        ("first", r"success .*This depends on other environments"),
        ("lucky", "success .*This depends on"),
        ("alternating", r"success .*This depends on (what happened before|step counters)"),
        ("raising", r"fails in LedgerLab-Cartpole: KeyError"),
    ],
)
def test_an_unusable_success_function_is_refused_in_one_line(env: Any, name: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint) as raised:
        attach(env, judged_by(name))
    assert "\n" not in str(raised.value)


def all_are_low(env: Any) -> torch.Tensor:
    height = env.scene["robot"].data.joint_pos.torch[:, 1].numpy()
    return torch.as_tensor((height > 0) & (np.abs(height).max() < 2.9))


def better_than_training(env: Any) -> torch.Tensor:
    height = env.scene["robot"].data.joint_pos.torch[:, 1].numpy()
    return torch.as_tensor(height > height[:4].mean())


def early(env: Any) -> torch.Tensor:
    height = env.scene["robot"].data.joint_pos.torch[:, 1].numpy()
    return torch.as_tensor((height > 0) & (env.common_step_counter < 1000))


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("all_are_low", "success .*This depends on other environments"),
        ("better_than_training", "success .*This depends on other environments"),
        ("early", "success .*This depends on (what happened before|step counters)"),
    ],
)
def test_a_success_function_depends_neither_on_the_training_nor_on_its_age(env: Any, name: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        attach(env, judged_by(name), TRAINING)


@pytest.mark.parametrize(
    ("perturbations", "complaint"),
    [
        ({"mass": {"bodies": "pol", "scale": 2}}, "pol"),
        ({"actuator_strength": {"joints": "slider", "scale": 2}}, "slider"),
        ({"mass": {"asset": "robo", "scale": 2}}, "robo"),
        ({"observation_noise": {"std": {"joint_po": 1}}}, "no observation 'joint_po': did you mean 'joint_pos'"),
        ({"push": {"joints": "slider", "velocity": 1, "interval_s": 1}}, "slider"),
        ({"push": {"velocity": 1, "interval_s": 1}}, "push: 'robot' is fixed to the world.*give joints"),
        ({"friction": {"scale": 2}}, "friction"),
        ({"control_latency": {"physics_steps": 3}}, "3 physics steps is longer than an action .2 steps"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_perturbation_of_a_missing_part_is_refused_in_one_line(
    env: Any, perturbations: dict[str, Any], complaint: str
) -> None:
    cells = (Cell("nominal"), Cell("other", read_perturbations("test", perturbations)))
    with pytest.raises(UserError, match=complaint) as raised:
        attach(env, replace(PANEL, seeds=PANEL.seeds[:5], cells=cells))
    assert "\n" not in str(raised.value)
