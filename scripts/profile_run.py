"""Time the parts of a task's training iteration."""

import sys

from ledger_lab.commands.first_look import first_look
from ledger_lab.profiling.request import ProfileRequest
from ledger_lab.supervision.start import run_watched
from ledger_lab.terminal.script import imported_later, run_script

if __name__ == "__main__":
    first_look(ProfileRequest, sys.argv[1:])  # before anything heavy is imported
    main = imported_later("ledger_lab.profiling.run:profile_run")
    if "--into" in sys.argv:  # Nsight Systems runs this, and does not follow processes that are forked
        run_script(main)
    run_watched(main)
