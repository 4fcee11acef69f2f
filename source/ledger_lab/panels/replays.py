"""Held-out slots that replay episodes of the panel before.

A replay has the same seed and the same policy, but it plays later, in another slot, beside other episodes. If it is not
equal bit for bit, episodes depend on more than their seeds: on what a curriculum changed, on what an earlier episode
left, or on other slots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from ledger_lab.ledger import CAPACITY, Outcomes
from ledger_lab.panels.panel import Panel
from ledger_lab.panels.physics import exactness
from ledger_lab.panels.policy import Policy

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnvCfg

LEAST_REPLAYS, MOST_REPLAYS = 8, 16
"""Number of slots that replay episodes; more than the least only if a simulation has slots to spare."""

_COMPARED = {
    "success": "its success",
    "ended_by": "its end",
    "steps": "its length",
    "success_any": "its success at the best moment",
}
"""Columns of the outcomes that must repeat, besides the fingerprint, and what a message calls them.

The return need not repeat: a curriculum may change the weights of rewards."""


@dataclass(frozen=True)
class Played:
    """The episodes of a policy on a panel."""

    panel: Panel
    policy: Policy
    ended_by: Sequence[str]
    quantities: Mapping[str, Sequence[Any]]
    """What must repeat, as a message calls it, in order: a value per episode."""

    @classmethod
    def of(cls, panel: Panel, policy: Policy, outcomes: Outcomes, starts: Mapping[str, Sequence[int]]) -> Self:
        """Return what must repeat of outcomes, and of hashes of what each episode started with, by their names."""
        told = {f"its start: {name}": hashes for name, hashes in starts.items()}
        told |= {words: getattr(outcomes, column) for column, words in _COMPARED.items()}
        return cls(panel, policy, outcomes.ended_by, told | {"its observations": outcomes.fingerprint})


def least_replays(env_cfg: ManagerBasedRLEnvCfg) -> int:
    """Return how many slots a simulation needs for replays: none if its engine doesn't repeat episodes bit for bit.

    Args:
        env_cfg: Configuration of the environment.
    """
    return LEAST_REPLAYS if exactness(env_cfg) == "bitwise" else 0


class ReplaySlots:
    """The slots that replay episodes; each has a cell of its own, and another episode of it in every panel."""

    def __init__(self, panel: Panel, room: int) -> None:
        """Choose the cells of the slots.

        Args:
            panel: The panel of the held-out slots.
            room: Held-out slots beyond those of the panel.
        """
        cells = [cell for cell, _ in panel.episodes]
        self.count = min(room, MOST_REPLAYS, len(cells))
        self.cells = [cells[slot * len(cells) // self.count] for slot in range(self.count)]
        """The cell of each slot."""
        self._of_cell = {name: [place for place, cell in enumerate(cells) if cell == name] for name in self.cells}
        self._panels = 0
        self._before: Played | None = None

    @property
    def chosen(self) -> list[int]:
        """The episode that each slot replays in the next or running panel, by its number in the panel."""
        found = []
        for slot, cell in enumerate(self.cells):
            own, several = self._of_cell[cell], self.cells.count(cell)
            found.append(own[(self.cells[:slot].count(cell) * len(own) // several + self._panels) % len(own)])
        return found

    def episodes(self, panel: Panel) -> list[tuple[str, int]]:
        """Return cell and seed of each slot's episode.

        Args:
            panel: The next or running panel. The first panel of a simulation is replayed while it runs.
        """
        of = panel if self._before is None else self._before.panel
        return [of.episodes[episode] for episode in self.chosen]

    def policy(self, policies: Sequence[Policy]) -> Policy:
        """Return the policy of all slots.

        Args:
            policies: The policies of the next or running panel.
        """
        return policies[self._panels % len(policies)] if self._before is None else self._before.policy

    def compare(
        self,
        panel: Panel,
        policies: Sequence[Policy],
        outcomes: Sequence[Outcomes],
        starts: Mapping[str, Sequence[int]],
        replays: Outcomes,
    ) -> str | None:
        """Compare the replays of a panel that has ended; the next panel replays episodes of this one.

        Args:
            panel: The panel.
            policies: Its policies.
            outcomes: The outcomes of each policy.
            starts: Hashes of what each episode started with, by the name of the quantity: of the episodes of all
                policies, then of the replays.
            replays: The outcomes of the replays.

        Returns:
            How a replay differs; ``None`` if none does.
        """
        place, episodes = self._panels % len(policies), len(panel.episodes)
        rows = slice(place * episodes, (place + 1) * episodes)
        now = Played.of(panel, policies[place], outcomes[place], {name: each[rows] for name, each in starts.items()})
        before = self._before or now
        replayed = {name: each[-self.count :] for name, each in starts.items()}
        found = self._difference(before, Played.of(before.panel, before.policy, replays, replayed))
        self._before = now
        self._panels += 1
        return found

    def _difference(self, before: Played, replays: Played) -> str | None:
        """Describe the first replay that differs from what was played; ``None`` if none does."""
        for slot, episode in enumerate(self.chosen):
            if CAPACITY in (before.ended_by[episode], replays.ended_by[slot]):
                continue  # invalid for a reason of its own
            for what, values in before.quantities.items():
                then, now = values[episode], replays.quantities[what][slot]
                if then != now:
                    cell, seed = before.panel.episodes[episode]
                    when = "at the same time" if self._before is None else "in the panel before"
                    return (
                        f"episode {seed} of cell {cell!r} was played {when}, and replayed with the same policy in "
                        f"another slot: the two differ in {what}"
                        + (f" ({then}, then {now})" if what in _COMPARED.values() else "")
                    )
        return None
