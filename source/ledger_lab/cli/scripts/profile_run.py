"""Time the parts of a task's training iteration."""

from ledger_lab.cli.programs import run

if __name__ == "__main__":
    run("profile_run")
