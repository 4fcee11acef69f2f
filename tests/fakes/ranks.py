"""Processes that train nothing together, under supervision, until one of them does what it is told to.

Usage: ``torchrun … tests/fakes/ranks.py --distributed DIRECTORY HOW``.
"""

from __future__ import annotations

import itertools
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ledgers import declared  # run as a script, this folder is on the path

from ledger_lab.errors import UserError
from ledger_lab.ledger import AttemptStarted, Journal
from ledger_lab.ledger.meters.phases import Phase, PhaseClock
from ledger_lab.training.supervision.attempt import Begin, Link, attempt_life
from ledger_lab.training.supervision.start import run_supervised
from ledger_lab.training.writer import AttemptWriter


def refuse() -> None:
    """Find what the user can mend, too late."""
    raise UserError("no room")


HOW: dict[str, Callable[[], object]] = {
    "wait": lambda: None,
    "refuse": refuse,
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
}


def main(argv: Sequence[str], started_ns: int, link: Link) -> None:
    """Make an attempt of it; the last rank does what it is told to in its third step."""
    import torch
    import torch.distributed as dist

    from ledger_lab.training.launch import read_world
    from ledger_lab.training.runners.collectives import metered_collectives
    from ledger_lab.training.runners.process_group import joined

    run_dir, how = Path(argv[1]), argv[2]
    world, clock = read_world(os.environ, distributed=True), PhaseClock(started_ns)
    with joined(world, on_gpu=False), Journal(run_dir / f"journal-1-{world.rank}.jsonl") as journal:
        if world.first:
            journal.append(declared("aaaaaaaa", world_size=int(os.environ["WORLD_SIZE"])))
        journals = {run_dir / f"journal-1-supervisor-{world.rank}.jsonl": "aaaaaaaa"}
        begin = Begin(journals=journals, attempt=1, rank=world.rank, device="cpu", log=run_dir / "log")
        journal.append(
            AttemptStarted(
                run_id="aaaaaaaa",
                attempt=1,
                rank=world.rank,
                pid=os.getpid(),
                host=socket.gethostname(),
                wall_ns=clock.wall_ns(),
                seed=world.rank,
            )
        )
        with (
            metered_collectives(clock),
            attempt_life(AttemptWriter(journal.append, clock), link, begin, lambda: None) as attempt,
        ):
            clock.set_base(Phase.UNATTRIBUTED)
            attempt.begin()
            os.write(1, b"working\n")  # at once: torchrun's processes are unbuffered, and share this stream
            for step in itertools.count(1):
                if world.rank == world.size - 1 and step == 3:
                    HOW[how]()
                dist.all_reduce(torch.ones(4))
                time.sleep(0.05)
        sys.exit(attempt.exit_status)


if __name__ == "__main__":
    run_supervised(main)
