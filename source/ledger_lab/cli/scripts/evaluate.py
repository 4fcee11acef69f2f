"""Score any number of checkpoints on every episode of a held-out panel, in one simulation pass."""

from ledger_lab.cli.programs import run

if __name__ == "__main__":
    run("evaluate")
