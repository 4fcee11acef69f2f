"""Sizes of a study: processes, machines and environments, with what stays when the batch grows."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger_lab.errors import UserError
from ledger_lab.studies.declared import load_study

HEAD = 'version = 1\nseeds = [1]\narguments = ["--task", "T"]\n'


def written(folder: Path, scaling: str, head: str = HEAD) -> str:
    (folder / "s.toml").write_text(f"{head}[scaling]\n{scaling}\n")
    return str(folder / "s.toml")


STRONG = 'kind = "strong"\nnum_envs = 512\nsizes = [{ processes = 1 }, { processes = 2 }, { processes = 2, nodes = 2 }]'


def test_strong_sizes_have_the_same_number_of_environments_in_total(tmp_path: Path) -> None:
    study = load_study(written(tmp_path, STRONG))
    assert [arm.cohort for arm in study.arms] == ["s-1x1x512", "s-2x1x256", "s-2x2x128"]
    assert [arm.nodes for arm in study.arms] == [1, 1, 2]
    assert study.arms[2].arguments == ("--task", "T", "--nproc", "2", "--num_envs", "128")


def test_each_rule_for_the_batch_is_an_arm_of_each_size(tmp_path: Path) -> None:
    rules = 'batch = ["count", "count_sqrt", "count_linear", "size"]'
    study = load_study(written(tmp_path, f"{STRONG}\n{rules}"))
    assert [arm.cohort for arm in study.arms if "-1x1x512" in arm.cohort] == [
        "s-1x1x512",
        "s-1x1x512-count_sqrt",
        "s-1x1x512-count_linear",
        "s-1x1x512-size",
    ]
    ends = {arm.levels[-1]: arm.arguments[6:] for arm in study.arms}
    assert ends["2x1x256-count_linear"] == ("--scale_lr", "linear")
    assert ends["2x1x256-size"] == ("--keep_minibatch_size",)
    assert len(study.arms) == 12


def test_sizes_are_combined_with_the_other_factors(tmp_path: Path) -> None:
    factors = '[factors.task]\ncart = ["--task", "C"]\nant = ["--task", "A"]\n'
    study = load_study(written(tmp_path, STRONG, f"version = 1\nseeds = [1]\n{factors}"))
    cart, ant = study.arms_by_task()
    assert [arm.cohort for arm in cart] == ["s-cart-1x1x512", "s-cart-2x1x256", "s-cart-2x2x128"]
    assert [arm.setting for arm in cart] == [arm.setting for arm in ant]


@pytest.mark.parametrize(
    ("scaling", "message"),
    [
        (STRONG.replace("strong", "string"), r"Invalid enum value 'string' - at `\$.scaling.kind`"),
        (STRONG.replace("512", "0"), r"at `\$.scaling.num_envs`"),
        (STRONG.replace("512", "1e3"), r"at `\$.scaling.num_envs`"),
        (STRONG.replace("num_envs = 512", ""), "missing required field `num_envs`"),
        (STRONG.replace("nodes = 2", "nodes = -2"), r"at `\$.scaling.sizes\[2\].nodes`"),
        (STRONG.replace("nodes = 2", "machines = 2"), "unknown field `machines`"),
        (STRONG.replace("nodes = 2", "nodes = 1"), "sizes: list each once"),
        (f"{STRONG}\nbatch = []", r"at `\$.scaling.batch`"),
        (f"{STRONG}\nbatch = ['count_sqr']", r"Invalid enum value 'count_sqr'"),
        (f"{STRONG}\nbatch = ['size', 'size']", "batch: list each once"),
        (STRONG.replace("512", "510"), r"510 environments can't be split equally .*: use num_envs = 508 or 512 \(any"),
        (STRONG.replace("512", "3"), r"use num_envs = 4 \(any multiple of 4\)"),
    ],
)
def test_an_invalid_table_is_refused(tmp_path: Path, scaling: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_study(written(tmp_path, scaling))


@pytest.mark.parametrize(
    "argument",
    ["--num_envs", "--num_envs=3", "--num_en", "--nproc", "--nodes", "--scale_lr", "--keep", "+env.scene.num_envs=3"],
)
def test_what_the_sizes_set_cannot_be_set_otherwise(tmp_path: Path, argument: str) -> None:
    with pytest.raises(UserError, match="leave it out, because the study sets it"):
        load_study(written(tmp_path, STRONG, HEAD.replace('"T"', f'"T", "{argument}"')))
    free = load_study(written(tmp_path, 'kind = "weak"\nnum_envs = 4\nsizes = [{ processes = 1 }]'))
    assert "--num_envs" in free.flags and "--instance" not in free.flags
