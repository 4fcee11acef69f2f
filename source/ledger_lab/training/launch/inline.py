"""``train.py --nproc N``: replace this process with a launcher that starts N copies of it."""

from __future__ import annotations

import os
import sys

from ledger_lab.errors import UserError
from ledger_lab.ledger.cores import usable_cores
from ledger_lab.ledger.meters import part_environ
from ledger_lab.reports.terminal.console import tell_error
from ledger_lab.training.launch import requested_processes, torchrun_argv, torchrun_environ


def launch_processes() -> None:
    """Become torchrun if ``--nproc`` asks for several processes; otherwise remove the flag and return.

    torchrun then replaces this process: it gets the signals and the terminal, and sets the exit status. The attempt is
    measured from the start of this program.
    """
    program, *argv = sys.argv
    try:
        processes, arguments = requested_processes(argv)
        if processes is not None and os.environ.get("WORLD_SIZE", "1") != "1":
            raise UserError(
                f"--nproc {processes}: WORLD_SIZE is {os.environ['WORLD_SIZE']}, so a launcher has started this "
                "process: use --distributed instead"
            )
    except UserError as error:
        sys.exit(tell_error(error))
    if processes is None or processes == 1:
        sys.argv = [program, *arguments]
        return
    command = torchrun_argv(processes, program, arguments)
    environ = {**part_environ(), **os.environ}
    os.execve(command[0], command, torchrun_environ(processes, usable_cores(), environ))
