"""Verify every journal of a ledger: the exit status is 0 if no journal is damaged, else 1."""

from ledger_lab.cli.programs import run

if __name__ == "__main__":
    run("verify_ledger")
