"""``--on CLUSTER``: the flags that send a training to another machine."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from ledger_lab.errors import UserError, as_user_error
from ledger_lab.reports.terminal.console import tell_error
from ledger_lab.training.launch.torchrun import take_flags, whole_number
from ledger_lab.wings import wing_part


@dataclass(frozen=True, kw_only=True)
class Elsewhere:
    """Where a training is to run."""

    on: str
    """Name or path of a file of ``config/clusters``."""
    nodes: int = 1
    """Machines of the training."""
    dry_run: bool = False
    """Whether to print the files instead of submitting them."""


def requested_elsewhere(argv: Sequence[str]) -> tuple[Elsewhere | None, list[str]]:
    """Split a command line into the flags of ``--on`` and the arguments of the training.

    Args:
        argv: Command line without the program's name.

    Returns:
        Where the training is to run, or ``None`` without ``--on``; and the arguments of the training.

    Raises:
        UserError: If a value is missing or wrong, or ``--on`` is missing.
    """
    known, others = take_flags(argv, "--on", "--nodes", switches=["--dry_run"])
    if known.on is None:
        given = [f"--{name}" for name in ("nodes", "dry_run") if getattr(known, name)]
        if given:
            raise UserError(f"{given[0]} needs --on CLUSTER")
        return None, others
    return Elsewhere(on=known.on, nodes=whole_number("--nodes", known.nodes or "1"), dry_run=known.dry_run), others


def submit_if_asked(argv: Sequence[str]) -> None:
    """Submit the training of ``train.py --on``, and end the program; without ``--on``, return.

    Args:
        argv: Command line without the program's name.

    Raises:
        SystemExit: After the submission, or with status 2 if it is refused.
    """
    try:
        elsewhere, arguments = requested_elsewhere(argv)
        if elsewhere is None:
            return
        submit = wing_part("submission")
        if submit is None:
            raise UserError(f"--on {elsewhere.on}: this installation of LedgerLab has no folder `clusters`: restore it")
        submit(elsewhere, arguments)
    except (UserError, OSError) as error:
        if as_user_error(error) is None:
            raise
        sys.exit(tell_error(error))
    sys.exit(0)
