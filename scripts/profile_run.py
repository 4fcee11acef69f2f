"""Measure what a task's training iteration consists of, piece by piece."""

from ledger_lab.profiling.run import profile_run
from ledger_lab.terminal.script import run_script

if __name__ == "__main__":
    run_script(profile_run)
