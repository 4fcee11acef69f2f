"""Files of clusters are checked strictly, before anything is written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ledger_lab.clusters.engine import ENGINES, Engine, load_engine, load_site
from ledger_lab.clusters.plans import Plan, PlannedTraining
from ledger_lab.clusters.slurm import SlurmSite
from ledger_lab.errors import UserError
from tests.conftest import ROOT

GOOD = 'version = 1\nengine = "slurm"\nlog_root = "/shared/ledger"\ntime = "01:00:00"\n'


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "config" / "clusters").glob("*.toml")))
def test_the_examples_load(name: str) -> None:
    engine, site = load_site(name)
    assert (engine.name, site.name) == (name, name)


def test_each_engine_has_an_example_and_implements_the_interface() -> None:
    for name in ENGINES:
        assert (ROOT / "config" / "clusters" / f"{name}.toml").is_file()
        engine = load_engine(name)
        assert isinstance(engine, Engine) and engine.name == name


FILES = {
    "slurm": GOOD,
    "ray": 'version = 1\nengine = "ray"\nlog_root = "/ledger"\naddress = "10.0.0.1:6379"\npython = "/python"\n',
    "kubernetes": 'version = 1\nengine = "kubernetes"\ncontext = "lab"\ncontainer = "ledger_lab:1"\nclaim = "ledger"\n'
    'log_root = "/ledger"\nuser = 1000\n',
    "skypilot": 'version = 1\nengine = "skypilot"\ncontainer = "ledger_lab:1"\nvolume = "ledger"\n'
    'log_root = "/ledger"\n',
}


@pytest.mark.parametrize(
    ("engine", "change", "said"),
    [
        ("slurm", "partitoin = 'gpu'", "unknown key 'partitoin': did you mean 'partition'"),
        ("slurm", "gpus = -1", "gpus must be at least 0"),
        ("slurm", "gpus = 'two'", "Expected `int`, got `str` - at `$.gpus`"),
        ("slurm", 'log_root = "/a\\nb"', r"log_root '/a\nb': give an absolute path"),
        ("slurm", "project = 'lab'", "project 'lab': give an absolute path"),
        ("ray", "address = 'auto'", "address = 'auto': write HOST:PORT"),
        ("ray", "address = 'ray://head:10001'", "ray:// and http:// are not supported"),
        ("ray", 'address = "head:6379\\n"', "write HOST:PORT"),
        ("ray", "gpus = 0.5", "Expected `int`, got `float`"),
        ("ray", "retries = -1", "retries at least 0"),
        ("ray", "memory_gb = nan", "memory_gb = nan: must be above 0"),
        ("ray", "memory_gb = 1e308", "memory_gb = 1e+308: must be above 0, and below"),
        ("ray", "grace_s = 0", "grace_s at least 1"),
        ("kubernetes", "user = 0", "pods do not run as root"),
        ("kubernetes", "time_s = 120", "time_s = 120: must be above grace_s = 120"),
        ("kubernetes", "gpus = -1", "gpus must be at least 0"),
        ("kubernetes", "mount = '/other'", "mount = '/other': must be log_root or a folder above it"),
        ("kubernetes", "mount = '/'", "mount = '/': it would hide LedgerLab in the image"),
        ("kubernetes", "tolerations = ['a:b:c']", "tolerations: 'a:b:c': write them as KEY"),
        (
            "skypilot",
            "volume = 's3://bucket'",
            "'s3://bucket': a mounted bucket can't append",
        ),
        ("skypilot", "infra = 'aws'", "infra: 'aws': write k8s or k8s/CONTEXT"),
        ("skypilot", "accelerators = 'L4'", "accelerators: 'L4': write TYPE:NUMBER"),
        ("skypilot", "accelerators = 'L4:0'", "accelerators: 'L4:0'"),
        ("skypilot", "mount = '/other'", "mount = '/other': must be log_root"),
        ("skypilot", "use_spot = 'yes'", "Expected `bool`"),
    ],
)
def test_a_wrong_value_is_refused(tmp_path: Path, engine: str, change: str, said: str) -> None:
    path, good = tmp_path / "lab.toml", FILES[engine].splitlines()
    keys = [line for line in good if not change.startswith(f"{line.partition(' = ')[0]} = ")]
    path.write_text("\n".join([*keys, change, ""]))
    with pytest.raises(UserError, match=re.escape(said)) as refused:
        load_site(str(path))
    assert str(path) in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize("name", [name for name in ENGINES if name != "slurm"])
def test_several_nodes_are_refused_with_the_way_out(name: str) -> None:
    engine, site = load_site(name)
    training = PlannedTraining(what="s", start=(), resume=(), nodes=2, program="train.py", directory="/")
    with pytest.raises(UserError, match=f"--nodes 2: with {name}, a training runs on one machine: leave --nodes out"):
        engine.check(site, Plan(name="s", trainings=(training,)))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (GOOD.replace("version = 1", "version = 2"), "begin with version = 1"),
        (GOOD.replace('"slurm"', '"slrum"'), "engine 'slrum': did you mean 'slurm'"),
        (GOOD.replace("/shared/ledger", "ledger"), "give an absolute path that all nodes share"),
        (GOOD.replace('time = "01:00:00"\n', ""), "missing required field `time`"),
        ("version =", "lab.toml: "),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "lab.toml"
    path.write_text(content)
    with pytest.raises(UserError, match=said):
        load_site(str(path))


def test_a_training_gets_most_of_the_time_between_signal_and_limit(tmp_path: Path) -> None:
    (tmp_path / "lab.toml").write_text(f"{GOOD}grace_s = 300\n")
    _, site = load_site(str(tmp_path / "lab.toml"))
    assert isinstance(site, SlurmSite)
    assert site.arguments == ("--log_root", "/shared/ledger", "--grace_s", "270")
