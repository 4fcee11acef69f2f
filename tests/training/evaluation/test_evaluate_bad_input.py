"""Impossible evaluations give an error of one line, and leave no row that looks like a score."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ledger_lab.errors import UserError
from ledger_lab.ledger import (
    CheckpointSaved,
    Journal,
    RunDeclared,
    find_journals,
    read_journal,
    read_ledger,
)
from ledger_lab.panels import find_panels
from tests.conftest import one_run_dir, script


def planned(*arguments: str | Path) -> Any:  # noqa: ANN401 - heavy type
    """Plan an evaluation as the command line says."""
    from ledger_lab.training.evaluation.plan import plan_evaluation
    from ledger_lab.training.evaluation.request import EvaluateRequest

    return plan_evaluation(EvaluateRequest.parse([*map(str, arguments), "--device", "cpu"]))


def retold(
    trained: Path, folder: Path, run_id: str, spoil: Callable[[Path], None] = lambda _: None, **changes: object
) -> Path:
    """Return the directory of a run like the trained one, which declares something else or saved something else."""
    source, directory = one_run_dir(trained), folder / run_id
    shutil.copytree(source, directory, ignore=shutil.ignore_patterns("journal-*"))
    spoil(directory)
    from ledger_lab.files import file_sha256

    with Journal(directory / "journal-1-0.jsonl") as journal:
        for row in read_journal(source / "journal-1-0.jsonl").rows:
            if isinstance(row, RunDeclared):
                row = replace(row, run_id=run_id, **changes)
            elif isinstance(row, CheckpointSaved):
                row = replace(row, sha256=file_sha256(directory / row.path))
            elif hasattr(row, "run_id"):
                row = replace(row, run_id=run_id)
            journal.append(row)
    return directory


def with_other(declared: RunDeclared, *parts: str) -> dict[str, Any]:
    """Return the panel fields that a run would have declared, had parts of its task been others."""
    fields = declared.panel_fields
    return {**fields, "environment_sha256": fields["environment_sha256"] | dict.fromkeys(parts, "0" * 64)}


def refused(complaint: str, root: Path, *arguments: str | Path) -> None:
    """Check that an evaluation is refused in one line, before anything is written."""
    before = find_journals(root)
    with pytest.raises(UserError, match=complaint) as raised:
        planned(*arguments)
    assert "\n" not in str(raised.value)
    assert find_journals(root) == before


def test_changed_code_is_refused_by_name_unless_allowed(trained: Path, tmp_path: Path) -> None:
    (run,) = read_ledger(trained).runs
    code = run.declared.scoring_code
    upright = "ledger_lab.tasks.cartpole.success"
    assert code == {upright: code[upright]}
    assert run.declared.panel_fields["code"] == {"ledger_lab:success": code[upright]}
    then = {upright: "0" * 64, "ledger_lab.tasks.cartpole.of_old": "0" * 64}
    negated = retold(trained, tmp_path, "a0000000", scoring_code=then)
    complaint = rf"code of task LedgerLab-Cartpole has changed since run a0000000 was declared: {upright}. Restore"
    refused(complaint, tmp_path, negated)
    assert planned(negated, "--panel", "cartpole_robust_v1").candidates[0].changed_code == {}, "another panel's code"
    assert planned(negated, "--allow_changed_code").candidates[0].changed_code == {upright: code[upright]}
    older = retold(trained, tmp_path, "b0000000", scoring_code=None)
    assert planned(older).candidates[0].changed_code == {}
    assert planned(one_run_dir(trained)).candidates[0].changed_code == {}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ["--sim", "agent.seed=1"],
            r"--sim 'agent.seed=1': only physics=NAME, env.PATH=VALUE, ground=held_out and ground=trained are",
        ),
        (["--sim", "fast"], r"--sim 'fast': only physics=NAME, env.PATH=VALUE"),
        (["--sim", "env.sim.dt='"], r"No closing quotation"),
        (["--sim", "env.decimatoin=4"], r"env has no 'decimatoin': did you mean 'decimation'"),
        (["--sim", "physics=ovphysics"], r"has no physics 'ovphysics': did you mean 'ovphysx'"),
        (["--sim", "physics=isaacsim_physx"], r"needs Isaac Sim, which is not installed here"),
        (["--sim", "ground=wet"], r"--sim 'ground=wet': only physics=NAME, env.PATH=VALUE, ground=held_out"),
        (["--sim", "ground=trained"], r"changes nothing about an episode: .* the one that run \w+ declared"),
        (["--sim", "env.scene.num_envs=8"], r"changes nothing about an episode: .* the one that run \w+ declared"),
        (["--sim", "physics=ovphysx", "--sim", "env.sim.physics=ovphysx"], r"the same simulation as --sim 'physics="),
        (["--target", "1.5"], r"--target 1.5: must be above 0"),
        (["--video", "0"], r"--video 0: must be at least 1"),
        (["--video", "1", "--viz", "rerun"], r"--viz rerun cannot record"),
        (["--panel", "cartpole_v2"], r"unknown panel 'cartpole_v2': did you mean 'cartpole_v1'"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_requests_that_cannot_be_carried_out_are_refused(trained: Path, arguments: list[str], complaint: str) -> None:
    refused(complaint, trained, one_run_dir(trained) / "model_2.pt", *arguments)


def test_comparisons_need_two_different_checkpoints_of_the_same_task(trained: Path, tmp_path: Path) -> None:
    run_dir = one_run_dir(trained)
    one, two = run_dir / "model_1.pt", run_dir / "model_2.pt"
    refused("is the same checkpoint: name another", trained, one, "--versus", one)
    refused("compares two checkpoints, but 2 are named before it", trained, one, two, "--versus", one)
    ant = retold(trained, tmp_path, "a0000000", task="LedgerLab-Ant")
    refused("different tasks.*: task: 'LedgerLab-Cartpole' != 'LedgerLab-Ant'", trained, one, "--versus", ant)


def test_each_checkpoint_of_a_run_in_two_places_is_read_from_its_own_place(trained: Path, tmp_path: Path) -> None:
    here = one_run_dir(trained)
    there = shutil.copytree(here, tmp_path / "again" / here.name)
    plan = planned(here / "model_1.pt", "--versus", there / "model_2.pt", "--log_root", tmp_path)
    assert [candidate.path for candidate in plan.candidates] == [here / "model_1.pt", there / "model_2.pt"]


def test_runs_of_different_simulations_panels_or_targets_are_refused(trained: Path, tmp_path: Path) -> None:
    run_dir = one_run_dir(trained)
    fields = planned(run_dir, "--sim", "physics=ovphysx").simulations[1].identity.fields
    other = retold(trained, tmp_path, "c0000000", overrides=["physics=ovphysx"], panel_fields=fields)
    refused("so the panel is not the same for both: .*physics.engine: 'newton", tmp_path, run_dir, other)
    harder = retold(trained, tmp_path, "d0000000", target_success=0.95)
    refused("declared different targets .0.9, 0.95.: choose one with --target", tmp_path, run_dir, harder)
    assert planned(harder).panel.target_success == 0.95
    assert planned(run_dir, harder, "--target", "0.5").panel.target_success == 0.5
    elsewhere = retold(trained, tmp_path, "e0000000", panel="mine")
    refused("declared different panels .cartpole_v1, mine.: choose one with --panel", tmp_path, run_dir, elsewhere)
    # Scores do not depend on rewards, and nothing remains of another engine's settings.
    engine = "physics=newton_mujoco"
    alike = retold(trained, tmp_path, "f0000000", overrides=[engine, "env.rewards.pole_pos.weight=-2"])
    assert len(planned(run_dir, alike).candidates) == 6
    tuned = retold(trained, tmp_path, "90000000", overrides=[engine, "env.sim.physics.solver_cfg.njmax=10"])
    plan = planned(tuned, "--sim", "physics=ovphysx", "--panel", panel_file(tmp_path))
    assert plan.simulations[1].identity.fields["physics"]["engine"] == "ovphysx"


def test_a_policy_whose_observations_changed_is_refused_on_every_panel(trained: Path, tmp_path: Path) -> None:
    (run,) = read_ledger(trained).runs
    drifted = retold(trained, tmp_path, "80000000", panel_fields=with_other(run.declared, "observations"))
    refused("panel cartpole_v1 has changed since run 80000000 declared it", tmp_path, drifted)
    complaint = "since run 80000000 was trained, so its policy would see or do something else: observations: "
    refused(complaint, tmp_path, drifted, "--panel", "cartpole_robust_v1")


def panel_file(folder: Path, old: str = "", new: str = "") -> Path:
    """Write a copy of the run's panel, changed."""
    text = find_panels()["cartpole_v1"].read_text()
    assert old in text
    path = folder / "mine.toml"
    path.write_text(text.replace(old, new))
    return path


