"""Verify every journal of a ledger: the exit status is 0 if no journal is damaged, else 1."""

from ledger_lab.cli.verify import verify_ledger
from ledger_lab.reports.terminal.script import run_script

if __name__ == "__main__":
    run_script(verify_ledger)
