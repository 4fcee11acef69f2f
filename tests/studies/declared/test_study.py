"""The trainings of a study file."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger_lab.errors import UserError
from ledger_lab.studies.declared import load_study

TWO_FACTORS = """
version = 1
about = "sizes"
seeds = [3, 4]
arguments = ["--task", "T"]
[factors.library]
a = ["--rl_library", "rsl_rl"]
b = ["--rl_library", "skrl"]
[factors.size]
small = ["--num_envs", "8"]
large = ["--num_envs", "16"]
"""


def written(folder: Path, content: str, name: str = "s.toml") -> str:
    (folder / name).write_text(content)
    return str(folder / name)


def test_every_combination_of_levels_is_an_arm(tmp_path: Path) -> None:
    study = load_study(written(tmp_path, TWO_FACTORS))
    assert [arm.cohort for arm in study.arms] == ["s-a-small", "s-a-large", "s-b-small", "s-b-large"]
    assert study.arms[3].arguments == ("--task", "T", "--rl_library", "skrl", "--num_envs", "16")


def test_each_arm_has_its_turn_early_and_late(tmp_path: Path) -> None:
    trainings = load_study(written(tmp_path, TWO_FACTORS)).trainings()
    assert [training.seed for training in trainings] == [3] * 4 + [4] * 4
    assert [training.arm for training in trainings[4:]] == [training.arm for training in reversed(trainings[:4])]


def test_a_study_without_factors_has_one_arm(tmp_path: Path) -> None:
    study = load_study(written(tmp_path, "version = 1\nseeds = [1]"))
    assert [(arm.cohort, arm.arguments) for arm in study.arms] == [("s", ())]


def test_a_tilde_in_arguments_becomes_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    study = 'version = 1\nseeds = [1]\narguments = ["--panel", "~/own.toml", "--prices=~/p.toml", "env.name=a~b"]\n'
    (arm,) = load_study(written(tmp_path, study)).arms
    assert arm.arguments == ("--panel", "/home/ada/own.toml", "--prices=/home/ada/p.toml", "env.name=a~b")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("version = 2", r"Invalid enum value 2 - at `\$.version`"),
        ("version = true", r"`\$.version`"),
        ("nonsense", "can't be read"),
        ("version = 1\nseed = [1]", "unknown field `seed`"),
        ("version = 1\nseeds = [1]\npath = 'x'", "unknown field `path`"),
        ("version = 1", "missing required field `seeds`"),
        ("version = 1\nseeds = [true]", r"at `\$.seeds"),
        ("version = 1\nseeds = [1, 1]", "list each seed once"),
        ("version = 1\nseeds = [1]\nabout = 3", r"at `\$.about`"),
        ("version = 1\nseeds = [1]\narguments = '--x'", r"at `\$.arguments`"),
        ("version = 1\nseeds = [1]\narguments = ['--seed=3']", "leave it out, because the study sets it"),
        ("version = 1\nseeds = [1]\nfactors = ['a']", r"at `\$.factors`"),
        ("version = 1\nseeds = [1]\n[factors.a]", r"at `\$.factors"),
        ("version = 1\nseeds = [1]\n[factors.a]\n'../x' = []", "level '../x' must be a name"),
        ("version = 1\nseeds = [1]\n[factors.a]\nx-y = []\nx = []\n[factors.b]\ny = []\ny-y = []", "share the cohort"),
    ],
)
def test_an_invalid_study_is_refused(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_study(written(tmp_path, content))


def test_an_unknown_study_names_the_existing_ones() -> None:
    with pytest.raises(UserError, match=r"'nope': name a \.toml file, or a file in config/studies"):
        load_study("nope")


@pytest.mark.parametrize("key", ["budget_usd", "budget_h"])
@pytest.mark.parametrize("value", ["0", "-1", "inf", "nan", "true", '"50"', "[50]"])
def test_a_budget_is_a_number_above_zero(key: str, value: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=rf"at `\$\.{key}`"):
        load_study(written(tmp_path, f"{key} = {value}\n{TWO_FACTORS}"))
