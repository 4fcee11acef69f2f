"""A run in several processes: comparisons and agreements between the processes."""

from __future__ import annotations

import contextlib
import io
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from ledger_lab.errors import UserError
from ledger_lab.ledger import LearnerHashed, Row
from ledger_lab.ledger.meters import Phase, PhaseClock
from ledger_lab.training.runners import Trainer
from ledger_lab.training.runners.process_group import ProcessGroup

_EQUAL_AT_FIRST, _EQUAL_EVERY = 2, 50
"""Learners are compared after each of the first 2 iterations of an attempt, then after every 50th iteration."""

_WAIT_FOR_FIRST_S = 60.0
"""How long the other processes of a machine wait before they report an error of their own [s]."""


@contextmanager
def errors_once_per_machine(environ: Mapping[str, str]) -> Iterator[None]:
    """Let only the first process of each machine report an error in the command line that all processes share.

    When a process fails, its launcher ends all others. If another process failed first, the launcher would end the
    first process before its report. The other processes therefore wait. A process that is still running after the wait
    reports the error, too: the first process may not have failed.

    Args:
        environ: The environment variables.
    """
    if environ.get("WORLD_SIZE", "1") == "1" or environ.get("LOCAL_RANK", "0") == "0":
        yield
        return
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            yield
    except (UserError, SystemExit) as refused:
        if not isinstance(refused, SystemExit) or refused.code:
            time.sleep(_WAIT_FOR_FIRST_S)
            print(output.getvalue(), end="", file=sys.stderr, flush=True)
        raise


def compare_learners(
    group: ProcessGroup,
    iterations: int,
    earlier: int,
    trainer: Trainer,
    clock: PhaseClock,
    append: Callable[[Row], None],
) -> None:
    """Check after some iterations that the learners of all processes are equal, bit for bit.

    Args:
        group: The processes.
        iterations: Iterations completed.
        earlier: Iterations completed when this attempt began.
        trainer: The trainer of this process.
        clock: Counts the time as ``synchronize``.
        append: Writes the row with the hash of this process's learner.

    Raises:
        RanksDifferError: If learners differ; the error names the first difference.
    """
    if group.world.size == 1 or (iterations - earlier > _EQUAL_AT_FIRST and iterations % _EQUAL_EVERY):
        return

    def write_hash(sha256: str) -> None:
        append(LearnerHashed(sha256=sha256, iteration=iterations, wall_ns=clock.wall_ns()))

    with clock.window(Phase.SYNCHRONIZE):
        group.require_equal(trainer.state(), write_hash)


class Agreement(NamedTuple):
    """The vote of one process after an iteration, and the combined vote of all processes."""

    stopped: bool
    """Whether a health event ends the run. It takes precedence over a signal."""
    end_signal: signal.Signals | None
    """The signal that asks the run to end: of several signals, the signal with the largest number."""
    state_overdue: bool
    """Whether the first process finds the last saved state too old."""

    limit_passed: bool = False
    """Whether the first process finds the run's time used up. It takes precedence over a signal."""

    @property
    def ends(self) -> bool:
        """Whether the run ends."""
        return self.stopped or self.limit_passed or self.end_signal is not None


def agree_on_ending(group: ProcessGroup, mine: Agreement) -> Agreement:
    """Combine the votes of all processes in one collective.

    Args:
        group: The processes; all of them call this.
        mine: The vote of this process.

    Returns:
        The combined vote, equal in all processes: everything that any process voted for.
    """
    votes = [mine.stopped, mine.end_signal or 0, mine.state_overdue, mine.limit_passed]
    stopped, signum, state_overdue, limit_passed = group.largest(votes)
    ending = signal.Signals(signum) if signum else None
    return Agreement(bool(stopped), ending, bool(state_overdue), bool(limit_passed))


def require_same(group: ProcessGroup, mine: Mapping[str, Any]) -> None:
    """Refuse to start if the processes have different requests or different code.

    Args:
        group: The processes.
        mine: Request and code of this process as JSON values, by names that the user recognizes.

    Raises:
        UserError: If they differ between processes.
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
                    f"({group.hosts[rank]}): start all processes with the same request, code, packages and GPU model"
                )


def require_own_gpus(group: ProcessGroup, uuid: str | None) -> None:
    """Refuse to start if two processes use the same GPU.

    A process that sees one GPU can't tell whether it is the only process that sees this GPU.

    Args:
        group: The processes.
        uuid: UUID of the GPU of this process; ``None`` on a CPU.

    Raises:
        UserError: If two processes have the same GPU.
    """
    uuids = group.gather(uuid)
    for rank, other in enumerate(uuids):
        if other is not None and (first := uuids.index(other)) < rank:
            raise UserError(
                f"rank {first} and rank {rank} on {group.hosts[rank]} use the same GPU ({other}): start one process "
                "per GPU, or use --device cpu"
            )
