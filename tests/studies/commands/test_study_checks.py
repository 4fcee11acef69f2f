"""A study whose sizes or machines can't work is refused before anything runs or is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger_lab.errors import UserError
from ledger_lab.studies.commands.study import run_study

SIZES = '[scaling]\nkind = "{kind}"\nnum_envs = {num_envs}\nsizes = [{{ processes = 1 }}, {{ processes = 2 }}]\n'


def study(folder: Path, scaling: str, arguments: list[str] = [], more: str = "") -> list[str]:  # noqa: B006
    (folder / "s.toml").write_text(f"version = 1\nseeds = [1]\narguments = {arguments}\n{more}{scaling}")
    return [str(folder / "s.toml"), "--log_root", str(folder / "logs")]


LIBRARIES = """[factors.library]
rsl_rl = ["--rl_library", "rsl_rl", "agent.algorithm.num_mini_batches=7"]
rl_games = ["--rl_library", "rl_games"]
skrl = ["--rl_library", "skrl", "agent.agent.rollouts=15"]
"""


def test_a_batch_that_does_not_split_in_one_library_is_refused(tmp_path: Path) -> None:
    """RSL-RL needs multiples of 7 in each process, and SKRL multiples of 4."""
    asked = study(tmp_path, SIZES.format(kind="strong", num_envs=500), more=LIBRARIES)
    said = (
        r"num_envs = 500: s-rsl_rl-1x1x500 \(rsl_rl\): a batch of 500 × 32 = 16000 steps does not split into 7 equal "
        r"minibatches, which agent.algorithm.num_mini_batches asks for: change num_envs, sizes, batch or"
    )
    with pytest.raises(UserError, match=said):
        run_study(asked)
    assert not (tmp_path / "logs").exists()
    assert run_study([*study(tmp_path, SIZES.format(kind="strong", num_envs=504), more=LIBRARIES), "--dry_run"]) == 0


def test_minibatches_that_keep_their_size_need_whole_minibatches(tmp_path: Path) -> None:
    """The cart-pole has minibatches of 256 × 32 / 4 = 2048 samples, and 32 steps: 64 environments fill one."""
    keep = SIZES + 'batch = ["count", "size"]\n'
    with pytest.raises(UserError, match=r"s-1x1x100-size .* minibatches of 2048 samples .*: change num_envs"):
        run_study(study(tmp_path, keep.format(kind="weak", num_envs=100)))
    assert run_study([*study(tmp_path, keep.format(kind="weak", num_envs=128)), "--dry_run"]) == 0


def test_arguments_after_the_dashes_are_checked_too(tmp_path: Path) -> None:
    asked = study(tmp_path, SIZES.format(kind="weak", num_envs=256))
    with pytest.raises(UserError, match="7 equal minibatches, which .*: change num_envs"):
        run_study([*asked, "--", "agent.algorithm.num_mini_batches=7"])
    with pytest.raises(UserError, match="after --: --num_envs: leave it out, because the study sets it"):
        run_study([*asked, "--", "--num_envs", "3"])
    with pytest.raises(UserError, match="unknown argument '--nonsense'"):
        run_study([*asked, "--", "--nonsense"])
    with pytest.raises(UserError, match="unknown library 'rsl'"):
        run_study([*asked, "--", "--rl_library", "rsl"])


def test_the_batches_of_other_tasks_are_left_to_the_training_and_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    asked = study(tmp_path, SIZES.format(kind="weak", num_envs=250), ["--task", "Isaac-Cartpole"])
    assert run_study([*asked, "--dry_run"]) == 0
    assert "train.py checks the minibatches of s-1x1x250, s-2x1x250 at its start" in capfd.readouterr().out


def test_sizes_of_several_machines_need_a_cluster(tmp_path: Path) -> None:
    sizes = SIZES.replace("processes = 2", "processes = 2, nodes = 2").format(kind="weak", num_envs=256)
    with pytest.raises(UserError, match="size 2x2x256 needs 2 machines: add --on CLUSTER, or leave this size out"):
        run_study(study(tmp_path, sizes))


def test_flags_that_contradict_the_study_are_refused(tmp_path: Path) -> None:
    asked = study(tmp_path, SIZES.format(kind="weak", num_envs=256))[:1]
    with pytest.raises(UserError, match=r"--nodes 2: study s sets it in \[scaling\]"):
        run_study([*asked, "--on", "local", "--nodes", "2"])
    asked = study(tmp_path, '[machine]\nhere = { cluster = "local" }\n')
    with pytest.raises(UserError, match="--log_root .*: the cluster files of s set it"):
        run_study(asked)
    with pytest.raises(UserError, match=r"--on local: study s names its clusters in \[machine\]: leave --on out"):
        run_study([*asked[:1], "--on", "local"])


def test_a_recipe_file_counts_in_the_check_of_sizes(tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text("version = 1\n[recipe]\nminibatches = 7\n")
    with pytest.raises(UserError, match="does not split into 7 equal .*: change num_envs"):
        run_study(study(tmp_path, SIZES.format(kind="weak", num_envs=256), ["--recipe", str(tmp_path / "r.toml")]))
    (tmp_path / "r.toml").write_text("version = 1\nnum_envs = 7\n")
    with pytest.raises(UserError, match="--num_envs 256: .*r.toml sets num_envs = 7"):
        run_study(study(tmp_path, SIZES.format(kind="weak", num_envs=256), ["--recipe", str(tmp_path / "r.toml")]))


@pytest.mark.parametrize("words", [["--resume", "0badc0de"], ["--resum=x"], ["-h"], ["--help"]])
def test_arguments_that_start_no_training_are_refused(tmp_path: Path, words: list[str]) -> None:
    with pytest.raises(UserError, match="s.toml, arguments: -.*: leave it out, because"):
        run_study([*study(tmp_path, "", words), "--dry_run"])
