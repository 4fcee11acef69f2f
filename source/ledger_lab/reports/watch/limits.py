"""Thresholds of alerts, with their reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ledger_lab.ledger.runs import silence_limit

HUNG_AFTER_S: Final = silence_limit(supervised=False).total_seconds()
"""How long a supervised training may write no row [s]. It is the ledger's own limit for processes without a supervisor:
such a process, too, writes only its own rows, and is silent for minutes while kernels are compiled."""

IDLE_AFTER_S: Final = 600.0
"""How long a machine may stand idle after its run [s]: long enough for a script to start the next training, or to copy
the results away."""

QUEUE_AFTER_S: Final = 4 * 3600.0
"""How long all trainings of a submission may wait while none of them runs [s]. Shorter waits are usual on shared
clusters."""

FORGET_AFTER_S: Final = 24 * 3600.0
"""How long after its end a run or a machine is still told [s]: whoever looks once a day misses nothing."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Thresholds that a user can change."""

    hung_after_s: float = HUNG_AFTER_S
    idle_after_s: float = IDLE_AFTER_S
    queue_after_s: float = QUEUE_AFTER_S
    forget_after_s: float = FORGET_AFTER_S
