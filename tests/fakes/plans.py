"""Plans of trainings, as command lines ask for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ledger_lab.training.plan import TrainPlan


def planned(*arguments: str | Path, log_root: Path, resumed: Any = None) -> TrainPlan:
    """Plan a training as the command line says."""
    from ledger_lab.training.plan import plan_training
    from ledger_lab.training.request import TrainRequest

    return plan_training(TrainRequest.parse([*map(str, arguments), "--log_root", str(log_root)]), resumed=resumed)
