"""Report what every run of a ledger cost and reached, as a table or as JSON."""

from ledger_lab.commands.report import build_report
from ledger_lab.terminal.script import run_script

if __name__ == "__main__":
    run_script(build_report)
