"""Search the recipe that reaches the target in the least time or cost."""

from ledger_lab.commands.search import run_search
from ledger_lab.terminal.script import run_script

if __name__ == "__main__":
    run_script(run_search)
