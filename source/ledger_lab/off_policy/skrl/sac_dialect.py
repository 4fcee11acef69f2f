"""SKRL's settings for the fields of a recipe of soft actor-critic (skrl 2)."""

from __future__ import annotations

from ledger_lab.off_policy.recipe import SacRecipe
from ledger_lab.off_policy.skrl.off_policy_dialect import off_policy_dialect, own_setting
from ledger_lab.tasks.recipes.dialect import Setting

DIALECT = off_policy_dialect(
    SacRecipe,
    policies=("policy",),
    policy={"class": "GaussianMixin", "initial_log_std": 0.0},
    agent={"learn_entropy": True},
    settings={
        "initial_entropy_coef": Setting("agent.agent.initial_entropy_value"),
        "entropy_target": own_setting("entropy_target"),
    },
    differences={
        "action_bound": "the library samples from an unbounded Gaussian; LedgerLab squashes it with tanh",
        "polyak": "applied at each gradient step",
        "noise of the actions": "one learned standard deviation per action, the same in all states",
    },
)
