"""Tell what costs money now and what it will cost: the exit status is 3 if something needs attention."""

from ledger_lab.cli.programs import run

if __name__ == "__main__":
    run("watch")
