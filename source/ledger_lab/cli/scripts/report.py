"""Report the cost and the result of every run of a ledger, as a table, JSON or a page."""

from ledger_lab.cli.programs import run

if __name__ == "__main__":
    run("report")
