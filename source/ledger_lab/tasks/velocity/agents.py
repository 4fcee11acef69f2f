"""The agents' configurations of the velocity tasks, translated from one recipe each."""

from isaaclab_rl.rsl_rl import RslRlOnPolicyRunnerCfg, RslRlSymmetryCfg
from isaaclab_tasks.core.velocity.mdp.symmetry import anymal

from ledger_lab.recipes.velocity import velocity
from ledger_lab.tasks.translations import translations

rsl_rl_flat_anymal_c, rl_games_flat_anymal_c, skrl_flat_anymal_c = translations(velocity("flat_anymal_c"))
rsl_rl_rough_anymal_c, rl_games_rough_anymal_c, skrl_rough_anymal_c = translations(velocity("rough_anymal_c"))
rsl_rl_flat_go2, rl_games_flat_go2, skrl_flat_go2 = translations(velocity("flat_go2"))


def rsl_rl_flat_anymal_c_with_symmetry() -> RslRlOnPolicyRunnerCfg:
    """Return RSL-RL's configuration that learns from every sample four times: as it is, and mirrored in both axes."""
    cfg = rsl_rl_flat_anymal_c()
    cfg.algorithm.symmetry_cfg = RslRlSymmetryCfg(
        use_data_augmentation=True, data_augmentation_func=anymal.compute_symmetric_states
    )
    return cfg
