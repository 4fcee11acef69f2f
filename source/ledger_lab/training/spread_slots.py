"""Held-out slots of a run in several processes. Each process runs its share of the episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING

from ledger_lab.errors import UserError
from ledger_lab.ledger import Outcomes
from ledger_lab.panels import Panel
from ledger_lab.panels.starts import sum_of_starts
from ledger_lab.training.runners import Policy
from ledger_lab.training.runners.process_group import ProcessGroup

if TYPE_CHECKING:
    import torch

    from ledger_lab.panels.slots import HeldOutSlots


def require_divisible(panel: Panel, processes: int) -> None:
    """Refuse a panel whose seeds cannot be divided equally among processes.

    Args:
        panel: The panel.
        processes: Number of processes.

    Raises:
        UserError: If the seeds cannot be divided equally; the message names numbers of processes that work.
    """
    seeds = len(panel.seeds)
    if seeds % processes:
        fitting = [n for n in range(1, seeds + 1) if seeds % n == 0]
        below, above = max(n for n in fitting if n < processes), min((n for n in fitting if n > processes), default=0)
        raise UserError(
            f"panel {panel.name}: its {seeds} seeds do not split over {processes} processes: start {below}"
            f"{f' or {above}' if above else ''}, or train with --no_eval"
        )


def share_of(panel: Panel, rank: int, processes: int) -> Panel:
    """Return the part of a panel that runs in a process: an equal part of the seeds of each cell.

    Args:
        panel: The panel; its seeds can be divided equally among the processes.
        rank: Rank of the process.
        processes: Number of processes.
    """
    per_cell = len(panel.seeds) // (len(panel.cells) if panel.fresh else 1)
    own = per_cell // processes
    firsts = range(rank * own, len(panel.seeds), per_cell)
    return replace(panel, seeds=tuple(seed for first in firsts for seed in panel.seeds[first : first + own]))


class SpreadSlots:
    """The held-out slots of all processes, with the interface of one process's slots.

    All processes score at the same time and get the same result. Every process must call each method.
    """

    def __init__(self, slots: HeldOutSlots, group: ProcessGroup, panel: Panel) -> None:
        """Combine the slots of all processes.

        Args:
            slots: The slots of this process, made for its share of the panel.
            group: The processes.
            panel: The whole panel.
        """
        self._slots, self._group, self._panel = slots, group, panel
        self.first, self.count, self.action_count = slots.first, slots.count, slots.action_count
        self._taken = panel
        self._invalid: str | None = None
        self._starts: dict[str, str] | None = None

    def begin(self, policies: Sequence[Policy], panel: Panel | None = None) -> None:
        """Begin a panel within the next step.

        Args:
            policies: The policy, as a sequence of one.
            panel: The whole panel with other seeds; the whole panel itself by default.
        """
        self._taken = panel or self._panel
        self._slots.begin(policies, share_of(self._taken, self._group.world.rank, self._group.world.size))

    @property
    def replayed(self) -> int | None:
        """Number of episodes that each panel replays, of all processes; ``None`` for none."""
        return self._slots.replayed and self._slots.replayed * self._group.world.size

    @property
    def starts(self) -> dict[str, str] | None:
        """Hashes of what the episodes of the last panel started with, by the name of the quantity."""
        return self._starts

    @property
    def idle_here(self) -> bool:
        """Whether all episodes of this process have ended. Needs no communication."""
        return self._slots.idle

    @property
    def idle(self) -> bool:
        """Whether all episodes of all processes have ended."""
        return self._group.all(self._slots.idle)

    def step(self, actions: torch.Tensor) -> None:
        """Step the slots of this process.

        Args:
            actions: Actions of the training slots of this process; shape (training slots, actions).
        """
        self._slots.step(actions)

    def outcomes(self) -> list[Outcomes]:
        """Return the outcomes of the policy's episodes, in the order of the panel."""
        (mine,) = self._slots.outcomes()
        own = {"outcomes": asdict(mine), "invalid": self._slots.invalid(mine), "starts": self._slots.starts(0)}
        shares = self._group.gather(own)
        self._starts = sum_of_starts([share["starts"] for share in shares])
        self._invalid = next((share["invalid"] for share in shares if share["invalid"] is not None), None)
        return [merged([Outcomes(**share["outcomes"]) for share in shares], self._taken.episodes)]

    def invalid(self, outcomes: Outcomes) -> str | None:
        """Return why the outcomes prove nothing; ``None`` if they are valid.

        Args:
            outcomes: The last result of :meth:`outcomes`.
        """
        return self._invalid


def merged(shares: Sequence[Outcomes], episodes: Sequence[tuple[str, int]]) -> Outcomes:
    """Merge the outcomes of several processes.

    Args:
        shares: The outcomes of each process.
        episodes: Cell and seed of every episode, in the order of the result.
    """
    names = [column.name for column in fields(Outcomes)]
    rows = {
        (row[0], row[1]): row for share in shares for row in zip(*(getattr(share, name) for name in names), strict=True)
    }
    columns = zip(*(rows[episode] for episode in episodes), strict=True)
    return Outcomes(**{name: list(column) for name, column in zip(names, columns, strict=True)})
