"""Checks of a command line before torch and Isaac Lab are imported, so that a refusal is fast."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.request import HABITS, Request, SimulationRequest, flag_names
from ledger_lab.training.launch import requested_processes
from ledger_lab.training.launch.start import requested_elsewhere
from ledger_lab.training.requested import require_known


def first_look(request: type[Request], argv: Sequence[str]) -> None:
    """Answer ``--help``, and refuse errors that show in the command line and on the disk.

    The program later repeats the checks with the task's configuration; several processes skip the early ones.

    Args:
        request: What the program makes of its command line.
        argv: Command line without the name of the program.

    Raises:
        SystemExit: With status 0 after the help.
        UserError: If the request can't be carried out.
    """
    if asks_for_help := [each for each in argv if each in ("-h", "--help", "--help_all")]:
        request.parser().parse_known_args(asks_for_help[:1])
    if os.environ.get("WORLD_SIZE", "1") != "1":
        return
    if "--headless" in argv and issubclass(request, SimulationRequest):
        make_console(sys.stderr).print(f"note: --headless: {HABITS['headless']}", soft_wrap=True)
    if "nproc" in flag_names(request):
        elsewhere, argv = requested_elsewhere(argv)
        if elsewhere is not None:
            return  # the submission checks the request, with the ledger of the cluster
        _, argv = requested_processes(argv)
    require_known(request.parse(argv).named())
