"""Verify every journal of a ledger: exit status 0 if all are whole, 1 if any is damaged."""

from ledger_lab.pipeline.script import run_script
from ledger_lab.pipeline.verify_ledger import verify_ledger

if __name__ == "__main__":
    run_script(verify_ledger)
