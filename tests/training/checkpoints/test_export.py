"""A trained policy is exported with all that a robot needs, or refused."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from ledger_lab.errors import UserError
from ledger_lab.ledger import PanelResult, read_ledger
from tests.conftest import ROOT, one_run_dir
from tests.training.checkpoints.conftest import Exported
from tests.training.evaluation.test_evaluate_bad_input import retold, with_other


def test_an_exported_contract_describes_how_to_run_the_policy(trained: Path, exported: Exported) -> None:
    import onnx
    import torch
    from onnx.reference import ReferenceEvaluator

    assert "policy.onnx: largest error " in exported.stdout
    names = ("policy.pt", "policy.onnx", "contract.json")
    assert sorted(path.name for path in exported.folder.iterdir()) == sorted(names)
    script_file, onnx_file, contract_file = (exported.folder / name for name in names)
    contract = json.loads(contract_file.read_text())

    (run,) = read_ledger(trained).runs
    saved = next(row for row in run.checkpoints if row.path == exported.checkpoint)
    assert contract["policy"]["checkpoint_sha256"] == saved.sha256
    assert contract["policy"]["run"] == run.declared.run_id
    judged = [row for row in run.results if isinstance(row, PanelResult) and row.checkpoint == saved.path]
    assert [score["successes"] for score in contract["scores"]] == [row.outcomes.successes for row in judged]
    assert all(score["episodes"] == 256 and score["proves_target"] is None for score in contract["scores"])

    assert contract["rates"]["control_hz"] == 60.0 and contract["rates"]["physics_hz"] == 120.0
    (group,) = contract["observations"]
    assert (group["group"], group["slice"]) == ("policy", [0, 4])
    assert [(term["name"], term["slice"], term["scale"]) for term in group["terms"]] == [
        ("joint_pos", [0, 2], None),
        ("joint_vel", [2, 4], None),
    ]
    joints = ["slider_to_cart", "cart_to_pole"]
    assert group["terms"][0]["params"] == {"asset_cfg": {"name": "robot", "joint_names": joints}}
    assert group["terms"][0]["function"] == "isaaclab.envs.mdp.observations:joint_pos_rel"
    (action,) = contract["actions"]
    assert action["class"].endswith(":JointEffortAction")
    assert (action["joint_names"], action["scale"], action["offset"], action["clip"]) == (joints[:1], 100.0, 0.0, None)
    robot = contract["articulations"]["robot"]
    assert (robot["joint_names"], robot["joint_damping"]) == (joints, [10.0, 0.0])

    assert {name: hashlib.sha256((exported.folder / name).read_bytes()).hexdigest() for name in names[:2]} == {
        name: contract["files"][name]["sha256"] for name in names[:2]
    }
    assert all(0.0 <= error <= 1e-5 for error in contract["parity"]["largest_error"].values())
    assert contract["parity"]["terms_taken_from_simulation"] == []
    with zipfile.ZipFile(script_file) as archive:
        inside = b"".join(map(archive.read, archive.namelist()))
    assert str(ROOT).encode() not in inside + onnx_file.read_bytes(), "no folder of the machine that made them"
    policy, evaluator = torch.jit.load(io.BytesIO(script_file.read_bytes())), ReferenceEvaluator(str(onnx_file))
    assert len(contract["examples"]) == 4
    for example in contract["examples"]:
        obs, actions = (torch.tensor([example[name]]) for name in ("obs", "actions"))
        assert torch.allclose(policy(obs), actions, atol=1e-5)
        (computed,) = evaluator.run(None, {"obs": obs.numpy()})
        assert torch.allclose(torch.from_numpy(computed), actions, atol=1e-5)
    carried = json.loads(onnx.load(onnx_file).metadata_props[0].value)
    assert carried["actions"] == contract["actions"], "the file says it, too, where it comes without its contract"


def test_an_impossible_export_gives_an_error_of_one_line(trained: Path, tmp_path: Path) -> None:
    from ledger_lab.training.checkpoints.export import export_policy

    run_dir = one_run_dir(trained)
    (run,) = read_ledger(trained).runs
    (tmp_path / "file").touch()
    drifted = retold(trained, tmp_path, "drifted0", panel_fields=with_other(run.declared, "actions"))
    moved = retold(trained, tmp_path, "moved000", panel_fields=with_other(run.declared, "scene"))
    spoiled = tmp_path / "spoiled"
    shutil.copytree(run_dir, spoiled)
    (spoiled / "model_2.pt").write_bytes(b"something else")
    for arguments, complaint in (
        ((run_dir, "--tolerance", "0"), r"--tolerance 0: must be above 0"),
        ((run_dir, "--tolerance", "nan"), r"--tolerance nan: must be above 0"),
        ((run_dir, "--to", tmp_path / "file" / "below"), r"cannot write to .*below: Not a directory"),
        (("nothing", "--log_root", trained), r"no checkpoint, run directory or run id 'nothing'"),
        ((drifted,), r"since run drifted0 was trained, so its policy would see or do something else: actions: "),
        ((moved,), r"since run moved000 was trained, so the contract would be wrong: scene: "),
        ((spoiled,), r"model_2.pt has changed since run \w+ saved it"),
    ):
        with pytest.raises(UserError, match=complaint) as refused:
            export_policy([*map(str, arguments), "--device", "cpu"])
        assert "\n" not in str(refused.value)
    assert not (run_dir / "exported").exists()


def test_the_exporter_starts_no_warp_before_it_takes_over_the_terminal() -> None:
    code = "import ledger_lab.training.checkpoints.export"
    started = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert started.stdout + started.stderr == ""
