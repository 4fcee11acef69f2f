"""Time the parts of a task's training iteration."""

import sys

from ledger_lab.cli.first_look import first_look
from ledger_lab.reports.terminal.script import imported_later, run_script
from ledger_lab.training.profiling.request import ProfileRequest
from ledger_lab.training.supervision.start import run_watched

if __name__ == "__main__":
    first_look(ProfileRequest, sys.argv[1:])  # before anything heavy is imported
    main = imported_later("ledger_lab.training.profiling.run:profile_run")
    if "--into" in sys.argv:  # Nsight Systems runs this, and does not follow processes that are forked
        run_script(main)
    run_watched(main)
