"""Play a checkpoint, and record it with --video."""

from ledger_lab.cli.programs import run

if __name__ == "__main__":
    run("play")
