"""The replay memory returns the transitions that were added, although it stores each observation once."""

from __future__ import annotations

import pytest
import torch

from ledger_lab.runners.replay_memory import Column, ReplayMemory
from ledger_lab.runners.replay_plan import bytes_per_transition

ENVS = 3
COLUMNS = {
    "seen": Column(2, observed=True),
    "privileged": Column(1, observed=True),
    "rewards": Column(1),
    "terminated": Column(1, torch.bool),
}
OBSERVED = ("seen", "privileged")


class Episodes:
    """Transitions of random episodes, in a memory and in a list."""

    def __init__(self, steps: int, device: str = "cpu") -> None:
        """Begin an episode in each environment."""
        self.device = torch.device(device)
        self.memory = ReplayMemory(steps, ENVS, COLUMNS, self.device)
        self.told: list[tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]] = []
        """Values and next observations of each step, as a memory that stores both would hold them."""
        self.chance = torch.Generator().manual_seed(3)
        self.begin()

    def begin(self) -> None:
        """Begin another episode in each environment."""
        self.now = {name: self._random(COLUMNS[name].size) for name in OBSERVED}

    def go(self, steps: int) -> None:
        """Take steps, some of which end episodes by termination and some by timeout."""
        for _ in range(steps):
            ends = self._random(1)
            terminated, timed_out = ends < 0.2, ends > 0.8
            after = {name: self._random(COLUMNS[name].size) for name in OBSERVED}
            following = {name: torch.where(timed_out, self.now[name], after[name]) for name in OBSERVED}
            values = {**self.now, "rewards": self._random(1), "terminated": terminated}
            self.memory.add(values, following)
            self.told.append((values, following))
            self.now = after

    def require_held(self, memory: ReplayMemory | None = None) -> None:
        """Check that a memory, by default the own one, holds the newest steps."""
        memory = memory or self.memory
        assert memory.added == len(self.told)
        seen = set()
        index, after = memory.draw(2000)
        for each, follower in zip(index.tolist(), after, strict=True):
            row, env = divmod(each, ENVS)
            age = (memory.added - 1 - row) % memory.steps
            values, following = self.told[memory.added - 1 - age]
            seen.add((age, env))
            for name, value in values.items():
                assert torch.equal(memory.read(name, index.new_tensor([each]))[0], value[env])
            for name, value in following.items():
                assert torch.equal(memory.read(name, follower.unsqueeze(0))[0], value[env])
        assert len(seen) == len(memory), "every transition can be drawn"

    def _random(self, size: int) -> torch.Tensor:
        return torch.rand(ENVS, size, generator=self.chance).to(self.device)


each_device = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])


def test_rounding_ends_no_episode() -> None:
    memory = ReplayMemory(4, 1, {"seen": Column(1, observed=True)}, torch.device("cpu"))
    for step in range(4):
        seen = torch.tensor([[0.1 + step]], dtype=torch.float64)
        memory.add({"seen": seen}, {"seen": seen + 1.0})
    index, after = memory.draw(100)
    assert torch.allclose(memory.read("seen", after), memory.read("seen", index) + 1.0)


@each_device
@pytest.mark.parametrize("added", [1, 2, 6, 7, 8, 20])
def test_transitions_are_drawn_as_they_were_added(added: int, device: str) -> None:
    episodes = Episodes(steps=7, device=device)
    episodes.go(added)
    episodes.require_held()
    assert episodes.memory.fill == pytest.approx(min(added, 7) / 7)


def saved_and_restored(memory: ReplayMemory, first: int) -> ReplayMemory:
    """Return a new memory with the copies of another one's steps, in two parts."""
    settled = memory.added - 1
    middle = (first + settled) // 2
    new = ReplayMemory(memory.steps, ENVS, COLUMNS, memory.device)
    for begin, end in ((first, middle), (middle, settled)):
        new.write_steps(begin, memory.copy_steps(begin, end))
    new.restore_newest(memory.newest())
    return new


@each_device
@pytest.mark.parametrize("added", [1, 6, 7, 8, 20])
def test_a_restored_memory_holds_the_same_and_goes_on_alike(added: int, device: str) -> None:
    episodes = Episodes(steps=7, device=device)
    episodes.go(added)
    restored = saved_and_restored(episodes.memory, episodes.memory.oldest)
    episodes.require_held(restored)
    episodes.memory = restored
    episodes.go(3)
    episodes.require_held()


def test_an_interruption_cuts_the_episodes_off() -> None:
    episodes = Episodes(steps=7)
    episodes.go(5)
    episodes.memory = saved_and_restored(episodes.memory, 0)
    episodes.begin()
    values, _ = episodes.told[-1]
    episodes.go(1)
    episodes.told[4] = (values, {name: values[name] for name in OBSERVED})
    episodes.require_held()


def test_copies_of_another_memory_are_refused() -> None:
    episodes = Episodes(steps=7)
    episodes.go(5)
    wider = ReplayMemory(7, ENVS, {**COLUMNS, "rewards": Column(2)}, torch.device("cpu"))
    with pytest.raises(ValueError, match="rewards of shape"):
        wider.write_steps(0, episodes.memory.copy_steps(0, 4))


def test_the_age_of_what_was_drawn_is_measured() -> None:
    episodes = Episodes(steps=7)
    assert episodes.memory.mean_age() is None
    episodes.go(20)
    index, _ = episodes.memory.draw(50)
    row = torch.div(index, ENVS, rounding_mode="floor")
    ages = (19 - row) % 7
    assert set(ages.tolist()) == set(range(7))
    assert episodes.memory.mean_age() == pytest.approx(float(ages.double().mean()))


def test_its_size_is_that_of_the_plan() -> None:
    columns = {
        "observations": Column(48, observed=True),
        "actions": Column(12),
        "rewards": Column(1),
        "terminated": Column(1, torch.bool),
    }
    memory = ReplayMemory(10, 4, columns, torch.device("cpu"))
    assert memory.nbytes == 10 * 4 * bytes_per_transition(48, 12, 40) + 4 * 48 * 4
    twice = 4 * (2 * 48 + 12 + 1) + 1
    assert bytes_per_transition(48, 12, 40) < 0.6 * twice
    assert bytes_per_transition(48, 12, 2**31) == bytes_per_transition(48, 12, 2**31 - 1) + 4, "indices of 64 bits"