def test_a_panel_that_changed_since_the_run_declared_it_is_refused(trained: Path, tmp_path: Path) -> None:
    declared = read_journal(one_run_dir(trained) / "journal-1-0.jsonl").of(RunDeclared)[0]
    path = panel_file(tmp_path)
    run = retold(trained, tmp_path, "a0000000", panel=str(path), panel_fields=declared.panel_fields)
    refused(rf"declared the panel file {path}, whose success function is Python code", tmp_path, run)
    assert planned(run, "--panel", path).panel.source == planned(run, "--trust_run").panel.source == str(path)
    panel_file(tmp_path, "tolerance_rad = 0.2", "tolerance_rad = 0.3")
    refused(
        r"has changed since run a0000000 declared it.*success.params.tolerance_rad: 0.3 != 0.2",
        tmp_path,
        run,
        "--trust_run",
    )
    panel_file(tmp_path, "success:pole_upright", "success:pole_up")
    refused("has no attribute 'pole_up'", tmp_path, run, "--trust_run")
    path.unlink()
    refused("cannot read panel file", tmp_path, run, "--trust_run")


def test_a_changed_checkpoint_is_refused(trained: Path, tmp_path: Path) -> None:
    run = retold(trained, tmp_path, "a0000000")
    (run / "model_1.pt").write_bytes(b"not a checkpoint")
    refused("SHA-256", tmp_path, run)
    (run / "model_1.pt").unlink()
    refused("No such file", tmp_path, run)


