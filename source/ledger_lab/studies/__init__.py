"""Studies: files that list factors and seeds, and the trainings that follow from them."""

from ledger_lab.studies.study import Arm, Study, Training, check_arguments, load_study

__all__ = ["Arm", "Study", "Training", "check_arguments", "load_study"]
