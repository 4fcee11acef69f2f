"""Is the training well? Small detectors over its figures, its times, its memory and its held-out results.

Each detector tells one event: when its trouble has lasted, once, and again only after it has been over for a while. The
thresholds are set so that trainings which go well stay silent whatever their scale; each has its reason beside it.
Where one names what trainings that go well reach, these are 53 trainings of the cart-pole and the ant, by many recipes.
"""

from ledger_lab.meters.health.events import Event, Finding, Settings
from ledger_lab.meters.health.monitor import HealthMonitor
from ledger_lab.meters.health.seen import Iteration

__all__ = ["Event", "Finding", "HealthMonitor", "Iteration", "Settings"]
