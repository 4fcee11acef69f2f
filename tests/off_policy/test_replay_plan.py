"""A replay memory that does not fit is refused before it is allocated, with the room on the GPU and on the host."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from ledger_lab.errors import UserError
from ledger_lab.training.runners.replay_plan import ReplayPlan, bytes_per_transition

ENVS, OBSERVATION_BYTES, ACTIONS = 16, 20, 2
GPU = torch.device("cuda:0")
PLAN = ReplayPlan(
    steps=100,
    setting="agent.steps",
    warm_up_steps=0,
    warm_up_setting="agent.warm_up_steps",
    batch_size=8,
    updates_per_step=1,
    host_setting="agent.replay_on_host",
)


@pytest.fixture(autouse=True)
def room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a GPU have room for 40 steps, and the host for 70."""

    def free(steps: int) -> int:
        needed = ENVS * (steps * bytes_per_transition(OBSERVATION_BYTES, ACTIONS, 101 * ENVS) + OBSERVATION_BYTES)
        return math.ceil(needed / 0.9)  # a tenth is left for the rest

    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free(40), free(1000)))
    monkeypatch.setattr("ledger_lab.training.runners.replay_plan.usable_bytes", lambda: free(70))


def require(plan: ReplayPlan, device: torch.device) -> None:
    """Check the memory of a plan."""
    plan.require_memory(ENVS, OBSERVATION_BYTES, ACTIONS, device)


@pytest.mark.parametrize(
    ("plan", "device", "complaint"),
    [
        (
            PLAN,
            GPU,
            "of cuda:0 are free, of which 10 % are kept for networks and batches: there is room for 40 steps, and with "
            "agent.replay_on_host=true for 70 in the memory "
            "of the host$",
        ),
        (replace(PLAN, host_setting=None), GPU, "of cuda:0 are free, .*: there is room for 40 steps$"),
        (replace(PLAN, on_host=True), GPU, "of cpu are free, .*: there is room for 70 steps$"),
        (PLAN, torch.device("cpu"), "of cpu are free, .*: there is room for 70 steps$"),
    ],
)
def test_a_memory_that_does_not_fit_is_refused(plan: ReplayPlan, device: torch.device, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        require(plan, device)


def test_the_processes_of_a_machine_share_the_memory_of_the_host() -> None:
    with pytest.raises(UserError, match="of cpu are free for each of 2 processes, .*: there is room for 34 steps$"):
        PLAN.require_memory(ENVS, OBSERVATION_BYTES, ACTIONS, torch.device("cpu"), processes=2)
    with pytest.raises(UserError, match="of cuda:0 are free, .* for 40 steps, and with .*=true for 34 in the memory"):
        PLAN.require_memory(ENVS, OBSERVATION_BYTES, ACTIONS, GPU, processes=2)


def test_what_the_host_holds_needs_no_room_on_the_gpu() -> None:
    require(replace(PLAN, steps=40), GPU)
    require(replace(PLAN, steps=70, on_host=True), GPU)
    with pytest.raises(UserError, match="agent.steps 41: "):
        require(replace(PLAN, steps=41), GPU)


def test_what_cannot_fit_whatever_is_observed_is_refused_without_a_simulation() -> None:
    """A transition of one byte of observation and one number of action takes 14 bytes here, and of 20 and two 37."""
    fits, too_many = 70 * 37 // 14, 100 * 37 // 14
    replace(PLAN, steps=fits).require_least_memory(ENVS, "cpu")
    with pytest.raises(UserError, match=rf"agent.steps {fits}: .* × 37 bytes needs \d"):
        require(replace(PLAN, steps=fits), torch.device("cpu"))
    for plan, device in ((PLAN, "cpu"), (replace(PLAN, on_host=True), "cuda:0")):
        complaint = (
            rf"agent.steps {too_many}: .* × 14 bytes needs at least .* of cpu are free, .* room for at most 18\d s"
        )
        with pytest.raises(UserError, match=complaint):
            replace(plan, steps=too_many).require_least_memory(ENVS, device)


def test_a_process_that_checks_a_request_does_not_wait_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("ledger_lab.training.runners.collectives.largest_of_all_processes")
    with pytest.raises(UserError, match="of cpu are free for each of 2 processes, .* room for at most 9\\d steps$"):
        PLAN.require_least_memory(ENVS, "cpu", processes=2)


def test_the_memory_of_a_gpu_is_not_asked_for_without_a_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.cuda, "mem_get_info")
    replace(PLAN, steps=10**12).require_least_memory(ENVS, "cuda:0")
