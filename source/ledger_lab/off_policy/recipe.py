"""Library-neutral recipes for learning from a replay memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ledger_lab.tasks.recipes.ppo import RULES as PPO_RULES
from ledger_lab.tasks.recipes.ppo import Activation
from ledger_lab.tasks.recipes.settings import Rule, count, count_or_zero, finite, not_negative, positive, share


def _switch(value: Any) -> str | None:  # noqa: ANN401 - whatever stands in a configuration
    """Accept true and false."""
    return None if isinstance(value, bool) else "must be true or false"


OPTIONS = ("n_step", "critic_layer_norm", "policy_layer_norm", "replay_on_host", "update_every")
"""Fields that no library has. LedgerLab adds them to some, and the others train with their defaults."""

_SHARED_RULES: Mapping[str, Rule] = {
    **{
        name: PPO_RULES[name]
        for name in (
            *("num_envs", "max_iterations", "save_interval", "horizon", "hidden_dims", "learning_rate", "activation"),
            *("discount", "reward_scale"),
        )
    },
    "action_bound": positive,
    "replay_steps": count,
    "random_steps": count_or_zero,
    "warm_up_steps": count_or_zero,
    "batch_size": count,
    "updates_per_step": count,
    "update_every": count,
    "polyak": share,
    "n_step": count,
    **dict.fromkeys(("critic_layer_norm", "policy_layer_norm", "replay_on_host"), _switch),
}
"""Rules for the values of fields that all off-policy recipes have; the other fields are free names and switches. They
are those of PPO where the fields are."""


def _noise_range(value: Any) -> str | None:  # noqa: ANN401 - whatever stands in a configuration
    """Accept a smallest and a largest standard deviation."""
    fits = isinstance(value, list | tuple) and len(value) == 2 and not any(map(not_negative, value))
    return None if fits and value[0] <= value[1] else "must be two finite numbers of at least 0, the smaller one first"


@dataclass(frozen=True, kw_only=True)
class OffPolicyRecipe:
    """Hyperparameters that every algorithm with a replay memory has, on one task family."""

    algorithm: ClassVar[str]
    """Name on the command line."""
    rules: ClassVar[Mapping[str, Rule]] = _SHARED_RULES
    """Rules for the values of fields; the other fields are free names and switches."""

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
    """Step size of Adam, for everything that is learned."""
    action_bound: float
    """Largest absolute value of each action, before the task scales it. Isaac Lab's action spaces are unbounded, and
    these algorithms need a bound. The bound decides how the policy explores: take the joints' limits divided by the
    scale of the action term (bounds from joint limits: Sabatini et al. 2026, arXiv:2605.24975), or the range that a
    trained policy of PPO uses (percentiles: Raffin 2025, https://araffin.github.io/post/tune-sac-isaac-sim). One number
    for all actions is our choice, because rl_games has one; Raffin has two for each."""
    replay_steps: int
    """Most recent steps of each environment that the replay memory holds."""
    random_steps: int
    """Steps at the start in which actions are drawn uniformly within the bound, so that the first transitions do not
    depend on the first weights (the paper of TD3; Fujimoto et al. 2018, arXiv:1802.09477)."""
    warm_up_steps: int
    """Steps before the first update, which fill the replay memory (Mnih et al. 2015, doi:10.1038/nature14236)."""
    batch_size: int
    """Transitions per gradient step. Many environments add many transitions per step, so batches are larger than the
    256 of the papers (Seo et al. 2025, arXiv:2505.22642)."""
    updates_per_step: int = 1
    """Gradient steps of the critics after each step of all environments; see also :attr:`update_every`."""
    activation: Activation = "relu"
    """Activation between the layers; that of the papers."""
    observation_normalization: bool = False
    """Whether observations are normalized by their running mean and variance."""
    discount: float = 0.99
    """Discount factor per environment step; that of the papers."""
    polyak: float = 0.005
    """Share of the networks that their target networks take over at a time; that of the papers."""
    reward_scale: float = 1.0
    """Factor of the rewards that the learner sees; returns are reported without it."""
    n_step: int = 1
    """Rewards in the target of a value, before the value of a later observation takes over. Fewer where the episode
    ends or the newest step is reached. The default is that of the papers; Seo et al. 2025 (arXiv:2505.22642) use 1 or
    3. The rewards are not corrected for the policy having changed since."""
    critic_layer_norm: bool = False
    """Whether the critics normalize the inputs of their activations (Ba et al. 2016, arXiv:1607.06450), which limits
    their values for actions that are not in the replay memory (Ball et al. 2023, arXiv:2302.02948)."""
    policy_layer_norm: bool = False
    """Whether the policy does so, too."""
    replay_on_host: bool = False
    """Whether the replay memory of a training on a GPU is in the memory of the host, which is often larger. Each batch
    then reaches the GPU through pinned memory. In a training on a CPU, it is there anyway."""
    update_every: int = 1
    """Steps of all environments from one group of :attr:`updates_per_step` gradient steps to the next. With 2, there
    are half as many gradient steps. :attr:`horizon` must be a multiple of it. The default is that of the papers; Mnih
    et al. 2015 (doi:10.1038/nature14236) use 4."""

    def __post_init__(self) -> None:
        """Refuse values that no library could train with.

        Raises:
            ValueError: If a count or a rate is not positive, a factor lies outside 0..1, or a name is unknown.
        """
        for name, rule in self.rules.items():
            value = getattr(self, name)
            if wrong := rule(value):
                raise ValueError(f"recipe {self.experiment_name!r}: {name} {value!r}: {wrong}")


def reachable_entropy(value: Any) -> str | None:  # noqa: ANN401 - whatever stands in a configuration
    """Accept entropies below that of uniformly distributed actions, which is the largest."""
    if wrong := finite(value):
        return wrong
    return None if value < math.log(2) else "must be below ln 2 = 0.693, the entropy of uniform actions"


@dataclass(frozen=True, kw_only=True)
class SacRecipe(OffPolicyRecipe):
    """Hyperparameters of soft actor-critic (SAC; Haarnoja et al. 2018, arXiv:1812.05905) on one task family.

    The target critics follow the critics at each gradient step.
    """

    algorithm: ClassVar[str] = "sac"
    rules: ClassVar[Mapping[str, Rule]] = {
        **_SHARED_RULES,
        "initial_entropy_coef": positive,
        "entropy_target": reachable_entropy,
    }

    initial_entropy_coef: float = 0.2
    """Weight of the entropy at the start. It is learned, so that the entropy of the actions reaches
    :attr:`entropy_target`."""
    entropy_target: float = -1.0
    """Entropy of the policy that is aimed at, per action [nat], of actions as shares of the bound. The default is that
    of the paper."""


@dataclass(frozen=True, kw_only=True)
class Td3Recipe(OffPolicyRecipe):
    """Hyperparameters of twin delayed deterministic policy gradients (TD3; Fujimoto et al. 2018, arXiv:1802.09477).

    The target networks follow their networks whenever the policy is updated. All noise is given as a share of
    :attr:`action_bound`.
    """

    algorithm: ClassVar[str] = "td3"
    rules: ClassVar[Mapping[str, Rule]] = {
        **_SHARED_RULES,
        "exploration_noise": _noise_range,
        "target_noise": not_negative,
        "target_noise_clip": not_negative,
        "policy_delay": count,
    }

    exploration_noise: tuple[float, float] = (0.1, 0.1)
    """Smallest and largest standard deviation of the Gaussian noise that is added to actions. Each environment keeps
    one value; the values are spread evenly over the range, as in parallel Q-learning (Li et al. 2023,
    arXiv:2307.12983). The default is the noise of the paper of TD3, the same in all environments."""
    target_noise: float = 0.2
    """Standard deviation of the noise that is added to the target policy's actions; that of the paper."""
    target_noise_clip: float = 0.5
    """Largest absolute value of that noise; that of the paper."""
    policy_delay: int = 2
    """Gradient steps of the critics for each gradient step of the policy; that of the paper."""
