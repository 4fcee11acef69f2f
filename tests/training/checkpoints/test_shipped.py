"""Policies that come with the package belong to recorded runs, and can be used like the policy of any run."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import ledger_lab.tasks.pretrained
from ledger_lab.errors import UserError
from ledger_lab.ledger import PanelResult, find_journals, read_ledger
from ledger_lab.ledger.content import open_journal
from ledger_lab.reports import summarize_run
from ledger_lab.reports.audit import broken_verdicts
from ledger_lab.tasks.exported import CONTRACT, POLICY
from ledger_lab.tasks.pack import TASKS
from ledger_lab.tasks.pretrained import shipped_checkpoint, shipped_policy, shipped_tasks
from tests.conftest import ROOT, one_run_dir, script
from tests.training.checkpoints.conftest import Exported
from tests.training.evaluation.test_evaluate_bad_input import retold

TASK = "LedgerLab-Cartpole"
HERE = ledger_lab.tasks.pretrained.ROOT


def planned(*arguments: str | Path) -> Any:  # noqa: ANN401 - heavy type
    """Plan an evaluation as the command line says."""
    from ledger_lab.training.evaluation.plan import plan_evaluation
    from ledger_lab.training.evaluation.request import EvaluateRequest

    return plan_evaluation(EvaluateRequest.parse([*map(str, arguments), "--device", "cpu"]))


def shipped(*arguments: str | Path) -> Path:
    """Ship a policy as the command line says."""
    from tools.ship_policy import ship_policy

    return ship_policy([*map(str, arguments)])


def move_root(monkeypatch: pytest.MonkeyPatch, root: Path) -> Path:
    """Let the package's policies lie in another folder, which tests may spoil."""
    for module in ("ledger_lab.tasks.pretrained", "ledger_lab.training.checkpoints.shipped", "tools.ship_policy"):
        monkeypatch.setattr(f"{module}.ROOT", root)
    return root


