"""Show what runs and waits now, with its cost, and alerts: the exit status is 3 if there is one."""

from ledger_lab.cli.programs import run

if __name__ == "__main__":
    run("watch")
