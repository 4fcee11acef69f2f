"""Verify every journal of a ledger: exit status 0 if all are whole, 1 if any is damaged."""

from ledger_lab.commands.verify import verify_ledger
from ledger_lab.terminal.script import run_script

if __name__ == "__main__":
    run_script(verify_ledger)
