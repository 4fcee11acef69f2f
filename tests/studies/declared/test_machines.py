"""Machines of a study: the clusters where its trainings run, and their prices."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger_lab.errors import UserError
from ledger_lab.studies.declared import load_study

MACHINES = """
version = 1
seeds = [1]
[machine]
l4 = { cluster = "slurm", instance = "aws-g6.xlarge" }
here = { cluster = "~/here.toml", arguments = ["--cpu_threads", "1"] }
[scaling]
kind = "weak"
num_envs = 8
sizes = [{ processes = 1 }, { processes = 2 }]
"""


def written(folder: Path, content: str) -> str:
    (folder / "s.toml").write_text(content)
    return str(folder / "s.toml")


def test_each_size_is_trained_on_each_machine(tmp_path: Path) -> None:
    study = load_study(written(tmp_path, MACHINES))
    assert [arm.cohort for arm in study.arms] == ["s-l4-1x1x8", "s-l4-2x1x8", "s-here-1x1x8", "s-here-2x1x8"]
    assert [arm.machine for arm in study.arms] == ["l4", "l4", "here", "here"]
    assert study.arms[0].arguments[:2] == ("--instance", "aws-g6.xlarge")
    assert study.arms[3].arguments == ("--cpu_threads", "1", "--nproc", "2", "--num_envs", "8")
    assert study.machines["here"].cluster == "~/here.toml"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('cluster = "slurm", ', "", "missing required field `cluster`"),
        ('"slurm"', '""', r"at `\$.machine"),
        ('"aws-g6.xlarge"', "3", r"at `\$.machine"),
        ("instance", "instances", "unknown field `instances`"),
        ("--cpu_threads", "--instance", "--instance: leave it out, because the study sets it"),
        ("--cpu_threads", "--nproc", "--nproc: leave it out, because the study sets it"),
        ("l4 =", '"a/b" =', "level 'a/b' must be a name"),
        ("[machine]", "[machine]\nx = 3", r"at `\$.machine"),
    ],
)
def test_an_invalid_table_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_study(written(tmp_path, MACHINES.replace(old, new)))
