"""Search the recipe that reaches the target in the least time or cost."""

from ledger_lab.cli.programs import run

if __name__ == "__main__":
    run("search")
