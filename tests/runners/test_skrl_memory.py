"""A replay memory of the host gives its batches to the device of the learner."""

from __future__ import annotations

import pytest
import torch

from ledger_lab.runners.skrl.memory import DISCOUNTS, WEIGHTS, SkrlMemory

STEPS, ENVS = 6, 3
NAMES = ("observations", "actions", "rewards", "next_observations", "terminated", DISCOUNTS, WEIGHTS)


def memory_for(device: str, *, prioritized: bool = False) -> SkrlMemory:
    """Return an empty memory that the host holds for a learner on a device."""
    memory = SkrlMemory(
        memory_size=STEPS, num_envs=ENVS, device=torch.device(device), prioritized=prioritized, on_host=True
    )
    for name, size in (("observations", 2), ("next_observations", 2), ("actions", 1), ("rewards", 1)):
        memory.create_tensor(name, size=size, dtype=torch.float32)
    memory.create_tensor("terminated", size=1, dtype=torch.bool)
    return memory


def fill(memory: SkrlMemory, device: str) -> None:
    """Add more steps than it holds, whose transitions are the same for every device."""
    chance = torch.Generator().manual_seed(3)
    seen = torch.rand(STEPS + 3, ENVS, 2, generator=chance)
    for now, after in zip(seen, seen[1:], strict=False):
        step = {
            "observations": now,
            "next_observations": after,
            "actions": torch.rand(ENVS, 1, generator=chance),
            "rewards": torch.rand(ENVS, 1, generator=chance),
            "terminated": torch.rand(ENVS, 1, generator=chance) < 0.2,
        }
        memory.add_samples(**{name: value.to(device) for name, value in step.items()})


def drawn(memory: SkrlMemory) -> dict[str, torch.Tensor]:
    """Return a batch with sums of rewards."""
    torch.manual_seed(8)
    (batch,) = memory.sample(NAMES, batch_size=16, n_step=3, discount=0.9)
    return {name: value for name, value in zip(NAMES, batch, strict=True) if value is not None}


def test_batches_are_on_the_device_of_the_learner() -> None:
    memory = memory_for("meta")
    fill(memory, "cpu")
    assert memory.replay.device.type == "cpu"
    assert {value.device.type for value in drawn(memory).values()} == {"meta"}


@pytest.mark.gpu
@pytest.mark.parametrize("prioritized", [False, True])
def test_a_gpu_gets_what_a_cpu_would_get(prioritized: bool) -> None:
    memories = {device: memory_for(device, prioritized=prioritized) for device in ("cpu", "cuda")}
    for _ in range(3):
        batches = {}
        for device, memory in memories.items():
            fill(memory, device)
            batches[device] = drawn(memory)
            memory.prioritize((1.0 + batches[device]["rewards"]).square())
        assert all(value.device.type == "cuda" for value in batches["cuda"].values())
        assert all(torch.equal(value.cpu(), batches["cpu"][name]) for name, value in batches["cuda"].items())
    assert memories["cuda"].replay.read("rewards", torch.arange(4)).is_pinned()
