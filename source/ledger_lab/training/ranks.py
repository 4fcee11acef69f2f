"""One run in several processes: their supervisors' line, their shares of the held-out episodes, and who speaks."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from ledger_lab.errors import UserError
from ledger_lab.launch import hub_address, listening_address
from ledger_lab.ledger import LearnerHashed, Outcomes, Row
from ledger_lab.meters import Phase, PhaseClock
from ledger_lab.panels import Panel
from ledger_lab.runners import Policy, Trainer
from ledger_lab.runners.process_group import ProcessGroup
from ledger_lab.supervision.link import Link
from ledger_lab.supervision.messages import Join
from ledger_lab.supervision.secret import KeyExchange, new_secret

if TYPE_CHECKING:
    from ledger_lab.panels.slots import HeldOutSlots

_EQUAL_AT_FIRST, _EQUAL_EVERY = 2, 50
"""Iterations after which the processes' learners are compared: the first ones of an attempt, and every so many."""

_SPOKEN_FOR_S = 60.0
"""How long to wait for another process to complain of what both of them have [s]."""


@contextmanager
def said_once(environ: Mapping[str, str]) -> Iterator[None]:
    """Let the first process of each machine alone complain of a command line that all of them have.

    The others wait to be ended by their launcher, as it does when one of its processes has failed: if they went first,
    it would end the one that has not spoken yet. Who is still there after that complains, too: it may be the only one.

    Args:
        environ: The environment.
    """
    if environ.get("WORLD_SIZE", "1") == "1" or environ.get("LOCAL_RANK", "0") == "0":
        yield
        return
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            yield
    except (UserError, SystemExit) as refused:
        if not isinstance(refused, SystemExit) or refused.code:
            time.sleep(_SPOKEN_FOR_S)
            print(said.getvalue(), end="", file=sys.stderr, flush=True)
        raise


def compare_learners(
    group: ProcessGroup,
    iterations: int,
    earlier: int,
    trainer: Trainer,
    clock: PhaseClock,
    append: Callable[[Row], None],
) -> None:
    """Make sure, when it is time, that all processes have learned the same, to the last bit.

    Args:
        group: The processes.
        iterations: Iterations completed.
        earlier: How many of them were when this attempt began.
        trainer: What learns in this process.
        clock: Where the time is counted, as ``synchronize``.
        append: Takes the row that says what this process compares.

    Raises:
        RanksDifferError: If they have not; it names the first place.
    """
    if group.world.size == 1 or (iterations - earlier > _EQUAL_AT_FIRST and iterations % _EQUAL_EVERY):
        return

    def tell(sha256: str) -> None:
        append(LearnerHashed(sha256=sha256, iteration=iterations, wall_ns=clock.wall_ns()))

    with clock.window(Phase.SYNCHRONIZE):
        group.require_equal(trainer.state(), tell)


class Agreement(NamedTuple):
    """What the processes of a run agree on after an iteration; before that, what one process votes for."""

    stopped: bool
    """Whether a health event ends the run. It takes precedence over a signal."""
    end_signal: signal.Signals | None
    """The signal that asks the run to end: of several, the one with the largest number."""
    state_overdue: bool
    """Whether the last saved state is too old."""

    @property
    def ends(self) -> bool:
        """Whether the run ends."""
        return self.stopped or self.end_signal is not None


def agree_on_ending(group: ProcessGroup, mine: Agreement) -> Agreement:
    """Combine the votes of all processes in one collective.

    Args:
        group: The processes; all of them call this.
        mine: The vote of this process.

    Returns:
        What any process voted for, the same in all of them.
    """
    stopped, signum, state_overdue = group.largest([mine.stopped, mine.end_signal or 0, mine.state_overdue])
    return Agreement(bool(stopped), signal.Signals(signum) if signum else None, bool(state_overdue))


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

    own = KeyExchange()
    public: list[str] = group.gather(own.public)
    secret = new_secret()  # of the first rank; the others get it sealed
    address = hub_address(os.environ["MASTER_ADDR"], group.world)

    def listen() -> dict[str, Any]:
        try:
            port = link.listen(listening_address(address))
        except OSError as error:
            raise UserError(f"the supervisor of rank 0 cannot listen at {address}: {error}") from error
        sealed = [own.seal(secret, each) for each in public[1:]]
        return {"port": port, "host": socket.gethostname(), "sealed": ["", *sealed]}

    hub: dict[str, Any] = group.first(listen)
    rank = group.world.rank
    if not group.world.first:
        secret = bytes.fromhex(own.seal(bytes.fromhex(hub["sealed"][rank]), public[0]))

    def join() -> None:
        try:
            link.join(
                Join(
                    rank=rank,
                    ranks=group.world.size,
                    address=address,
                    port=hub["port"],
                    host=hub["host"],
                    secret=secret.hex(),
                )
            )
        except OSError as error:
            raise UserError(f"{error}: let the machines reach each other at any port, as gloo and NCCL do") from error

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
    """Refuse processes that were asked for different things, or do them with different code.

    Args:
        group: The processes.
        mine: What this one was asked for, and the code that does it, by names that say where to mend it; JSON values.

    Raises:
        UserError: If they differ.
    """
    if group.world.size == 1:
        return
    asked = group.gather(dict(mine))
    for rank, other in enumerate(asked):
        for name in dict.fromkeys((*asked[0], *other)):
            here, there = (repr(each[name]) if name in each else "missing" for each in (asked[0], other))
            if here != there:
                raise UserError(
                    f"{name} is {here} on rank 0 ({group.hosts[0]}) and {there} on rank {rank} "
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
