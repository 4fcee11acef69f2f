"""A library-neutral recipe for proximal policy optimization."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from ledger_lab.ledger.libraries import PPO
from ledger_lab.tasks.recipes.settings import Rule, count, finite, not_negative, one_of, positive, share, widths

DEFAULT_SEED = 42
"""Training seed if none is given, as in Isaac Lab's own configurations."""

type Activation = Literal["elu", "relu", "tanh", "selu"]
type Schedule = Literal["adaptive", "fixed"]

RULES: Mapping[str, Rule] = {
    "num_envs": count,
    "max_iterations": count,
    "save_interval": count,
    "horizon": count,
    "epochs": count,
    "minibatches": count,
    "hidden_dims": widths,
    "learning_rate": positive,
    "entropy_coef": finite,
    "activation": one_of(*get_args(Activation.__value__)),
    "schedule": one_of(*get_args(Schedule.__value__)),
    "kl_target": positive,
    "clip": positive,
    "value_coef": not_negative,
    "max_grad_norm": positive,
    "discount": share,
    "gae_lambda": share,
    "reward_scale": positive,
    "initial_noise_std": positive,
}
"""Rules for the values of fields; the other fields are free names and switches."""


@dataclass(frozen=True, kw_only=True)
class PpoRecipe:
    """Hyperparameters of PPO (Schulman et al. 2017, arXiv:1707.06347) on one task family.

    The defaults are those that Isaac Lab's own tasks share; a recipe states what differs.
    """

    algorithm: ClassVar[str] = PPO
    """Name on the command line."""
    rules: ClassVar[Mapping[str, Rule]] = RULES
    """Rules for the values of fields; the other fields are free names and switches."""

    experiment_name: str
    """Folder of the runs below ``<log_root>/<library>/``."""
    num_envs: int
    """Environments that the recipe is tuned for, and that its task has by default."""
    max_iterations: int
    """Policy iterations of a whole training run."""
    save_interval: int
    """Iterations between two checkpoints."""
    horizon: int
    """Environment steps per iteration and environment."""
    epochs: int
    """Passes over each batch."""
    minibatches: int
    """Parts a batch is split into for one gradient step each."""
    hidden_dims: tuple[int, ...]
    """Widths of the hidden layers of the policy's and of the value function's network."""
    learning_rate: float
    """Step size of Adam; with an adaptive schedule, the initial step size."""
    entropy_coef: float
    """Weight of the entropy bonus."""
    activation: Activation = "elu"
    """Activation between the layers."""
    observation_normalization: bool = False
    """Whether observations are normalized by their running mean and variance."""
    value_normalization: bool = False
    """Whether the value function learns returns that are normalized by their running mean and variance."""
    schedule: Schedule = "adaptive"
    """Whether the learning rate follows the KL divergence."""
    kl_target: float = 0.01
    """Target KL divergence per update of the adaptive schedule."""
    clip: float = 0.2
    """Clipping range of the probability ratio, and of the value if it is clipped."""
    value_clip: bool = True
    """Whether the value loss is clipped."""
    value_coef: float = 1.0
    """Weight of the value loss."""
    max_grad_norm: float = 1.0
    """Largest gradient norm."""
    discount: float = 0.99
    """Discount factor per environment step."""
    gae_lambda: float = 0.95
    """Lambda of generalized advantage estimation."""
    timeout_bootstrap: bool = True
    """Whether the return of an episode that timed out is bootstrapped with the value of its last state.

    In tasks with a finite horizon (``env.is_finite_horizon``), a time-out is a normal end, and this field has no
    effect.
    """
    reward_scale: float = 1.0
    """Factor of the rewards that the learner sees; returns are reported without it."""
    initial_noise_std: float = 1.0
    """Initial standard deviation of the actions."""
    mixed_precision: bool = False
    """Whether the update computes in half precision where that is accurate enough."""
    torch_compile: bool = False
    """Whether the networks are compiled with ``torch.compile``."""

    def __post_init__(self) -> None:
        """Refuse values that no library could train with.

        Raises:
            ValueError: If a count or a rate is not positive, a factor lies outside 0..1, or a name is unknown.
        """
        for name, rule in self.rules.items():
            value = getattr(self, name)
            if wrong := rule(value):
                raise ValueError(f"recipe {self.experiment_name!r}: {name} {value!r}: {wrong}")
