"""Checks of a command line before torch and Isaac Lab are imported, so that a refusal is fast."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from ledger_lab.reports.terminal.request import Request, SimulationRequest, flag_names
from ledger_lab.training.launch import requested_processes
from ledger_lab.training.launch.start import requested_elsewhere
from ledger_lab.training.requested import require_known


def first_look(request: type[Request], argv: Sequence[str]) -> None:
    """Answer ``--help``, and refuse errors that show in the command line and on the disk.

    With ``--task``, the help of a simulation also lists the presets of that task, which takes Isaac Lab. The program
    later repeats the checks with the task's configuration; several processes skip the early ones.

    Args:
        request: What the program makes of its command line.
        argv: Command line without the name of the program.

    Raises:
        SystemExit: With status 0 after the help.
        UserError: If the request can't be carried out.
    """
    asks_for_help = {"-h", "--help"} & {argument.partition("=")[0] for argument in argv}
    names_task = any(argument.partition("=")[0] == "--task" for argument in argv)
    if asks_for_help and not (names_task and issubclass(request, SimulationRequest)):
        request.whole_parser().print_help()
        sys.exit(0)
    if asks_for_help or os.environ.get("WORLD_SIZE", "1") != "1":
        return
    if "nproc" in flag_names(request):
        elsewhere, argv = requested_elsewhere(argv)
        if elsewhere is not None:
            return  # the submission checks the request, with the ledger of the cluster
        _, argv = requested_processes(argv)
    require_known(request.parse(argv).named())
