"""What a user meets who brings their own task is named, with the way out."""

from __future__ import annotations

import dataclasses
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from ledger_lab.errors import UserError


def test_a_task_without_a_panel_is_told_how_to_write_one() -> None:
    from ledger_lab.panels.checks import task_panel

    with pytest.raises(UserError, match=r"scripts/new_panel\.py --task Own"):
        task_panel("Own", None)


def test_a_success_function_whose_module_is_missing_is_told_so() -> None:
    from ledger_lab.panels.panel import load_panel
    from ledger_lab.panels.predicate import resolve_success

    panel = dataclasses.replace(load_panel("cartpole_v1"), success_function="no_such_module:success")
    with pytest.raises(UserError, match=r"module 'no_such_module' of .* cannot be imported: ModuleNotFoundError"):
        resolve_success(panel)


def test_a_study_in_the_home_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ledger_lab.studies import load_study

    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "own.toml").write_text("version = 1\nseeds = [1]\n")
    assert load_study("~/own.toml").name == "own"


def test_isaac_labs_ground_is_answered_with_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    import isaaclab.sim as sim_utils

    from ledger_lab.assets import check

    monkeypatch.setattr(check, "check_file_path", lambda file: 0)
    with pytest.raises(UserError, match=r"env\.scene\.ground\.spawn: .* import GROUND_USD; ground = AssetBaseCfg"):
        check._require_file("env.scene.ground.spawn", sim_utils.GroundPlaneCfg().usd_path)


def test_a_broken_task_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from ledger_lab.tasks import registry

    broken = EntryPoint("theirs", "no_such_package.tasks", "isaaclab.tasks")
    monkeypatch.setattr(registry, "entry_points", lambda group: [broken])
    monkeypatch.setattr(registry, "load_external_tasks", broken.load)
    with pytest.raises(UserError, match=r"task package theirs \(entry point theirs = no_such_package\.tasks\) cannot"):
        registry.registered_tasks()


def test_a_task_on_isaac_sims_physics_gets_the_lines_that_configure_another(monkeypatch: pytest.MonkeyPatch) -> None:
    from isaaclab.envs import ManagerBasedRLEnvCfg

    from ledger_lab.runners import session

    monkeypatch.setattr(session, "validate_launch", lambda env_cfg, flags: (None, ["PhysxCfg"]))
    monkeypatch.setattr(session, "validate", lambda env_cfg: None)
    with pytest.raises(UserError, match=r"NewtonCfg\(solver_cfg=MJWarpSolverCfg\(\)\)\. Or OvPhysX: .*OvPhysxCfg\(\)"):
        session.require_runtime(ManagerBasedRLEnvCfg(), {})
