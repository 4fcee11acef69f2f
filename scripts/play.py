"""Play a checkpoint, and record it with --video."""

from ledger_lab.pipeline.script import run_script

if __name__ == "__main__":
    from ledger_lab.pipeline.play_run import play_run

    run_script(play_run)
