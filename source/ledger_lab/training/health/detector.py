"""What detectors examine and report, and when they report it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from ledger_lab.ledger.rows import Event

_MAD_TO_SIGMA = 1.4826
"""Factor from the median absolute deviation to the standard deviation of a normal distribution (Hampel 1974, JASA
69:383)."""


@dataclass(frozen=True)
class Settings:
    """Names of a library's settings, for advice."""

    names: Mapping[str, str] = field(default_factory=dict)
    """Override, like ``agent.algorithm.gamma``, by the field of a recipe."""
    adaptive: str = "adaptive"
    """The library's name of the learning-rate schedule that follows the KL divergence."""
    value_scale: float = 1.0
    """Factor between the returns that are reported and the values that the learner estimates."""
    entropy_target: float | None = None
    """Entropy per action that the learner aims at, of actions as shares of their bound [nat], as SAC does; ``None`` if
    it aims at none."""

    def __getitem__(self, field_name: str) -> str:
        """Return the override on the command line, or the name of the field if the library has none."""
        return self.names.get(field_name, field_name)

    @property
    def has_replay(self) -> bool:
        """Whether the algorithm learns from a replay memory."""
        return "replay_steps" in self.names

    @property
    def exploration(self) -> str:
        """The setting that makes a policy explore more."""
        known = (name for name in ("initial_entropy_coef", "exploration_noise") if name in self.names)
        return self[next(known, "entropy_coef")]


@dataclass(frozen=True, kw_only=True)
class Iteration:
    """One iteration of a training."""

    iterations: int
    """Iterations completed."""
    env_steps: int
    """Environment steps of this iteration, over all processes."""
    figures: Mapping[str, float]
    """Figures by the names of :data:`ledger_lab.ledger.FIGURES`; figures that were not measured are left out."""
    phase_ns: Mapping[str, int]
    """Nanoseconds per phase in this iteration."""
    host_memory_bytes: int | None = None
    """Resident memory of the process at the end of the iteration [B]."""
    device_memory_bytes: int | None = None
    """Device memory of the process at the end of the iteration [B]."""
    endings: Mapping[str, int] | None = None
    """Training episodes that each termination ended in this iteration; ``None`` if they were not counted."""
    learned: bool = False
    """Whether the last check reached the target; the monitor sets it."""


@dataclass(frozen=True)
class Detection:
    """A health event that a detector reports."""

    event: Event
    evidence: str
    """The observation, with its figures."""
    advice: str
    """What to do, with the name of the setting to change."""


class Detector:
    """Reports a problem after it has lasted, and again only after it was gone for a while."""

    event: Event
    patience: int = 1
    """Consecutive checks with the problem before it is reported."""
    calm: int = 20
    """Consecutive checks without it before it can be reported again."""

    def __init__(self, settings: Settings) -> None:
        """Start without a problem.

        Args:
            settings: Names of the library's settings.
        """
        self.settings = settings
        self._troubled = self._well = 0
        self.reported = False
        """Whether the present problem was reported."""

    def is_due(self, trouble: bool, *, at_once: bool = False) -> bool:
        """Add one check, and tell whether to report the problem now.

        Args:
            trouble: Whether the problem is there now.
            at_once: Whether it is bad enough to be reported at once.
        """
        self._troubled = self._troubled + 1 if trouble else 0
        self._well = 0 if trouble else self._well + 1
        self.reported = self.reported and self._well < self.calm
        if self.reported or not trouble or (self._troubled < self.patience and not at_once):
            return False
        self.reported = True
        return True

    def detection(self, evidence: str, advice: str) -> Detection:
        """Return the event with its evidence and advice."""
        return Detection(self.event, evidence, advice)

    def learning_rate(self, seen: Iteration) -> str:
        """Return the setting of the learning rate, with its present value if it is known."""
        rate = seen.figures.get("learning_rate")
        return self.settings["learning_rate"] + ("" if rate is None else f" (now {rate:.3g})")


def spread(values: list[float]) -> float:
    """Return a robust standard deviation: the scaled median absolute deviation.

    Args:
        values: At least one value.
    """
    middle = median(values)
    return _MAD_TO_SIGMA * median(abs(value - middle) for value in values)
