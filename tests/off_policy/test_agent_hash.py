"""Equal configurations of an agent have equal hashes, and the hashes of recorded runs stay as they are."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ledger_lab.ledger import read_ledger
from ledger_lab.ledger.libraries import agent_key, dialect_of
from ledger_lab.training.runners.adapter import load_adapter
from tests.conftest import ROOT


def agent_sha256(task: str, library: str, overrides: Sequence[str], agent: str | None) -> str:
    """Return the hash of the agent that a run with these flags declares."""
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.configs import resolve_configs
    from ledger_lab.training.runners.description import hash_configs

    registered_tasks()
    adapter = load_adapter(library, agent)
    env_cfg, agent_cfg = resolve_configs(task, library, overrides, agent)
    return hash_configs(env_cfg, adapter.prepare(agent_cfg, "cpu"), adapter)["agent"]


def test_recorded_runs_keep_their_hashes() -> None:
    runs = [run.declared for run in read_ledger(ROOT / "records" / "ant-cpu").runs]
    declared = {(run.task, run.rl_library, tuple(run.overrides), run.agent): run.config_sha256["agent"] for run in runs}
    assert {library for _, library, *_ in declared} == {"rsl_rl", "rl_games", "skrl"}
    assert {flags: agent_sha256(*flags) for flags in declared} == declared


OWN_DEFAULTS = (
    *("agent.n_step=1", "agent.critic_layer_norm=false", "agent.policy_layer_norm=false"),
    *("agent.replay_on_host=false", "agent.update_every=1"),
)
"""Overrides of SKRL that repeat the defaults of settings of LedgerLab."""

LEARNERS: dict[tuple[str, str], tuple[tuple[str, ...], str]] = {
    ("skrl", "sac"): ((*OWN_DEFAULTS, "agent.entropy_target=-1"), "agent.n_step=3"),
    ("skrl", "td3"): (OWN_DEFAULTS, "agent.update_every=2"),
    ("rl_games", "sac"): (("agent.params.config.target_entropy_coef=1",), "agent.params.config.target_entropy_coef=2"),
}
"""Overrides that repeat defaults, and one that does not, by library and algorithm."""

each_learner = pytest.mark.parametrize(("library", "algorithm"), LEARNERS)


def cartpole_sha256(library: str, algorithm: str, *overrides: str) -> str:
    """Return the hash of the agent of a training of the cart-pole."""
    return agent_sha256("LedgerLab-Cartpole", library, overrides, agent_key(library, algorithm))


@each_learner
def test_a_default_on_the_command_line_gives_the_same_agent(library: str, algorithm: str) -> None:
    repeated, other = LEARNERS[library, algorithm]
    paths = {f"agent.{path}" for path in dialect_of(library, algorithm).optional}
    assert paths <= {override.partition("=")[0] for override in repeated}, "no default is left out here"
    plain, changed = cartpole_sha256(library, algorithm), cartpole_sha256(library, algorithm, other)
    assert cartpole_sha256(library, algorithm, *repeated) == plain != changed
    setting = other.partition("=")[0]
    (back,) = (override for override in repeated if override.startswith(f"{setting}="))
    assert cartpole_sha256(library, algorithm, other, back) == plain, "the last override of a setting counts"
    assert cartpole_sha256(library, algorithm, back, other) == changed
