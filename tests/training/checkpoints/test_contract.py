"""Contracts of tasks with less usual terms; ``test_export.py`` checks the cart-pole's contract."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch


def joints(env: Any, asset_cfg: Any, gain: float = 2.0, out: Any = None) -> torch.Tensor:  # noqa: ANN401
    """Provide a name and parameters for the contract; it is never called."""
    raise NotImplementedError


def term(**changes: Any) -> SimpleNamespace:
    """Return a resolved configuration of an observation term."""
    plain = {"func": joints, "params": {}, "modifiers": None, "clip": None, "scale": None}
    return SimpleNamespace(**plain | {"delay_min_lag": 0, "delay_max_lag": 0, "history_length": 0} | changes)


def observed(groups: dict[str, dict[str, tuple[tuple[int, ...], SimpleNamespace]]], by_time: bool = False) -> Any:
    """Return an environment that observes groups of terms, each of a shape, in a scene with one robot and a sensor."""
    manager = SimpleNamespace(
        active_terms={name: list(terms) for name, terms in groups.items()},
        group_obs_term_dim={name: [shape for shape, _ in terms.values()] for name, terms in groups.items()},
        group_obs_dim={
            name: (sum(torch.Size(shape).numel() for shape, _ in terms.values()),) for name, terms in groups.items()
        },
        _group_obs_term_cfgs={name: [cfg for _, cfg in terms.values()] for name, terms in groups.items()},
        _group_obs_time_major=dict.fromkeys(groups, by_time),
    )
    robot = SimpleNamespace(joint_names=["hip", "knee", "toe"], body_names=["trunk", "leg"])
    parts = {"robot": robot, "feet": SimpleNamespace(body_names=["left", "right"])}

    class Scene(dict[str, Any]):
        articulations = {"robot": robot}

    return SimpleNamespace(
        observation_manager=manager,
        action_manager=SimpleNamespace(active_terms=[]),
        command_manager=SimpleNamespace(active_terms=[]),
        scene=Scene(parts),
        unwrapped=None,
        step_dt=0.02,
        physics_dt=0.005,
        cfg=SimpleNamespace(decimation=4),
    )


def described(env: Any, *groups: str) -> dict[str, Any]:
    """Describe what a policy of some groups is given."""
    from ledger_lab.training.checkpoints.contract import describe_interface

    return describe_interface(SimpleNamespace(unwrapped=env), groups)  # type: ignore[arg-type]


def test_slices_are_positions_in_the_flat_observation() -> None:
    scaled = term(scale=torch.tensor([1.0, 0.5]), clip=(-3.0, 3.0), history_length=0)
    env = observed(
        {
            "policy": {"a": ((2,), scaled), "b": ((3,), term())},
            "critic": {"c": ((7,), term())},
            "height": {"d": ((4,), term(history_length=4))},
        }
    )
    said = described(env, "policy", "height")
    policy, height = said["observations"]
    assert (policy["slice"], height["slice"]) == ([0, 5], [5, 9])
    assert [each["slice"] for each in policy["terms"] + height["terms"]] == [[0, 2], [2, 5], [5, 9]]
    assert (policy["terms"][0]["scale"], policy["terms"][0]["clip"]) == ([1.0, 0.5], [-3.0, 3.0])
    assert height["terms"][0]["history_steps"] == 4
    assert (said["rates"]["control_hz"], said["rates"]["physics_hz"]) == (50.0, 200.0)


def test_a_term_whose_values_are_not_contiguous_has_no_slice() -> None:
    by_time = observed({"policy": {"a": ((4,), term(history_length=2)), "b": ((6,), term(history_length=2))}}, True)
    (group,) = described(by_time, "policy")["observations"]
    assert (group["history_order"], group["slice"], [each["slice"] for each in group["terms"]]) == (
        "time",
        [0, 10],
        [None, None],
    )
    picture = observed({"camera": {"depth": ((4, 6), term())}})
    (group,) = described(picture, "camera")["observations"]
    assert (group["slice"], group["terms"][0]["slice"], group["terms"][0]["shape"]) == ([0, 24], None, [4, 6])


def test_selected_joints_and_bodies_are_named() -> None:
    from isaaclab.managers import SceneEntityCfg

    def params(**entity: Any) -> dict[str, Any]:
        env = observed({"policy": {"a": ((1,), term(params={"asset_cfg": SceneEntityCfg(**entity)}))}})
        said: dict[str, Any] = described(env, "policy")["observations"][0]["terms"][0]["params"]
        return said

    assert params(name="robot") == {"asset_cfg": {"name": "robot"}, "gain": 2.0}, "defaults count, too"
    chosen = params(name="robot", joint_ids=torch.tensor([2, 0]))["asset_cfg"]
    assert chosen == {"name": "robot", "joint_names": ["toe", "hip"]}
    assert params(name="robot", body_ids=slice(1, 2))["asset_cfg"]["body_names"] == ["leg"]
    assert params(name="feet")["asset_cfg"] == {"name": "feet", "body_names": ["left", "right"]}
    listed = params(name="robot", joint_names=["hip", "knee", "toe"])["asset_cfg"]
    assert listed["joint_names"] == ["hip", "knee", "toe"], "a list of all joints is still the list that was asked for"


@pytest.mark.parametrize(("at_once", "hz"), [(False, 200.0), (True, 50.0)])
def test_relative_targets_are_read_as_often_as_targets_are_set(at_once: bool, hz: float) -> None:
    from isaaclab.envs import mdp

    class Derived(mdp.RelativeJointPositionAction):
        pass

    def acting(kind: type) -> dict[str, Any]:
        action = object.__new__(kind)
        action._num_joints, action._debug_vis_handle, action.cfg = 2, None, None
        env = observed({})
        env.action_manager = SimpleNamespace(active_terms=["arm"], get_term=lambda name: action)
        env.sim = SimpleNamespace(physics_manager=SimpleNamespace(handles_decimation=lambda: at_once))
        said: dict[str, Any] = described(env)["actions"][0]
        return {name: said[name] for name in ("law", "target", "relative_to")}

    added = {"data": "joint_pos", "read_hz": hz}
    assert acting(mdp.RelativeJointPositionAction) == {"law": "affine", "target": "joint_pos", "relative_to": added}
    assert set(acting(Derived).values()) == {None}, "it may do anything"
