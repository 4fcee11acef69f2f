"""Studies: factors × seeds, as the trainings that they ask for."""

from ledger_lab.studies.study import Arm, Study, Training, check_arguments, load_study

__all__ = ["Arm", "Study", "Training", "check_arguments", "load_study"]
