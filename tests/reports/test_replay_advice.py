"""Advice for learners with a replay memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger_lab.ledger.libraries import agent_key
from tests.fakes.bottlenecks import GPU, advised, bottlenecks, step_ms, write_phases


def test_minibatches_of_a_replay_memory_are_neither_advised_about_nor_compared(tmp_path: Path) -> None:
    sac = agent_key("skrl", "sac")
    for run_id, agent, minibatches, ms in (("aa", sac, 4, 200), ("bb", sac, 2, 110), ("cc", None, 4, 200)):
        fields = {
            "num_envs": 64,
            "minibatches": minibatches,
            "config_sha256": {"env": "0", "agent": run_id},
            "agent": agent,
        }
        phases = {"simulate": 50, "learn": ms}
        write_phases(tmp_path, run_id, phases, startup_ms=0, rl_library="skrl", **fields)
    found = bottlenecks(tmp_path)
    assert advised(found["aa"], "minibatches instead") is None
    assert advised(found["cc"], "minibatches instead") is None, "there is no other run of PPO to compare with"


@pytest.mark.parametrize(
    ("library", "algorithm", "caveat"),
    [
        ("skrl", "ppo", "may take more steps to learn"),
        (
            *("skrl", "td3"),
            "may take more steps to learn; halves the gradient steps per environment step unless "
            "agent.agent.gradient_steps is doubled, and doubles the replay memory unless agent.memory.memory_size is "
            "halved",
        ),
        (
            *("rl_games", "sac"),
            "may take more steps to learn; halves the gradient steps per environment step unless "
            "agent.params.config.num_updates_per_step is doubled, and doubles the replay memory unless "
            "agent.replay_steps is halved",
        ),
    ],
)
def test_more_environments_change_what_a_replay_memory_does(
    library: str, algorithm: str, caveat: str, tmp_path: Path
) -> None:
    for run_id, envs in (("aa", 200), ("bb", 400)):
        fields = {"num_envs": envs, "rl_library": library, "agent": agent_key(library, algorithm)}
        write_phases(tmp_path, run_id, {"simulate": step_ms(envs)}, startup_ms=0, **fields)
    advice = advised(bottlenecks(tmp_path)["aa"], "train in 400 environments")
    assert advice is not None and advice.caveat == caveat


LEARNER = {"simulate": 60, "replay_sample": 10, "learn": 80}
"""Phases of a learner with a replay memory that takes most of the time, in iterations of four steps."""


@pytest.mark.parametrize(
    ("library", "algorithm", "minibatches", "change"),
    [
        ("skrl", "sac", 8, "lower agent.agent.gradient_steps, or raise agent.update_every"),
        ("skrl", "td3", 2, "lower agent.agent.gradient_steps, or raise agent.update_every"),
        ("rl_games", "sac", 16, "lower agent.params.config.num_updates_per_step"),
        ("rl_games", "sac", 4, None),
        ("skrl", "ppo", 8, None),
    ],
)
def test_fewer_gradient_steps_are_advised_for_a_replay_memory(
    library: str, algorithm: str, minibatches: int, change: str | None, tmp_path: Path
) -> None:
    fields = {"rl_library": library, "agent": agent_key(library, algorithm), "minibatches": minibatches}
    write_phases(tmp_path, "aa", LEARNER, startup_ms=0, **fields)
    advice = advised(bottlenecks(tmp_path)["aa"], "gradient steps")
    if change is None:
        assert advice is None
        return
    assert advice is not None and advice.action == f"make half as many gradient steps: {change}"
    assert (advice.gain, advice.bound) == (pytest.approx(45 / 150), "estimate")
    assert advice.basis == f"learn and replay_sample took 0.9 s in 10 × {minibatches} gradient steps"
    assert advice.caveat is not None and "takes more environment steps" in advice.caveat


@pytest.mark.parametrize(
    "phases_ms",
    [{**LEARNER, "simulate": 91}, {"simulate": 60, "learn": 90}],
    ids=["the simulation takes longer", "the learner works beside the simulation"],
)
def test_fewer_gradient_steps_are_not_advised_if(phases_ms: dict[str, int], tmp_path: Path) -> None:
    fields = {"rl_library": "skrl", "agent": agent_key("skrl", "sac"), "minibatches": 8}
    write_phases(tmp_path, "aa", phases_ms, startup_ms=0, **fields)
    assert advised(bottlenecks(tmp_path)["aa"], "gradient steps") is None


@pytest.mark.parametrize(
    ("changes", "fits"),
    [
        ({}, True),
        ({"overrides": ["agent.replay_on_host=True"]}, True),
        ({"overrides": []}, False),
        ({"device": "cpu"}, False),
        ({"replay_bytes": 46_000_000_000}, False),
        ({"replay_bytes": None}, False),
        ({"telemetry": None}, True),
        ({"telemetry": None, "replay_bytes": 94_950_000_000}, False),
        ({"hardware": {}}, False),
    ],
    ids=str,
)
def test_a_replay_memory_on_the_host_is_advised_against_if_the_gpu_has_room(
    changes: dict[str, object], fits: bool, tmp_path: Path
) -> None:
    fields: dict[str, object] = {
        "rl_library": "skrl",
        "agent": agent_key("skrl", "sac"),
        "overrides": ["agent.replay_on_host=true"],
        "replay_bytes": 40_000_000_000,
        "telemetry": (0.9, 0.5, 50_000_000_000),
        **GPU,
    }
    phases = {"simulate": 50, "replay_write": 10, "replay_sample": 20, "learn": 20}
    write_phases(tmp_path, "aa", phases, startup_ms=0, checkpoints=1, **{**fields, **changes})
    advice = advised(bottlenecks(tmp_path)["aa"], "replay memory on the GPU")
    if not fits:
        assert advice is None
        return
    assert advice is not None and advice.action.lower().endswith("drop agent.replay_on_host=true")
    assert (advice.gain, advice.bound) == (pytest.approx(0.3), "at most")
    assert "of 100.0 GB, and the replay memory takes 40.0 GB" in advice.basis
