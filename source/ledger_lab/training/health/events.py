"""What a detector reports, and the settings that its advice names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ledger_lab.ledger.health import Event


@dataclass(frozen=True)
class Detection:
    """A health event that a detector reports."""

    event: Event
    evidence: str
    """The observation, with its figures."""
    advice: str
    """What to do, with the name of the setting to change."""


_WORDS = {
    "learning_rate": "the learning rate",
    "schedule": "the schedule of the learning rate",
    "kl_target": "the KL divergence that updates aim at",
    "epochs": "the number of epochs",
    "entropy_coef": "the weight of the entropy bonus",
    "reward_scale": "the scale of the rewards",
    "polyak": "the share that target networks take over",
    "updates_per_step": "the number of updates per step",
    "value_coef": "the weight of the value loss",
    "max_grad_norm": "the largest gradient norm",
    "initial_noise_std": "the noise of the actions at the start",
    "replay_steps": "the number of steps that the replay memory holds",
}


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
    estimates_distributions: bool = False
    """Whether the value loss compares distributions of returns, and not returns."""

    def __getitem__(self, field_name: str) -> str:
        """Return the override on the command line, or a description if the library has none.

        Raises:
            KeyError: If advice never uses the field.
        """
        return self.names.get(field_name) or _WORDS[field_name]

    @property
    def has_replay(self) -> bool:
        """Whether the algorithm learns from a replay memory."""
        return "replay_steps" in self.names

    @property
    def exploration(self) -> str:
        """The setting that makes a policy explore more."""
        known = (name for name in ("initial_entropy_coef", "exploration_noise") if name in self.names)
        return self[next(known, "entropy_coef")]
