"""Detectors of trainings that go wrong.

They examine training figures, times, memory, terminations and held-out scores. Each detector reports one event once,
when its problem has lasted for a while. It reports again only after the problem has been gone for a while. The
thresholds do not depend on the scale of a task, and are chosen so that good trainings cause no event; each threshold
has its reason beside it. Figures of good trainings come from 53 trainings of the cart-pole and the ant with many
recipes.
"""

from ledger_lab.ledger.rows import Event
from ledger_lab.training.health.detector import Detection, Iteration, Settings
from ledger_lab.training.health.monitor import HealthMonitor

__all__ = ["Event", "Detection", "HealthMonitor", "Iteration", "Settings"]
