"""Search the recipe that reaches the target in the least time or cost."""

from ledger_lab.reports.terminal.script import run_script
from ledger_lab.studies.commands.search import run_search

if __name__ == "__main__":
    run_script(run_search)
