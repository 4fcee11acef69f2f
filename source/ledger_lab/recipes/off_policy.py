"""A library-neutral recipe for learning from a replay memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ledger_lab.recipes.ppo import RULES as PPO_RULES
from ledger_lab.recipes.ppo import Activation
from ledger_lab.recipes.rules import Rule, count, positive, share

RULES: Mapping[str, Rule] = {
    **{
        name: PPO_RULES[name]
        for name in (
            *("num_envs", "max_iterations", "save_interval", "horizon", "hidden_dims", "learning_rate", "activation"),
            *("discount", "reward_scale"),
        )
    },
    "action_bound": positive,
    "replay_steps": count,
    "random_steps": count,
    "warm_up_steps": count,
    "batch_size": count,
    "updates_per_step": count,
    "polyak": share,
    "initial_entropy_coef": positive,
}
"""Rules for the values of fields; the other fields are free names and switches. They are those of PPO where the fields
are."""


@dataclass(frozen=True, kw_only=True)
class OffPolicyRecipe:
    """Hyperparameters of soft actor-critic (SAC; Haarnoja et al. 2018, arXiv:1812.05905) on one task family."""

    experiment_name: str
    """Folder of the runs below ``<log_root>/<library>/``."""
    num_envs: int
    """Environments that the recipe is tuned for, and that its task has by default."""
    max_iterations: int
    """Iterations of a whole training run. An iteration is the time between two reports; it does not affect what is
    learned."""
    save_interval: int
    """Iterations between two checkpoints."""
    horizon: int
    """Environment steps per iteration and environment."""
    hidden_dims: tuple[int, ...]
    """Widths of the hidden layers of the policy's and of each critic's network."""
    learning_rate: float
    """Step size of Adam, for the policy, the critics and the entropy coefficient."""
    action_bound: float
    """Largest absolute value of each action, before the task scales it. Isaac Lab's action spaces are unbounded, and
    SAC's policy, a squashed Gaussian, needs a bound. The bound decides how the policy explores: take the joints' limits
    divided by the scale of the action term, or the range that a trained policy of PPO uses."""
    replay_steps: int
    """Most recent steps of each environment that the replay memory holds."""
    random_steps: int
    """Steps at the start in which actions are drawn uniformly within the bound."""
    warm_up_steps: int
    """Steps before the first update."""
    batch_size: int
    """Transitions per gradient step, drawn uniformly. Many environments add many transitions per step, so batches are
    larger than the 256 of the paper (Seo et al. 2025, arXiv:2505.22642)."""
    updates_per_step: int = 1
    """Gradient steps after each step of all environments."""
    activation: Activation = "relu"
    """Activation between the layers; that of the paper."""
    observation_normalization: bool = False
    """Whether observations are normalized by their running mean and variance."""
    discount: float = 0.99
    """Discount factor per environment step; that of the paper."""
    polyak: float = 0.005
    """Share of the critics that the target critics take over at each gradient step; that of the paper."""
    initial_entropy_coef: float = 0.2
    """Weight of the entropy at the start. It is learned, so that the entropy of the actions, as shares of the bound,
    becomes minus their number, as in the paper."""
    reward_scale: float = 1.0
    """Factor of the rewards that the learner sees; returns are reported without it."""

    def __post_init__(self) -> None:
        """Refuse values that no library could train with.

        Raises:
            ValueError: If a count or a rate is not positive, a factor lies outside 0..1, or a name is unknown.
        """
        for name, rule in RULES.items():
            value = getattr(self, name)
            if wrong := rule(value):
                raise ValueError(f"recipe {self.experiment_name!r}: {name} {value!r}: {wrong}")
