"""SKRL's settings for the fields of a recipe of TD3 (skrl 2)."""

from __future__ import annotations

from ledger_lab.off_policy.recipe import Td3Recipe
from ledger_lab.off_policy.skrl.off_policy_dialect import off_policy_dialect
from ledger_lab.tasks.recipes.dialect import Setting

NOISE = ("exploration_noise", "target_noise", "target_noise_clip")
"""Fields of noise. LedgerLab keeps them, because the library's own settings do not follow the bound of the actions."""

POLICIES = ("policy", "target_policy")
"""Roles of the networks that choose actions."""

DIALECT = off_policy_dialect(
    Td3Recipe,
    policies=POLICIES,
    policy={"class": "DeterministicMixin"},
    agent={},
    settings={
        **{name: Setting(f"agent.{name}", "LedgerLab's own") for name in NOISE},
        "policy_delay": Setting("agent.agent.policy_delay"),
    },
    differences={
        "action_bound": "the library's policy is unbounded; LedgerLab squashes it with tanh",
        "noise of the actions": "the library adds the same noise in all environments; LedgerLab spreads it over them",
        "polyak": "applied at each gradient step of the policy",
    },
)
