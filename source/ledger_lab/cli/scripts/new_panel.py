"""Write a panel file for a registered task, filled from its configuration."""

from ledger_lab.cli.programs import run

if __name__ == "__main__":
    run("new_panel")
