"""Measure what a task's training iteration consists of, piece by piece."""

from ledger_lab.pipeline.profile_run import profile_run
from ledger_lab.pipeline.script import run_script

if __name__ == "__main__":
    run_script(profile_run)
