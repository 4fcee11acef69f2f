"""Make all trainings of a study, and report them."""

from ledger_lab.cli.programs import run

if __name__ == "__main__":
    run("study")
