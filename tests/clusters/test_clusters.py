"""Files of clusters are checked strictly, before anything is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger_lab.clusters.engine import ENGINES, Engine, load_engine, load_site
from ledger_lab.clusters.slurm import SlurmSite
from ledger_lab.errors import UserError
from tests.conftest import ROOT

GOOD = 'version = 1\nengine = "slurm"\nlog_root = "/shared/ledger"\ntime = "01:00:00"\n'


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "config" / "clusters").glob("*.toml")))
def test_the_examples_load(name: str) -> None:
    engine, site = load_site(name)
    assert (engine.name, site.name) == (name, name)


@pytest.mark.parametrize("name", ENGINES)
def test_a_training_can_get_another_number_of_gpus(name: str) -> None:
    _, site = load_site(name)
    given = site.with_gpus(4)
    assert given.gpus_per_node == (4 if site.gpus_per_node else 0)
    assert (given.name, given.log_root) == (site.name, site.log_root)


def test_each_engine_has_an_example_and_implements_the_interface() -> None:
    for name in ENGINES:
        assert (ROOT / "config" / "clusters" / f"{name}.toml").is_file()
        engine = load_engine(name)
        assert isinstance(engine, Engine) and engine.name == name


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ('partitoin = "gpu"', "unknown key 'partitoin': did you mean 'partition'"),
        ("gpus = -1", "gpus must be at least 0"),
        ('gpus = "two"', r"Expected `int`, got `str` - at `\$.gpus`"),
        ('log_root = "/a\\nb"', r"log_root '/a\\nb': give an absolute path"),
        ('project = "lab"', "project 'lab': give an absolute path"),
    ],
)
def test_a_wrong_value_is_refused(tmp_path: Path, change: str, said: str) -> None:
    path = tmp_path / "lab.toml"
    keys = [line for line in GOOD.splitlines() if f"\n{line.partition(' = ')[0]} = " not in f"\n{change}"]
    path.write_text("\n".join([*keys, change, ""]))
    with pytest.raises(UserError, match=said) as refused:
        load_site(str(path))
    assert str(path) in str(refused.value) and "\n" not in str(refused.value)


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


def test_only_engines_are_loaded() -> None:
    with pytest.raises(UserError, match="engine 'job': "):
        load_engine("job")


def test_an_unknown_cluster_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UserError, match="no cluster 'slrum'.*did you mean 'slurm'"):
        load_site("slrum")


def test_a_training_gets_most_of_the_time_between_signal_and_limit(tmp_path: Path) -> None:
    (tmp_path / "lab.toml").write_text(f"{GOOD}grace_s = 300\n")
    _, site = load_site(str(tmp_path / "lab.toml"))
    assert isinstance(site, SlurmSite)
    assert site.arguments == ("--log_root", "/shared/ledger", "--grace_s", "270")
