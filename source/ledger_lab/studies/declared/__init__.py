"""Studies: files that list factors and seeds, and the trainings that follow from them."""

from ledger_lab.studies.declared.arguments import check_arguments
from ledger_lab.studies.declared.sizes import Scaling, Shape, Size
from ledger_lab.studies.declared.study import Arm, Machine, Study, Training, load_study

__all__ = [
    "Arm",
    "Machine",
    "Scaling",
    "Shape",
    "Size",
    "Study",
    "Training",
    "check_arguments",
    "load_study",
]
