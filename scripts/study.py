"""Make all trainings of a study, and report them."""

from ledger_lab.reports.terminal.script import run_script
from ledger_lab.studies.commands.study import run_study

if __name__ == "__main__":
    run_script(run_study)
