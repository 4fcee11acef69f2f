"""Play a checkpoint, and record it with --video."""

from ledger_lab.terminal.script import run_script

if __name__ == "__main__":
    from ledger_lab.checkpoints.play import play_run

    run_script(play_run)
