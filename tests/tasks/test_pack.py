"""Every task of the pack is one task, whichever library trains it and whichever of its panels judges it."""

from __future__ import annotations

import json
import tempfile

import gymnasium as gym
import pytest

from ledger_lab.panels import PanelIdentity, find_panels, load_panel
from ledger_lab.tasks.pack import TASKS
from ledger_lab.wings import wing_part

PACK = (
    "LedgerLab-Ant",
    "LedgerLab-Cartpole",
    "LedgerLab-Cartpole-Direct",
    "LedgerLab-Humanoid",
    "LedgerLab-Lift-Cube-Franka",
    "LedgerLab-Navigation-Flat-AnymalC",
    "LedgerLab-Reach-Franka",
    "LedgerLab-Velocity-Flat-AnymalC",
    "LedgerLab-Velocity-Flat-Go2",
    "LedgerLab-Velocity-Rough-AnymalC",
)
PANELS = [load_panel(name) for name in find_panels()]


def test_these_are_all() -> None:
    import ledger_lab.tasks.registered  # noqa: F401 - registers

    assert tuple(sorted(name for name in gym.registry if name.startswith("LedgerLab-"))) == PACK
    assert {panel.task for panel in PANELS} == set(PACK)


@pytest.mark.parametrize("task", PACK)
def test_libraries_share_a_recipe_and_panels_keep_their_identity(task: str) -> None:
    from ledger_lab.ledger.libraries import LIBRARIES
    from ledger_lab.panels.checks import require_seedable
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.adapter import load_adapter
    from ledger_lab.training.runners.configs import resolve_configs
    from ledger_lab.training.runners.description import describe_simulation
    from ledger_lab.training.runners.session import held_out_config

    registered_tasks()
    plans, described = [], []
    for library, physics in zip(LIBRARIES, ("newton_mjwarp", "ovphysx", "newton_mjwarp"), strict=True):
        cfg, agent = resolve_configs(task, library, [f"physics={physics}"])
        require_seedable(cfg)
        plan = load_adapter(library).plan(agent)
        plans.append((plan.max_iterations, plan.horizon, plan.epochs, plan.effective_batch(cfg.scene.num_envs)))
        described.append(describe_simulation(held_out_config(cfg, 1 + len(described))))
    recipe = TASKS[task].recipe
    assert set(plans) == {
        (recipe.max_iterations, recipe.horizon, recipe.epochs, recipe.num_envs * recipe.horizon * recipe.epochs)
    }

    off_policy = wing_part("off-policy recipes")
    for other in () if off_policy is None else off_policy(task):
        assert other.num_envs == recipe.num_envs, f"{other.algorithm} trains in the environments that the task has"

    own = [panel for panel in PANELS if panel.task == task]
    assert gym.spec(task).kwargs["default_panel"] in [panel.name for panel in own]
    assert len({(panel.success_function, str(panel.success_params), panel.hold_s) for panel in own}) == 1
    ids = [[PanelIdentity.of(panel, simulation).id for panel in own] for simulation in described]
    assert ids[0] == ids[2], "the same physics engine, resolved again, with another number of slots"
    assert len({*ids[0], *ids[1]}) == 2 * len(own), "each panel and each engine has ids of its own"
    assert tempfile.gettempdir() not in json.dumps(described), "where a machine keeps its caches is nobody else's"


def test_the_order_of_observations_is_a_part_of_a_panels_identity() -> None:
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.configs import resolve_configs
    from ledger_lab.training.runners.description import describe_simulation
    from ledger_lab.training.runners.session import held_out_config

    registered_tasks()
    cfg, _ = resolve_configs("LedgerLab-Cartpole", "rsl_rl", [])
    before = describe_simulation(held_out_config(cfg, 1))
    terms = vars(cfg.observations.policy)
    terms["joint_pos"] = terms.pop("joint_pos")  # behind the other term
    after = describe_simulation(held_out_config(cfg, 1))
    assert before["order"].pop("observations") == ["policy.joint_pos", "policy.joint_vel"]
    assert after["order"].pop("observations") == ["policy.joint_vel", "policy.joint_pos"]
    assert before == after, "nothing but the order tells the two apart"


def test_a_task_is_registered_once() -> None:
    from ledger_lab.tasks.registration import register

    with pytest.raises(ValueError, match="LedgerLab-Cartpole is registered already"):
        register("LedgerLab-Cartpole", TASKS["LedgerLab-Cartpole"])
