"""The replay memory returns the transitions that were added, although it stores each observation once."""

from __future__ import annotations

import pytest
import torch

from ledger_lab.off_policy.replay_memory import Column, ReplayMemory
from ledger_lab.off_policy.replay_plan import bytes_per_transition

ENVS = 3
COLUMNS = {
    "seen": Column(2, observed=True),
    "privileged": Column(1, observed=True),
    "pixels": Column(3, torch.uint8, observed=True),
    "rewards": Column(1),
    "terminated": Column(1, torch.bool),
}
OBSERVED = ("seen", "privileged", "pixels")


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
        self.now = self._look()

    def go(self, steps: int) -> None:
        """Take steps, some of which end episodes by termination and some by timeout."""
        for _ in range(steps):
            ends = self._random(1)
            terminated, timed_out = ends < 0.2, ends > 0.8
            after = self._look()
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

    def sum_up(self, age: int, env: int, steps: int, discount: float) -> tuple[float, float, dict[str, torch.Tensor]]:
        """Return a sum of rewards, the discount behind it, and the last transition of it, by a plain loop.

        Args:
            age: Steps that were added after the first transition.
            env: Its environment.
            steps: Most rewards in the sum.
            discount: Discount factor.
        """
        first = len(self.told) - 1 - age
        total, factor = torch.zeros(()), torch.ones(())
        for values, following in self.told[first : first + steps]:
            total = total + factor * values["rewards"][env, 0].cpu()
            factor = discount * factor
            last = {name: value[env] for name, value in values.items() if name not in OBSERVED}
            last |= {f"next_{name}": value[env] for name, value in following.items()}
            cut_off = all(torch.equal(following[name][env], values[name][env]) for name in OBSERVED)
            if values["terminated"][env, 0] or cut_off:
                break
        return float(total), float(factor), last

    def _look(self) -> dict[str, torch.Tensor]:
        """Return random observations; pixels are whole numbers from 0 to 255, as floats."""
        seen = {name: self._random(COLUMNS[name].size) for name in OBSERVED}
        return {**seen, "pixels": (256 * seen["pixels"]).floor()}

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


@pytest.mark.parametrize("change", [1, 127, 128, 129, 255])
def test_a_change_of_one_byte_ends_no_episode(change: int) -> None:
    memory = ReplayMemory(4, 1, {"pixels": Column(2, torch.uint8, observed=True)}, torch.device("cpu"))
    for step in range(4):
        pixels, following = (torch.tensor([[7.0, float(change * (place % 2))]]) for place in (step, step + 1))
        memory.add({"pixels": pixels}, {"pixels": following})
    index = torch.arange(4)
    assert memory._next.view(-1).tolist() == [1, 2, 3, 4]
    assert memory.read("pixels", index)[:, 1].tolist() == [0, change, 0, change]


@each_device
@pytest.mark.parametrize("added", [1, 2, 6, 7, 8, 20])
def test_transitions_are_drawn_as_they_were_added(added: int, device: str) -> None:
    episodes = Episodes(steps=7, device=device)
    episodes.go(added)
    episodes.require_held()
    assert episodes.memory.fill == pytest.approx(min(added, 7) / 7)


@each_device
@pytest.mark.parametrize("added", [1, 6, 8, 20])
@pytest.mark.parametrize("steps", [1, 3, 9])
def test_sums_of_rewards_are_those_of_a_plain_loop(added: int, steps: int, device: str) -> None:
    episodes = Episodes(steps=7, device=device)
    episodes.go(added)
    memory = episodes.memory
    index, after = memory.draw(200)
    rewards, discounts, lasts, afters = memory.look_ahead(index, after, steps, 0.9)
    lengths = set()
    for place, each in enumerate(index.tolist()):
        row, env = divmod(each, ENVS)
        age = (memory.added - 1 - row) % memory.steps
        total, factor, last = episodes.sum_up(age, env, steps, 0.9)
        lengths.add(round(factor, 5))
        assert float(rewards[place]) == pytest.approx(total, rel=1e-6)
        assert float(discounts[place]) == pytest.approx(factor, rel=1e-6)
        assert torch.equal(memory.read("terminated", lasts[place : place + 1])[0], last["terminated"])
        for name in OBSERVED:
            assert torch.equal(memory.read(name, afters[place : place + 1])[0], last[f"next_{name}"])
    assert len(lengths) > 1 or steps == 1 or added < 6, "some sums are cut short"


def test_a_timeout_ends_a_sum_although_the_next_episode_begins_where_the_last_one_ended() -> None:
    columns = {"seen": Column(1, observed=True), "rewards": Column(1), "terminated": Column(1, torch.bool)}
    memory = ReplayMemory(8, 1, columns, torch.device("cpu"))
    for seen, following in ((0.0, 1.0), (1.0, 1.0), (1.0, 2.0), (2.0, 3.0)):  # the second step times out
        values = {"seen": torch.tensor([[seen]]), "rewards": torch.ones(1, 1), "terminated": torch.zeros(1, 1) > 0}
        memory.add(values, {"seen": torch.tensor([[following]])})
    first = torch.arange(3)
    rewards, discounts, lasts, afters = memory.look_ahead(first, memory._next.view(-1)[first], 3, 0.5)
    assert lasts.tolist() == [1, 1, 3]
    assert rewards.flatten().tolist() == [1.5, 1.0, 1.5]
    assert discounts.flatten().tolist() == [0.25, 0.5, 0.25]
    assert memory.read("seen", afters).flatten().tolist() == [1.0, 1.0, 3.0]


def restored_from(memory: ReplayMemory) -> ReplayMemory:
    """Return a new memory with what another one holds."""
    new = ReplayMemory(memory.steps, ENVS, COLUMNS, memory.device)
    new.restore(memory.state())
    return new


@each_device
@pytest.mark.parametrize("added", [1, 6, 7, 8, 20])
def test_a_restored_memory_holds_the_same_and_goes_on_alike(added: int, device: str) -> None:
    episodes = Episodes(steps=7, device=device)
    episodes.go(added)
    restored = restored_from(episodes.memory)
    episodes.require_held(restored)
    episodes.memory = restored
    episodes.go(3)
    episodes.require_held()


def test_an_interruption_cuts_the_episodes_off() -> None:
    episodes = Episodes(steps=7)
    episodes.go(5)
    episodes.memory = restored_from(episodes.memory)
    episodes.begin()
    values, _ = episodes.told[-1]
    episodes.go(1)
    episodes.told[4] = (values, {name: values[name] for name in OBSERVED})
    episodes.require_held()


def test_its_size_is_that_of_the_plan() -> None:
    columns = {
        "observations": Column(48, observed=True),
        "actions": Column(12),
        "rewards": Column(1),
        "terminated": Column(1, torch.bool),
    }
    memory = ReplayMemory(10, 4, columns, torch.device("cpu"))
    assert memory.nbytes == 10 * 4 * bytes_per_transition(4 * 48, 12, 40) + 4 * 48 * 4
    twice = 4 * (2 * 48 + 12 + 1) + 1
    assert bytes_per_transition(4 * 48, 12, 40) < 0.6 * twice
    assert bytes_per_transition(4 * 48, 12, 2**31) == bytes_per_transition(4 * 48, 12, 2**31 - 1) + 4, (
        "indices of 64 bits"
    )
