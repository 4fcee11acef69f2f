"""Tell what costs money now and what it will cost: the exit status is 3 if something needs attention."""

from ledger_lab.cli.watch import watch
from ledger_lab.reports.terminal.script import run_script

if __name__ == "__main__":
    run_script(watch)
