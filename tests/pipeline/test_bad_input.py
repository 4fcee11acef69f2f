"""Bad input gets one clear line with the way out, exit status 2, and leaves nothing that looks like a run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.conftest import script

TRAIN_MISTAKES = [
    (["--task", "LedgerLab-Cartpol"], r"unknown task 'LedgerLab-Cartpol': did you mean 'LedgerLab-Cartpole'"),
    (["--rl_library", "rsl"], r"unknown library 'rsl': did you mean 'rsl_rl'"),
    (["--panel", "cartpole_v2"], r"unknown panel 'cartpole_v2': did you mean 'cartpole_v1'"),
    (["--instance", "aws-p5.48xlarg"], r"unknown instance 'aws-p5.48xlarg'; did you mean 'aws-p5.48xlarge'"),
    (["--usd_per_hour", "-1"], r"--usd_per_hour must be a finite number of at least 0"),
    (["--device", "tpu"], r"no device 'tpu' on this machine: --device can be cpu"),
    (["--num_envs", "0"], r"--num_envs 0: must be at least 1"),
    (["--max_iterations", "0"], r"--max_iterations 0: must be at least 1"),
    (["--seed", "-5"], r"--seed -5: training seeds lie between"),
    (
        ["--num_envs", "3", "agent.algorithm.num_mini_batches=32"],
        r"--num_envs 3: a batch of 3 × 16 = 48 steps does not split into 32 .* use 2 or 4 environments",
    ),
    (["env.decimatoin=4"], r"'env.decimatoin=4' matches nothing: env has no 'decimatoin': did you mean 'decimation'"),
    (["agent.algorithm.gama=0.9"], r"agent.algorithm has no 'gama': did you mean 'gamma'"),
    (["enw.decimation=4"], r"'enw.decimation=4' matches nothing"),
    (["env.decimation=fast"], r"env.decimation is a int \(2\), 'fast' is none"),
    (["physics=newton_mujoco"], r"has no such physics: did you mean 'newton_mjwarp'"),
    (["physics=isaacsim_physx"], r"needs Isaac Sim, which is not installed here"),
    (["--distributed"], r"unknown argument '--distributed'"),
]


@pytest.mark.parametrize(("arguments", "complaint"), TRAIN_MISTAKES, ids=lambda value: str(value)[:40])
def test_a_request_that_cannot_be_trained_is_refused_before_anything_is_written(
    arguments: list[str], complaint: str, tmp_path: Path
) -> None:
    from ledger_lab.errors import UserError
    from ledger_lab.pipeline.preflight import plan_training
    from ledger_lab.pipeline.request import parse, train_parser

    args, overrides = parse(train_parser(), [*arguments, "--log_root", str(tmp_path / "logs")])
    with pytest.raises(UserError, match=complaint) as raised:
        plan_training(args, overrides)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "logs").exists()


def test_the_program_says_it_in_one_line_with_status_2(tmp_path: Path) -> None:
    finished = script("train", "--task", "LedgerLab-Cartpol", "--log_root", tmp_path / "logs")
    assert finished.returncode == 2
    assert finished.stdout == ""
    assert re.fullmatch(r"error: unknown task .*\n", finished.stderr), finished.stderr
    assert not (tmp_path / "logs").exists()


def test_an_unwritable_log_root_is_refused(tmp_path: Path) -> None:
    from ledger_lab.errors import UserError
    from ledger_lab.pipeline.preflight import plan_training
    from ledger_lab.pipeline.request import parse, train_parser

    (tmp_path / "file").write_text("")
    args, overrides = parse(train_parser(), ["--log_root", str(tmp_path / "file" / "logs")])
    with pytest.raises(UserError, match="cannot write to --log_root .*: Not a directory"):
        plan_training(args, overrides)


@pytest.mark.parametrize(
    ("name", "arguments", "complaint"),
    [
        ("report", ["--log_root", "nowhere"], "no ledger at nowhere: train first"),
        ("verify_ledger", ["--log_root", "nowhere"], "no journals under nowhere"),
        ("evaluate", ["model.pt", "--log_root", "nowhere"], "no checkpoint, run directory or run id 'model.pt'"),
        ("play", ["model.pt", "--video", "--log_root", "nowhere"], "no checkpoint, run directory or run id 'model.pt'"),
    ],
)
def test_other_programs_refuse_what_is_not_there(name: str, arguments: list[str], complaint: str) -> None:
    finished = script(name, *arguments)
    assert finished.returncode == 2
    assert complaint in finished.stderr
    assert len(finished.stderr.strip().splitlines()) == 1, finished.stderr
