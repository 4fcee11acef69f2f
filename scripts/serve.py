"""Show the page of a ledger in a browser, while trainings run."""

from ledger_lab.cli.serve import serve
from ledger_lab.reports.terminal.script import run_script

if __name__ == "__main__":
    run_script(serve)
