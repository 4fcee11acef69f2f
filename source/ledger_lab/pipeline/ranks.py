"""One run in several processes: their supervisors' line, their shares of the held-out episodes, and who speaks."""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any

from ledger_lab.errors import UserError
from ledger_lab.ledger import Outcomes
from ledger_lab.panels import Panel
from ledger_lab.pipeline.link import Link
from ledger_lab.runners import Policy
from ledger_lab.runners.process_group import ProcessGroup

if TYPE_CHECKING:
    import torch

    from ledger_lab.panels.slots import HeldOutSlots

EQUAL_AT_FIRST, EQUAL_EVERY = 2, 50
"""Iterations after which the processes' learners are compared: the first ones, and then every so many."""


@contextmanager
def said_once(environ: Mapping[str, str]) -> Iterator[None]:
    """Let one process alone complain of a command line that all of them have.

    Args:
        environ: The environment.
    """
    if environ.get("RANK", "0") == "0":
        yield
        return
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            yield
        except UserError:
            sys.exit(2)


def join_supervisors(group: ProcessGroup, link: Link) -> None:
    """Connect the supervisors of all processes, so that the end of one is the end of all.

    Args:
        group: The processes.
        link: Line to the supervisor of this one.

    Raises:
        UserError: If they can't be connected.
    """
    if group.world.size == 1:
        return

    def listen() -> dict[str, Any]:
        here = "127.0.0.1" if group.world.one_machine else ""
        return {"port": link.listen(here), "host": socket.gethostname(), "token": secrets.token_hex(16)}

    middle: dict[str, Any] = group.first(listen)
    address = "127.0.0.1" if group.world.one_machine else os.environ["MASTER_ADDR"]

    def join() -> None:
        try:
            link.join(group.world.rank, address, **middle)
        except OSError as error:
            raise UserError(str(error)) from error

    group.agree(join)


def require_divisible(panel: Panel, processes: int) -> None:
    """Refuse a panel whose seeds do not split into equal shares.

    Args:
        panel: The panel.
        processes: Processes that share it.

    Raises:
        UserError: If they don't.
    """
    seeds = len(panel.seeds)
    if seeds % processes:
        fitting = [n for n in range(1, seeds + 1) if seeds % n == 0]
        below, above = max(n for n in fitting if n < processes), min((n for n in fitting if n > processes), default=0)
        raise UserError(
            f"panel {panel.name}: its {seeds} seeds do not split over {processes} processes: start {below}"
            f"{f' or {above}' if above else ''}, or train with --no_eval"
        )


def require_same(group: ProcessGroup, mine: Mapping[str, Any]) -> None:
    """Refuse processes that were asked for different things.

    Args:
        group: The processes.
        mine: What this one was asked for, by names that say where to mend it; JSON values.

    Raises:
        UserError: If they differ.
    """
    asked = group.gather(dict(mine))
    for rank, other in enumerate(asked):
        for name, value in asked[0].items():
            if other[name] != value:
                raise UserError(
                    f"{name} is {value!r} on rank 0 ({group.hosts[0]}) and {other[name]!r} on rank {rank} "
                    f"({group.hosts[rank]}): start all processes with the same request, code and packages"
                )


def share_of(panel: Panel, rank: int, processes: int) -> Panel:
    """Return the part of a panel that one process judges: of each cell, an equal part of the seeds.

    Args:
        panel: The panel; its seeds split evenly.
        rank: The process.
        processes: All processes.
    """
    per_cell = len(panel.seeds) // (len(panel.cells) if panel.fresh else 1)
    own = per_cell // processes
    firsts = range(rank * own, len(panel.seeds), per_cell)
    return replace(panel, seeds=tuple(seed for first in firsts for seed in panel.seeds[first : first + own]))


class SpreadSlots:
    """The held-out slots of all processes as those of one: what a judge sees of them.

    All processes judge, in step, and come to the same result. Each method is called by all of them.
    """

    def __init__(self, slots: HeldOutSlots, group: ProcessGroup, panel: Panel) -> None:
        """Take the slots.

        Args:
            slots: The slots of this process, for its share of the panel.
            group: The processes.
            panel: The whole panel.
        """
        self._slots, self._group, self._panel = slots, group, panel
        self.first, self.count, self.action_count = slots.first, slots.count, slots.action_count
        self._taken = panel
        self._invalid: str | None = None

    def begin(self, policies: Sequence[Policy], panel: Panel | None = None) -> None:
        """Let a policy take the panel, from within the next step on.

        Args:
            policies: The policy.
            panel: The same panel with other seeds, to take in place of it.
        """
        self._taken = panel or self._panel
        self._slots.begin(policies, share_of(self._taken, self._group.world.rank, self._group.world.size))

    @property
    def taking(self) -> list[tuple[list[int], bool]]:
        """See :attr:`ledger_lab.panels.slots.HeldOutSlots.taking`, of the slots of this process."""
        return self._slots.taking

    def go_on(self, policies: Sequence[Policy], taking: Sequence[Any], panel: Panel | None = None) -> None:
        """Let a policy go on with a panel, in slots whose own state is put back besides.

        Args:
            policies: The policy; none where no panel was being taken.
            taking: What :attr:`taking` was then, in this process.
            panel: As for :meth:`begin`.
        """
        self._taken = panel or self._panel
        self._slots.go_on(policies, taking)

    @property
    def idle_here(self) -> bool:
        """Whether all episodes of this process have ended; no other one needs to be asked."""
        return self._slots.idle

    @property
    def idle(self) -> bool:
        """Whether all episodes of all processes have ended."""
        return self._group.all(self._slots.idle)

    def step(self, actions: torch.Tensor) -> None:
        """Step the slots of this process.

        Args:
            actions: Of its training slots; shape (training slots, actions).
        """
        self._slots.step(actions)

    def outcomes(self) -> list[Outcomes]:
        """Return what became of the policy's episodes, in the order of the panel."""
        (mine,) = self._slots.outcomes()
        shares = self._group.gather({"outcomes": asdict(mine), "invalid": self._slots.invalid(mine)})
        self._invalid = next((share["invalid"] for share in shares if share["invalid"] is not None), None)
        return [merged([Outcomes(**share["outcomes"]) for share in shares], self._taken.episodes)]

    def invalid(self, outcomes: Outcomes) -> str | None:
        """Return why the outcomes are no proof of anything; ``None`` if they are one.

        Args:
            outcomes: What :meth:`outcomes` returned last.
        """
        return self._invalid


def merged(shares: Sequence[Outcomes], episodes: Sequence[tuple[str, int]]) -> Outcomes:
    """Return the outcomes of several processes as one.

    Args:
        shares: What became of each process's episodes.
        episodes: Cell and seed of all episodes, in the order to return them in.
    """
    names = [column.name for column in fields(Outcomes)]
    rows = {
        (row[0], row[1]): row for share in shares for row in zip(*(getattr(share, name) for name in names), strict=True)
    }
    columns = zip(*(rows[episode] for episode in episodes), strict=True)
    return Outcomes(**{name: list(column) for name, column in zip(names, columns, strict=True)})
