"""Report the cost and the result of every run of a ledger, as a table, JSON or a page."""

from ledger_lab.cli.report import build_report
from ledger_lab.reports.terminal.script import run_script

if __name__ == "__main__":
    run_script(build_report)
