"""Make all trainings of a study, and report them."""

from ledger_lab.commands.study import run_study
from ledger_lab.terminal.script import run_script

if __name__ == "__main__":
    run_script(run_study)