def smaller_network(run_dir: Path) -> None:
    """Put a policy of another shape where a checkpoint was."""
    import torch

    content = torch.load(run_dir / "model_1.pt", weights_only=True)
    actor = content["actor_state_dict"]
    for name, value in actor.items():
        if value.dim() == 2:
            actor[name] = value[:, : value.shape[1] // 2].clone()
    torch.save(content, run_dir / "model_1.pt")


def test_a_network_of_another_shape_gives_one_line_and_no_score(trained: Path, tmp_path: Path) -> None:
    run = retold(trained, tmp_path, "a0000000", smaller_network)
    finished = script("evaluate", run / "model_2.pt", run / "model_1.pt", "--log_root", tmp_path, "--device", "cpu")
    assert finished.returncode == 2, finished.stdout + finished.stderr
    (error,) = [line for line in finished.stdout.splitlines() if line.startswith("error: ")]
    assert "model_1.pt cannot be loaded as a policy of RSL-RL" in error and "size mismatch for" in error
    assert "Traceback" not in finished.stdout + finished.stderr
    assert not [path for path in find_journals(tmp_path) if "evaluation" in path.name], "a refusal leaves no row"


def test_a_supervisor_that_cannot_write_gives_a_user_error(trained: Path, tmp_path: Path) -> None:
    from ledger_lab.ledger.meters.phases import PhaseClock
    from ledger_lab.reports.terminal.console import Terminal
    from ledger_lab.training.evaluation.run import _carry_out
    from ledger_lab.training.supervision.attempt import Link

    class Refusing(Link):
        def __init__(self) -> None:
            pass

        def begin(self, *arguments: object) -> None:
            raise OSError("OSError: [Errno 28] No space left on device")

    plan = planned(retold(trained, tmp_path, "aaaaaaaa"))
    terminal = Terminal(quiet_libraries=False)
    try:
        with pytest.raises(UserError, match=r"cannot write to the directory of a run: OSError: \[Errno 28\] No space"):
            _carry_out(plan, terminal, PhaseClock(0), Refusing())
    finally:
        terminal.restore()


def test_overrides_that_name_code_need_trust_run(trained: Path, tmp_path: Path) -> None:
    override = "env.events.reset_scene.func=os:system"
    run = retold(trained, tmp_path, "b0000000", overrides=[override])
    refused(f"run b0000000 declared '{override}', which may run Python code", tmp_path, run)
