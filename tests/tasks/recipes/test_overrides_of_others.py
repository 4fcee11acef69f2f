"""What overrides of somebody else's run may say without ``--trust_run``: data, and nothing that becomes Python."""

from __future__ import annotations

import pytest

from ledger_lab.tasks.recipes.settings import names_code


@pytest.mark.parametrize(
    "override",
    [
        "env.events.reset_scene.func=os:system",
        r"env.events.reset_scene.params={x: os\:system}",  # Hydra reads a colon
        r"env.events.reset_scene={func: os\:system}",
        "agent.class_name=lambda: 0",
        "agent.algorithm.class_name=os.system",  # RSL-RL imports names with dots, too
        "agent.actor.class_name=evil.package.Network",
        "agent.models.policy.output=tanh(ACTIONS)",
        "agent.models.policy.output=ACTIONS\nimport os",
        "agent.models.policy.output=import os",
        "agent.models.policy.network=[{name: net, layers: __import__('os')}]",
        "env.viewer.origin_type=${oc.env:HOME}",
        "env.terminations.time_out.func=x",
        "env.scene.robot.actuators.legs.network_file=/run/evil.pt",
        "agent.params.load_path=../evil.pth",
        "+agent.x.y=os:system",
        "env.x@y=1",
    ],
)
def test_what_could_become_python_is_refused(override: str) -> None:
    assert names_code(override)


@pytest.mark.parametrize(
    "override",
    [
        "physics=ovphysx",
        "presets=newton,depth",
        "env.sim.dt=0.005",
        "env.rewards.alive.weight=-1.5e-3",
        "agent.actor.hidden_dims=[64, 64]",
        "agent.actor.hidden_dims=[ 64 , 64 ]",
        "agent.algorithm.class_name=PPO",
        "agent.empirical_normalization=true",
        "env.events.push=null",
        "++agent.algorithm.gamma=.99",
        "env.curriculum.levels=",
    ],
)
def test_data_needs_no_trust(override: str) -> None:
    assert not names_code(override)


@pytest.mark.parametrize("part", ["1", "a", "1a", "-1e5"])
def test_a_long_value_is_read_once(part: str) -> None:
    assert not names_code(f"agent.x={part * 20_000}")
    refused = names_code(f"agent.x={part * 20_000}!")
    assert refused, "a search that tries all ways to split words would not end"
