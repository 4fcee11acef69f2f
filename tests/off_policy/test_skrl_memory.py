"""Batches are on the device of the learner, as floats, wherever and however observations are stored."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from ledger_lab.off_policy.replay_memory import Column
from ledger_lab.off_policy.skrl.memory import SkrlMemory, columns_of

STEPS, ENVS = 6, 3
NAMES = ("observations", "actions", "rewards", "next_observations", "terminated")


def memory_for(device: str) -> SkrlMemory:
    """Return an empty memory that the host holds for a learner on a device."""
    memory = SkrlMemory(
        memory_size=STEPS,
        num_envs=ENVS,
        device=torch.device(device),
        on_host=True,
        columns={"observations": [Column(2), Column(4, torch.uint8)]},
    )
    for name, size in (("observations", 6), ("next_observations", 6), ("actions", 1), ("rewards", 1)):
        memory.create_tensor(name, size=size, dtype=torch.float32)
    memory.create_tensor("terminated", size=1, dtype=torch.bool)
    return memory


def fill(memory: SkrlMemory, device: str) -> None:
    """Add more steps than it holds, whose transitions are the same for every device."""
    chance = torch.Generator().manual_seed(3)
    numbers = torch.rand(STEPS + 3, ENVS, 2, generator=chance)
    pixels = torch.randint(256, (STEPS + 3, ENVS, 4), generator=chance)
    seen = torch.cat([numbers, pixels], dim=-1)
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
    """Return a batch with sums of rewards, and the discounts of what follows them."""
    torch.manual_seed(8)
    learner = SimpleNamespace(discount_factor=0.9)
    memory.sum_rewards(3, learner)
    (batch,) = memory.sample(NAMES, batch_size=16)
    drawn = {name: value for name, value in zip(NAMES, batch, strict=True) if value is not None}
    return {**drawn, "discounts": learner.discount_factor}


def test_bytes_are_drawn_as_the_floats_that_were_added() -> None:
    memory = memory_for("cpu")
    fill(memory, "cpu")
    assert memory.observation_bytes == 2 * 4 + 4
    held = {name: table.dtype for name, table in memory.replay._tables.items()}
    assert held["observations.0"] == torch.float32 and held["observations.1"] == torch.uint8
    batch = drawn(memory)
    for name in ("observations", "next_observations"):
        assert batch[name].dtype == torch.float32 and batch[name].shape == (16, 6)
        pixels = batch[name][:, 2:]
        assert torch.equal(pixels, pixels.floor()) and pixels.max() > 200.0
        assert batch[name][:, :2].max() < 1.0


def test_columns_lie_as_the_library_flattens_a_group() -> None:
    floats, pixels = torch.zeros(ENVS, 2), torch.zeros(ENVS, 3, 4, 5, dtype=torch.uint8)
    assert columns_of(floats) == [Column(2)]
    assert columns_of(floats.double()) == [Column(2)]
    assert columns_of(pixels) == [Column(60, torch.uint8)]
    assert columns_of({"b": floats, "a": torch.zeros(ENVS)}) == [Column(3)]
    group = {"z": {"b": pixels, "a": pixels}, "y": floats, "x": floats, "a": pixels}
    assert columns_of(group) == [Column(60, torch.uint8), Column(4), Column(120, torch.uint8)]


@pytest.mark.gpu
def test_a_gpu_gets_what_a_cpu_would_get() -> None:
    memories = {device: memory_for(device) for device in ("cpu", "cuda")}
    for _ in range(3):
        batches = {}
        for device, memory in memories.items():
            fill(memory, device)
            batches[device] = drawn(memory)
        assert all(value.device.type == "cuda" for value in batches["cuda"].values())
        assert all(torch.equal(value.cpu(), batches["cpu"][name]) for name, value in batches["cuda"].items())
    assert memories["cuda"].replay.read("rewards", torch.arange(4)).is_pinned()


def test_a_batch_holds_sums_of_rewards_and_what_comes_after_them() -> None:
    memory = memory_for("cpu")
    fill(memory, "cpu")
    batch = drawn(memory)
    torch.manual_seed(8)
    rewards, discounts, lasts, afters = memory.replay.look_ahead(*memory.replay.draw(16), 3, 0.9)
    assert torch.equal(batch["rewards"], rewards) and torch.equal(batch["discounts"], discounts)
    assert torch.equal(batch["terminated"], memory.replay.read("terminated", lasts))
    assert torch.equal(batch["next_observations"][:, :2], memory.replay.read("observations.0", afters))
    assert len(discounts.unique()) > 1, "some sums are cut short"
