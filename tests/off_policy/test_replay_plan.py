"""A replay memory that does not fit is refused before it is allocated, with the room on the GPU and on the host."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from ledger_lab.errors import UserError
from ledger_lab.off_policy.replay_plan import ReplayPlan, bytes_per_transition

ENVS, OBSERVATION_BYTES, ACTIONS = 16, 20, 2
GPU = torch.device("cuda:0")
SETTINGS = {"replay_steps": "agent.steps", "replay_on_host": "agent.replay_on_host"}
PLAN = ReplayPlan(
    settings=SETTINGS,
    replay_steps=100,
    warm_up_steps=0,
    batch_size=8,
    updates_per_step=1,
)


@pytest.fixture(autouse=True)
def room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a GPU have room for 40 steps, and the host for 70."""

    def free(steps: int) -> int:
        needed = ENVS * (steps * bytes_per_transition(OBSERVATION_BYTES, ACTIONS, 101 * ENVS) + OBSERVATION_BYTES)
        return math.ceil(needed / 0.9)  # a tenth is left for the rest

    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free(40), free(1000)))
    monkeypatch.setattr("ledger_lab.off_policy.replay_plan.usable_bytes", lambda: free(70))


def require(plan: ReplayPlan, device: torch.device) -> None:
    """Check the memory of a plan."""
    plan.require_memory(ENVS, OBSERVATION_BYTES, ACTIONS, device)


@pytest.mark.parametrize(
    ("plan", "device", "complaint"),
    [
        (
            PLAN,
            GPU,
            "of cuda:0 are free, of which 10 % are kept for networks and batches: there is room for 40 steps; "
            "agent.replay_on_host=true uses the memory of the host$",
        ),
        (
            replace(PLAN, settings={"replay_steps": "agent.steps"}),
            GPU,
            "of cuda:0 are free, .*: there is room for 40 steps$",
        ),
        (replace(PLAN, replay_on_host=True), GPU, "of cpu are free, .*: there is room for 70 steps$"),
        (PLAN, torch.device("cpu"), "of cpu are free, .*: there is room for 70 steps$"),
    ],
)
def test_a_memory_that_does_not_fit_is_refused(plan: ReplayPlan, device: torch.device, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        require(plan, device)


def test_the_processes_of_a_machine_share_the_memory_of_the_host() -> None:
    with pytest.raises(UserError, match="of cpu are free for each of 2 processes, .*: there is room for 34 steps$"):
        PLAN.require_memory(ENVS, OBSERVATION_BYTES, ACTIONS, torch.device("cpu"), processes=2)
    with pytest.raises(UserError, match="of cuda:0 are free, .* for 40 steps; agent.replay"):
        PLAN.require_memory(ENVS, OBSERVATION_BYTES, ACTIONS, GPU, processes=2)
