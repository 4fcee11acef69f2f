"""RSL-RL's settings for the fields of a recipe (rsl-rl-lib 5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ledger_lab.tasks.recipes.dialect import Dialect, Only, Setting
from ledger_lab.tasks.recipes.ppo import DEFAULT_SEED, PpoRecipe
from ledger_lab.tasks.recipes.settings import one_of, or_none, positive, widths

if TYPE_CHECKING:
    from isaaclab_rl.rsl_rl import RslRlOnPolicyRunnerCfg


def _widths(value: Any) -> str | None:  # noqa: ANN401 - whatever stands in a configuration
    """Accept layer widths, and -1 for the number of inputs."""
    is_list = isinstance(value, list | tuple)
    return widths([1 if width == -1 else width for width in value] if is_list else value)


def native_config(recipe: PpoRecipe, symmetry: Callable[..., Any] | None = None) -> RslRlOnPolicyRunnerCfg:
    """Return a recipe as Isaac Lab's configuration of RSL-RL, which its own commands accept, too.

    Args:
        recipe: The recipe.
        symmetry: Function that mirrors samples, so that the policy also learns from mirrored samples; see
            ``RslRlSymmetryCfg``.
    """
    from isaaclab_rl.rsl_rl import RslRlMLPModelCfg, RslRlOnPolicyRunnerCfg, RslRlPpoAlgorithmCfg, RslRlSymmetryCfg

    fields = DIALECT.translate(recipe)
    noise = RslRlMLPModelCfg.GaussianDistributionCfg(**fields["actor"]["distribution_cfg"])
    fields["actor"] = RslRlMLPModelCfg(**{**fields["actor"], "distribution_cfg": noise})
    fields["critic"] = RslRlMLPModelCfg(**fields["critic"])
    fields["algorithm"] = RslRlPpoAlgorithmCfg(**fields["algorithm"])
    if symmetry is not None:
        fields["algorithm"].symmetry_cfg = RslRlSymmetryCfg(use_data_augmentation=True, data_augmentation_func=symmetry)
    return RslRlOnPolicyRunnerCfg(**fields)


DIALECT = Dialect(
    library="rsl_rl",
    title="RSL-RL",
    seed="agent.seed",
    settings={
        "experiment_name": Setting("agent.experiment_name"),
        "max_iterations": Setting("agent.max_iterations"),
        "save_interval": Setting("agent.save_interval"),
        "horizon": Setting("agent.num_steps_per_env"),
        "epochs": Setting("agent.algorithm.num_learning_epochs"),
        "minibatches": Setting("agent.algorithm.num_mini_batches"),
        "hidden_dims": Setting("agent.actor.hidden_dims", "and the critic's", ("agent.critic.hidden_dims",), _widths),
        "activation": Setting("agent.actor.activation", "and the critic's", ("agent.critic.activation",)),
        "observation_normalization": Setting(
            "agent.actor.obs_normalization", "and the critic's", ("agent.critic.obs_normalization",)
        ),
        "learning_rate": Setting("agent.algorithm.learning_rate"),
        "schedule": Setting("agent.algorithm.schedule"),
        "kl_target": Setting("agent.algorithm.desired_kl", rule=or_none(positive)),
        "clip": Setting("agent.algorithm.clip_param"),
        "value_clip": Setting("agent.algorithm.use_clipped_value_loss"),
        "value_coef": Setting("agent.algorithm.value_loss_coef"),
        "entropy_coef": Setting("agent.algorithm.entropy_coef"),
        "max_grad_norm": Setting("agent.algorithm.max_grad_norm"),
        "discount": Setting("agent.algorithm.gamma"),
        "gae_lambda": Setting("agent.algorithm.lam"),
        "initial_noise_std": Setting("agent.actor.distribution_cfg.init_std"),
        "mixed_precision": Setting("agent.algorithm.use_mixed_precision"),
        "torch_compile": Setting(
            "agent.torch_compile_mode",
            "`default` or none",
            rule=one_of("default", "max-autotune-no-cudagraphs", None),
            write=lambda recipe: "default" if recipe.torch_compile else None,
        ),
    },
    only={
        "value_normalization": Only(False, "it cannot normalize returns; scale the weights of the rewards"),
        "reward_scale": Only(1.0, "it cannot scale rewards; scale the weights of the rewards"),
        "timeout_bootstrap": Only(True, "the environment decides, not the agent; set env.is_finite_horizon"),
    },
    template=lambda recipe: {"seed": DEFAULT_SEED},
    native=native_config,
)
