"""New runs of the pack's tasks on a CPU declare MuJoCo's C code; every run keeps the engine that it declared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ledger_lab.ledger import CheckpointSaved, RunDeclared, StateSaved
from ledger_lab.ledger.find import find_run
from ledger_lab.tasks.pretrained import ROOT, shipped_checkpoint, shipped_tasks
from ledger_lab.training.request import TrainRequest
from ledger_lab.training.resume import Resumption

CARTPOLE, NATIVE, WARP = "LedgerLab-Cartpole", "physics=newton_mujoco", "physics=newton_mjwarp"


@pytest.fixture(scope="module", autouse=True)
def tasks() -> list[str]:
    """Register all tasks, and return their ids."""
    from ledger_lab.tasks.registry import registered_tasks

    return registered_tasks()


@pytest.mark.parametrize(
    ("overrides", "chosen"),
    [
        ((), (NATIVE,)),
        (("env.decimation=4", "env.sim.physics.num_substeps=2"), (NATIVE, "env.decimation=4")),
        ((NATIVE,), (NATIVE,)),
        ((WARP,), (WARP,)),
        (("env.sim.physics=ovphysx",), ("env.sim.physics=ovphysx",)),
        (("presets=newton_mjwarp",), ("presets=newton_mjwarp",)),
        (("presets=newton",), ("presets=newton",)),
        (("presets=fast",), (NATIVE, "presets=fast")),
    ],
)
def test_the_default_gives_way_to_every_choice_of_an_engine(
    overrides: tuple[str, ...], chosen: tuple[str, ...]
) -> None:
    from ledger_lab.training.runners.physics_engine import with_default_physics

    assert with_default_physics(CARTPOLE, overrides, "cpu")[: len(chosen)] == chosen
    assert with_default_physics(CARTPOLE, overrides, "cuda:0") == overrides
    assert with_default_physics("Isaac-Cartpole", overrides, "cpu") == overrides


def test_a_new_run_declares_its_engine_and_a_resumed_run_keeps_its_own(tmp_path: Path) -> None:
    from ledger_lab.training.plan import plan_training

    new = plan_training(TrainRequest(device="cpu", log_root=tmp_path)).declared
    assert (new.physics, new.overrides) == ("newton/mujoco", [NATIVE])
    for overrides, physics in (((), "newton/mjwarp"), ((NATIVE,), "newton/mujoco")):
        request = TrainRequest(device="cpu", log_root=tmp_path, overrides=overrides)
        old = replace(new, overrides=list(overrides), request=request.to_data())
        again = plan_training(request, resumed=resumption(tmp_path, old.run_id, request, new)).declared
        assert (again.physics, again.overrides) == (physics, list(overrides))


def resumption(folder: Path, run_id: str, request: TrainRequest, declared: RunDeclared) -> Resumption:
    """Return the second attempt of a run that declared a request."""
    state = StateSaved(sha256="a", size_bytes=1, iteration=1, env_steps=1, wall_ns=1)
    none: list[CheckpointSaved] = []
    return Resumption(
        run_dir=folder / run_id, declared=declared, request=request, attempt=2, state=state, saved_by=1,
        checkpoints=none, results=[], train_ns=0, evaluate_ns=0,
    )  # fmt: skip


@pytest.mark.parametrize("task", sorted(shipped_tasks()))
def test_shipped_policies_keep_the_engine_of_their_training(task: str) -> None:
    from ledger_lab.panels.physics import physics_name
    from ledger_lab.training.checkpoints.candidate import declared_configs

    run = find_run(str(ROOT / task), ROOT)
    env_cfg, _ = declared_configs(run)
    trained_with_warp = task == "LedgerLab-Lift-Cube-Franka"
    assert physics_name(env_cfg) == run.declared.physics == ("newton/mjwarp" if trained_with_warp else "newton/mujoco")
    assert shipped_checkpoint(task).is_file()
