"""The batch arithmetic of a recipe, known without the library, is that of the library's adapter."""

from __future__ import annotations

import pytest

from ledger_lab.ledger.libraries import LIBRARIES, dialect_of
from ledger_lab.studies.checks import recipe_batch
from ledger_lab.tasks.cartpole.recipe import CARTPOLE
from ledger_lab.tasks.registry import registered_tasks
from ledger_lab.training.runners import load_adapter


@pytest.mark.parametrize("library", sorted(LIBRARIES))
@pytest.mark.parametrize("changed", [{}, {"horizon": 64}, {"minibatches": 8}])
def test_it_is_what_the_adapter_plans(library: str, changed: dict[str, int]) -> None:
    from ledger_lab.training.runners.configs import resolve_configs

    registered_tasks()
    dialect, adapter = dialect_of(library), load_adapter(library)
    overrides = [f"{dialect.overrides[field]}={value}" for field, value in changed.items()]
    _, agent_cfg = resolve_configs("LedgerLab-Cartpole", library, overrides)
    planned, known = adapter.plan(adapter.prepare(agent_cfg, "cpu")), recipe_batch(library, CARTPOLE, overrides)
    assert known is not None
    assert (known.horizon, known.minibatches, known.epochs) == (planned.horizon, planned.minibatches, planned.epochs)
    assert (known.minibatch_setting, known.rows_per_env) == (planned.minibatch_setting, planned.rows_per_env)


@pytest.mark.parametrize(
    ("library", "override"),
    [
        ("rl_games", "agent.params.config.minibatch_size=16384"),
        ("rl_games", "agent.params.config.minibatch_size_per_env=7"),
        ("rsl_rl", "agent.algorithm.num_mini_batches=many"),
        ("rsl_rl", "agent.algorithm.num_mini_batches=0"),
        ("skrl", "presets=large"),
    ],
)
def test_what_only_the_library_understands_is_left_to_it(library: str, override: str) -> None:
    assert recipe_batch(library, CARTPOLE, [override]) is None