@pytest.fixture
def copy_of_shipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The policy of the cart-pole, as a test may spoil it."""
    return shutil.copytree(HERE / TASK, move_root(monkeypatch, tmp_path / "package") / TASK)


def contents(root: Path) -> dict[Path, bytes]:
    """Return all files below a folder, but for byte code."""
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file() and path.suffix != ".pyc"}


def test_every_task_has_a_shipped_policy_of_a_recorded_run() -> None:
    recorded = {
        run.declared.task for run in read_ledger(ROOT / "records").runs if run.declared.task.startswith("Ledger")
    }
    assert shipped_tasks() == sorted(TASKS) == sorted(recorded)


def test_a_policy_of_an_older_version_is_scored_on_trained_ground_and_on_held_out_ground_if_asked(
    tmp_path: Path,
) -> None:
    shipped = HERE / "LedgerLab-Velocity-Rough-AnymalC"
    held_out, trained = planned(shipped, "--sim", "ground=trained", "--log_root", tmp_path / "logs").simulations
    assert held_out.identity.id == read_ledger(shipped).runs[0].declared.panel_id
    assert held_out.identity.fields["ground"] == "held_out"
    declared = {"panel_id": trained.identity.id, "panel_fields": trained.identity.fields}
    older = retold(shipped, tmp_path, "a0000000", world_size=1, **declared)
    plan = planned(older, "--sim", "ground=held_out", "--log_root", tmp_path / "logs")
    assert [each.identity.id for each in plan.simulations] == [trained.identity.id, held_out.identity.id]
    rows = [each.config(4).scene.terrain.terrain_generator.num_rows for each in plan.simulations]
    assert rows == [5, 15], "five levels of each ground, and 40 m between them"


RECORDED_EARLIER = {"LedgerLab-Lift-Cube-Franka"}
"""Tasks whose policy comes from a training that only earlier commits have in ``records/`` (see its README)."""


@pytest.mark.parametrize("task", shipped_tasks())
def test_a_shipped_policy_equals_the_recorded_checkpoint_and_can_be_scored(task: str) -> None:
    plan = planned("--task", task, "--pretrained")
    (candidate,) = plan.candidates
    ledger = read_ledger(HERE / task)
    assert [*broken_verdicts(ledger)] == [], "its excerpt leaves out proofs, and agrees with the rule"
    (run,) = ledger.runs
    best = summarize_run(run).best
    assert best is not None and (run.declared.task, candidate.saved.path) == (task, best.path)
    assert candidate.run.directory == HERE / task and not candidate.run_dir.is_relative_to(HERE)
    contract = json.loads((HERE / task / CONTRACT).read_text())
    assert contract["policy"]["checkpoint_sha256"] == candidate.saved.sha256
    assert contract["policy"].get("began_from") == run.declared.began_from
    for action in contract["actions"]:
        if action["class"].endswith(":WalkingPolicyAction"):  # another policy's, which the contract tells by its hash
            from ledger_lab.tasks.navigation.frozen import WALKING_POLICY

            walker = hashlib.sha256(WALKING_POLICY.read_bytes()).hexdigest()
            assert (action["law"], action["settings"]["policy_path"]) == (None, f"sha256:{walker}")
            continue
        if action["class"].endswith("._apply_action"):  # a direct task's, which no manager describes
            assert action["law"] is None
            continue
        assert action["law"] in ("affine", "binary")
        if action["class"].endswith(":RelativeJointPositionAction"):
            assert action["relative_to"] == {"data": "joint_pos", "read_hz": contract["rates"]["physics_hz"]}
    assert shipped_policy(task) == HERE / task / POLICY
    journals = [path.relative_to(HERE / task) for path in find_journals(HERE / task)]
    expected = {*journals, Path(CONTRACT), Path(POLICY), Path(candidate.saved.path)}
    assert {path.relative_to(HERE / task) for path in contents(HERE / task)} == expected
    homes = {path.parent for path in find_journals(ROOT / "records") if run.declared.run_id in path.parent.name}
    if task in RECORDED_EARLIER:
        assert not homes, "records/ has newer trainings of this task"
        return
    (home,) = homes
    (recorded,) = read_ledger(home).runs
    whole, short = summarize_run(recorded), summarize_run(run)
    assert short.host is None, "no telemetry is kept, and no figure is made up"
    (kept,) = [each for each in whole.checkpoints if each.path == best.path]
    assert (short.evaluation_afterwards_s, short.evaluation_afterwards_usd) == (None, None), "no evaluation is kept"
    assert (
        dataclasses.replace(
            short,
            panel_id=whole.panel_id,  # a record keeps the panel id of its time, which did not tell the code
            measured_by=whole.measured_by,
            configuration=whole.configuration,  # contains the panel id
            training=whole.training,
            host=whole.host,
            checkpoints=whole.checkpoints,
            evaluation_afterwards_s=whole.evaluation_afterwards_s,
            evaluation_afterwards_usd=whole.evaluation_afterwards_usd,
        )
        == whole
    )
    assert short.checkpoints == [kept]
    rows = {_without_chain(line) for path in find_journals(home) for line in lines_of(path)}
    for path in find_journals(HERE / task):
        copied = [line for line in lines_of(path) if b'"kind":"PhaseWindow"' not in line]
        assert {_without_chain(line) for line in copied} <= rows, "no row says what the recorded run did not"


def lines_of(path: Path) -> list[bytes]:
    """Return the lines of a journal."""
    with open_journal(path) as file:
        return file.readlines()


def _without_chain(line: bytes) -> str:
    """Return time, kind and data of a line, without its chain to other lines and journals, and without its panel's id.

    The panel ids of shipped policies have been converted: they tell code and spacing, and name functions of LedgerLab
    without their modules. Those of records have not.
    """
    row, converted = json.loads(line), ("anchors", "config_sha256", "panel_id", "scoring_code")
    row["data"] = {k: v for k, v in row["data"].items() if k not in converted}
    if "panel_fields" in row["data"]:
        for name in ("code", "env_spacing_m", "environment_sha256", "success"):
            row["data"]["panel_fields"].pop(name, None)
        row["data"]["panel_fields"]["physics"]["settings"].get("solver_cfg", {}).pop("class_type", None)
    return json.dumps([row["time"], row["kind"], row["data"]], sort_keys=True)


def test_shipped_policies_are_small_and_copy_no_record() -> None:
    assert sum(len(content) for content in contents(HERE).values()) <= 9.5e6
    shipped = {b"".join(lines_of(path)) for path in find_journals(HERE)}
    assert not [path for path in find_journals(ROOT / "records") if b"".join(lines_of(path)) in shipped]


def test_scores_of_a_shipped_policy_are_written_below_the_log_root(tmp_path: Path) -> None:
    before = contents(HERE)
    finished = script("evaluate", "--task", TASK, "--pretrained", "--device", "cpu", "--log_root", tmp_path)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert contents(HERE) == before
    (run,) = read_ledger(tmp_path).runs
    assert run.directory == tmp_path / "pretrained" / TASK / run.declared.run_id
    assert f"pretrained: run {run.declared.run_id} reached its target of 90 %" in finished.stdout
    (score,) = [row for evaluation in run.evaluations for row in evaluation.of(PanelResult)]
    recorded = next(row for row in run.results if row.checkpoint == score.checkpoint and row.purpose == "check")
    assert (score.panel_id, score.checkpoint_sha256) == (recorded.panel_id, recorded.checkpoint_sha256)
    assert score.outcomes.successes >= 0.9 * score.outcomes.episodes
    assert script("verify_ledger", "--log_root", tmp_path).returncode == 0
    (again,) = planned("--task", TASK, "--pretrained", "--log_root", tmp_path).candidates
    assert again.run_dir == run.directory


@pytest.mark.thorough  # another test makes a video of a run
def test_videos_of_a_shipped_policy_are_written_below_the_log_root(tmp_path: Path) -> None:
    before = contents(HERE)
    finished = script("play", "--task", TASK, "--pretrained", "env.scene.env_spacing=3.0", "--video",
                      "--video_length", "3", "--num_envs", "2", "--device", "cpu", "--log_root", tmp_path)  # fmt: skip
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert contents(HERE) == before
    (video,) = tmp_path.rglob("*.mp4")
    (run,) = read_ledger(HERE / TASK).runs
    assert video.parent == tmp_path / "pretrained" / TASK / run.declared.run_id / "videos" / "play"
    assert str(video) in finished.stdout


def test_scores_go_to_the_run_directory_if_the_ledger_holds_the_run(tmp_path: Path) -> None:
    (run,) = read_ledger(HERE / TASK).runs
    home = tmp_path / "logs" / "mine"
    home.mkdir(parents=True)
    for journal in find_journals(HERE / TASK):
        shutil.copy(journal, home)
    (candidate,) = planned("--task", TASK, "--pretrained", "--log_root", tmp_path / "logs").candidates
    assert (candidate.run_dir, candidate.run.directory) == (home, HERE / TASK)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--task", "LedgerLab-Cartpol", "--pretrained"], r"policy of LedgerLab-Cartpol .*did you mean"),
        (
            ["--task", "../pretrained/LedgerLab-Cartpole", "--pretrained"],
            r"no pretrained policy of \.\./pretrained/Ledger",
        ),
        (["--task", TASK], r"--task LedgerLab-Cartpole: add --pretrained"),
        ([], r"name a run or a checkpoint, or use --task X --pretrained"),
        (["run", "--pretrained"], r"no checkpoint, run directory or run id 'run'"),
    ],
)
def test_a_task_without_a_shipped_policy_gives_an_error_of_one_line(
    arguments: list[str], complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=complaint) as refused:
        planned(*arguments, "--log_root", tmp_path)
    assert "\n" not in str(refused.value)
    assert not list(tmp_path.iterdir())


def test_a_damaged_shipped_file_gives_an_error_of_one_line(copy_of_shipped: Path, tmp_path: Path) -> None:
    for path, complaint in (
        (copy_of_shipped / POLICY, r"policy.pt is not the file that .*: install ledger_lab again"),
        (shipped_checkpoint(TASK), r"checkpoint .*\.pt has changed since run \w+ saved it"),
        (next(iter(find_journals(copy_of_shipped))), r"damaged journal: "),
        (copy_of_shipped / CONTRACT, r"cannot read contract.json beside .*: install ledger_lab again"),
    ):
        whole = path.read_bytes()
        path.write_bytes(b"{" + whole[len(whole) // 2 :])
        with pytest.raises(UserError, match=complaint) as refused:
            shipped_policy(TASK)
            planned("--task", TASK, "--pretrained", "--log_root", tmp_path / "logs")
        assert "\n" not in str(refused.value)
        path.write_bytes(whole)
    (copy_of_shipped / POLICY).unlink()
    with pytest.raises(UserError, match=r"cannot read .*policy.pt: No such file or directory; install ledger_lab"):
        shipped_policy(TASK)
    shipped_checkpoint(TASK).unlink()
    with pytest.raises(UserError, match=r"is missing: install ledger_lab again"):
        shipped_checkpoint(TASK)


def test_changed_code_may_be_allowed_when_a_policy_is_shipped(trained: Path, tmp_path: Path) -> None:
    (run,) = read_ledger(trained).runs
    assert run.declared.scoring_code
    other = retold(trained, tmp_path, "changed0", scoring_code=dict.fromkeys(run.declared.scoring_code, "0" * 64))
    with pytest.raises(UserError, match=r"use --allow_changed_code"):
        shipped(other, "--short_of_target")
    with pytest.raises(UserError, match=r"cannot read .*policy\.pt"):
        shipped(other, "--short_of_target", "--allow_changed_code")


def test_a_run_is_shipped_with_a_short_journal_and_its_exported_policy(
    trained: Path, exported: Exported, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import torch

    root = move_root(monkeypatch, tmp_path / "package")
    root.mkdir()
    run_dir = shutil.copytree(one_run_dir(trained), tmp_path / "run")
    (run,) = read_ledger(run_dir).runs
    best = summarize_run(run).best
    assert best is not None and not best.proven
    fell_short = r"fell short of its target of 90 %: \d+ of 256 held-out episodes, the best of \d scores"
    for arguments, complaint in (
        (["run"], r"no checkpoint, run directory or run id 'run'"),
        ([run_dir / best.path], r"model_\d+.pt is a file: name a run, by its id or its directory"),
        ([run_dir], rf"{fell_short}: to ship it nevertheless, add --short_of_target"),
        (
            [run_dir, "--short_of_target"],
            rf"cannot read .*policy.pt: No such file or directory; run scripts/export_policy.py .*{best.path}",
        ),
    ):
        with pytest.raises(UserError, match=complaint) as refused:
            shipped(*arguments, "--log_root", tmp_path / "logs")
        assert "\n" not in str(refused.value)
    assert not list(root.iterdir())

    assert exported.checkpoint == best.path
    shutil.copytree(exported.folder, run_dir / "exported")
    (root / TASK).mkdir()
    (root / TASK / "older").touch()
    assert shipped(run_dir, "--short_of_target") == root / TASK
    names = {path.relative_to(root).as_posix() for path in contents(root)}
    journals = {path.name for attempt in run.attempts for path in (journal.path for journal in attempt.ranks)}
    assert names == {f"{TASK}/{name}" for name in (*journals, best.path, CONTRACT, POLICY)}
    (short,) = read_ledger(root / TASK).runs
    assert summarize_run(short).checkpoints == summarize_run(run).checkpoints
    assert summarize_run(short).phases == summarize_run(run).phases
    assert summarize_run(short).host is None
    (candidate,) = planned("--task", TASK, "--pretrained", "--log_root", tmp_path / "logs").candidates
    assert candidate.path == root / TASK / best.path
    policy, contract = torch.jit.load(shipped_policy(TASK)), json.loads((root / TASK / CONTRACT).read_text())
    for example in contract["examples"]:
        assert torch.allclose(policy(torch.tensor([example["obs"]])), torch.tensor([example["actions"]]), atol=1e-5)

    (run_dir / "exported" / POLICY).write_bytes(b"another")
    with pytest.raises(
        UserError, match=r"policy.pt is not the file that contract.json describes .*: run scripts/export_policy"
    ):
        shipped(run_dir, "--short_of_target")
    assert shipped_policy(TASK).is_file(), "what was shipped before stays"
