"""Refusals of a user's own task name the fault and the way out."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from pathlib import Path

import pytest

from ledger_lab.errors import UserError
from ledger_lab.panels import find_panels
from tests.conftest import command


def test_the_refusal_of_a_task_without_a_panel_says_how_to_write_a_panel() -> None:
    from ledger_lab.panels.checks import task_panel

    with pytest.raises(UserError, match=r"scripts/new_panel\.py --task Own"):
        task_panel("Own", None)


def test_a_success_function_whose_module_is_missing_is_told_so() -> None:
    from ledger_lab.panels.panel import load_panel
    from ledger_lab.panels.predicate import resolve_success

    panel = dataclasses.replace(load_panel("cartpole_v1"), success_function="no_such_module:success")
    with pytest.raises(UserError, match=r"module 'no_such_module' of .* cannot be imported: ModuleNotFoundError"):
        resolve_success(panel)


PACKAGE = """
import gymnasium as gym
import isaaclab.envs

{}
from ledger_lab.tasks.cartpole.recipe import CARTPOLE
from ledger_lab.tasks.registered import agent_entry_points


def register(task, env_cfg):
    gym.register(
        id=task,
        entry_point="isaaclab.envs:ManagerBasedRLEnv",
        kwargs={{
            "env_cfg_entry_point": f"theirs.cfg:{{env_cfg}}",
            **agent_entry_points(CARTPOLE),
            "default_panel": "theirs.toml",
        }},
    )


register("Theirs-v0", "broken")
register({}, "broken")
"""

CONFIGURATION = """
from ledger_lab.tasks.cartpole.env_cfg import CartpoleEnvCfg


def broken():
    cfg = CartpoleEnvCfg()
    cfg.no_such_part.weight = 1.0
    return cfg
"""


def install(site: Path, imports: str = "", second: str = '"Theirs-v1"') -> dict[str, str]:
    """Write a package of tasks with its entry point, as pip installs it, and return variables that let it be found."""
    info = site / "theirs-1.0.dist-info"
    for folder in (site / "theirs", info):
        folder.mkdir(parents=True)
    (site / "theirs" / "__init__.py").write_text(PACKAGE.format(imports, second))
    (site / "theirs" / "cfg.py").write_text(CONFIGURATION)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[isaaclab.tasks]\ntheirs = theirs\n")
    panel = find_panels()["cartpole_v1"]
    (site / "theirs.toml").write_text(panel.read_text().replace("LedgerLab-Cartpole", "Theirs-v0"))
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])}


def run(environment: dict[str, str], name: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(name, *arguments), env=environment, cwd=cwd, capture_output=True, text=True, check=False
    )


def test_a_broken_task_package_is_named_and_blocks_no_other_task(tmp_path: Path) -> None:
    environment = install(tmp_path, imports="import no_such_library")
    listed = run(environment, "list_envs", "--all", "--keyword", "cartpole", cwd=tmp_path)
    assert listed.returncode == 0, listed.stderr
    assert "LedgerLab-Cartpole" in listed.stdout
    assert listed.stderr == (
        "warning: task package theirs (entry point theirs = theirs) cannot be imported: ModuleNotFoundError: No module "
        f"named 'no_such_library' ({tmp_path / 'theirs' / '__init__.py'}:5); its tasks are left out\n"
    )


@pytest.mark.thorough  # the broken package shows the same way
def test_a_task_that_shadows_another_is_refused_by_name(tmp_path: Path) -> None:
    environment = install(tmp_path, second='"LedgerLab-Cartpole"')
    refused = run(environment, "train", "--log_root", "logs", cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == (
        "error: task LedgerLab-Cartpole is registered twice: task package theirs (entry point theirs = theirs) "
        "registers it again. Rename the task in that package, or uninstall the package\n"
    )
    assert not (tmp_path / "logs").exists()


@pytest.mark.thorough  # it imports Isaac Lab
def test_an_error_in_a_configuration_is_one_line_that_names_the_users_line(tmp_path: Path) -> None:
    environment = install(tmp_path)
    refused = run(environment, "train", "--task", "Theirs-v0", cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == (
        "error: task Theirs-v0: its env_cfg_entry_point, theirs.cfg:broken, fails: AttributeError: 'CartpoleEnvCfg' "
        f"object has no attribute 'no_such_part' ({tmp_path / 'theirs' / 'cfg.py'}:7)\n"
    )


def test_ledger_labs_ground_takes_the_place_of_isaac_labs(monkeypatch: pytest.MonkeyPatch) -> None:
    import isaaclab.sim as sim_utils
    from isaaclab.assets import AssetBaseCfg
    from isaaclab.utils import assets

    from ledger_lab.tasks.assets import GROUND_USD
    from ledger_lab.tasks.assets.local import require_files, use_local_ground
    from ledger_lab.tasks.cartpole.env_cfg import CartpoleEnvCfg

    def ask_the_network(path: str) -> None:
        raise AssertionError(f"the network was asked for {path}")

    monkeypatch.setattr(assets, "_remote_fingerprint", ask_the_network)
    env_cfg = CartpoleEnvCfg()
    material = sim_utils.RigidBodyMaterialCfg(static_friction=0.7)
    spawn = sim_utils.GroundPlaneCfg(physics_material=material, color=(1.0, 0.0, 0.0))
    env_cfg.scene.ground = AssetBaseCfg(prim_path="/World/ground", spawn=spawn)
    use_local_ground(env_cfg)
    require_files(env_cfg)
    spawn = env_cfg.scene.ground.spawn  # configurations copy their parts
    assert (spawn.usd_path, spawn.color, spawn.physics_material) == (str(GROUND_USD), None, material)


def test_a_ground_of_the_users_own_file_stays(tmp_path: Path) -> None:
    import isaaclab.sim as sim_utils
    from isaaclab.assets import AssetBaseCfg

    from ledger_lab.tasks.assets.local import use_local_ground
    from ledger_lab.tasks.cartpole.env_cfg import CartpoleEnvCfg

    env_cfg, own = CartpoleEnvCfg(), sim_utils.GroundPlaneCfg(usd_path="/own/ground.usd")
    env_cfg.scene.ground = AssetBaseCfg(prim_path="/World/ground", spawn=own)
    use_local_ground(env_cfg)
    assert env_cfg.scene.ground.spawn.usd_path == "/own/ground.usd"


def test_a_task_on_isaac_sims_physics_gets_the_lines_that_configure_another() -> None:
    from isaaclab.sim import SimulationCfg

    from ledger_lab.tasks.cartpole.env_cfg import CartpoleEnvCfg
    from ledger_lab.training.runners.session import require_runtime

    env_cfg = CartpoleEnvCfg()
    env_cfg.sim.physics = SimulationCfg().physics  # what a task has that says nothing
    with pytest.raises(UserError, match=r"NewtonCfg\(solver_cfg=MJWarpSolverCfg\(\)\)\. Or OvPhysX: .*OvPhysxCfg\(\)"):
        require_runtime(env_cfg, {})
