"""Search files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger_lab.errors import UserError
from ledger_lab.studies.search.declaration import Population, load_search
from ledger_lab.studies.search.space import Parameter

SEARCH = """
version = 1
task = "LedgerLab-Ant"
arguments = ["--max_iterations", "100"]
search_seeds = [1, 2, 3]
sealed_seeds = [11, 12, 13, 14, 15, 16, 17, 18, 19, 20]
budget_h = 3
[space.learning_rate]
type = "float"
low = 1e-4
high = 1e-2
log = true
[space.schedule]
type = "choice"
choices = ["adaptive", "fixed"]
[space.kl_target]
type = "float"
low = 0.005
high = 0.02
when = { schedule = ["adaptive"] }
[space.hidden_dims]
type = "choice"
choices = [[64, 64], [128, 64]]
"""


def written(folder: Path, content: str) -> Path:
    path = folder / "ant.toml"
    path.write_text(content)
    return path


def test_a_search_file_is_read(tmp_path: Path) -> None:
    search = load_search(written(tmp_path, SEARCH))
    assert (search.name, search.task, search.objective, search.strategy) == ("ant", "LedgerLab-Ant", "time", "tpe")
    assert (search.budget_h, search.budget_usd) == (3.0, None)
    rate, _, kl, dims = search.space.parameters
    assert rate == Parameter(name="learning_rate", low=1e-4, high=1e-2, log=True)
    assert kl.is_active({"schedule": "adaptive"}) and not kl.is_active({"schedule": "fixed"})
    assert dims.choices == ((64, 64), (128, 64))
    values = {"learning_rate": 1e-3, "schedule": "fixed", "hidden_dims": (64, 64)}
    assert search.space.check(values) is None
    assert search.space.check({**values, "kl_target": 0.01}) == "kl_target is not part of the space"
    assert search.space.check({**values, "learning_rate": 1.0}) == "learning_rate 1.0 is outside the space"


def test_the_digest_tells_searches_apart_and_not_files(tmp_path: Path) -> None:
    digest = load_search(written(tmp_path, SEARCH)).digest
    same = SEARCH.replace("1e-4", "0.0001").replace("version = 1", "# a comment\nversion = 1\nabout = 'x'")
    assert load_search(written(tmp_path, same)).digest == digest
    assert load_search(written(tmp_path, SEARCH.replace("1e-4", "2e-4"))).digest != digest


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('when = { schedule = ["adaptive"] }', "when = { schedule = [0] }", "0 is none of the choices of schedule"),
        ("space.learning_rate", "space.learning_rat", "did you mean 'learning_rate'"),
        ("space.learning_rate", 'space."env.x=1"', "no 'env.x=1'"),
        ("budget_h = 3", "budget_h = 3\nbudgets = 1", "unknown key 'budgets'"),
        ("budget_h = 3", "", "either budget_usd or budget_h"),
        ("budget_h = 3", "budget_h = 3\nbudget_usd = 1", "either budget_usd or budget_h"),
        ("budget_h = 3", "budget_h = true", "above 0"),
        ("[11, 12", "[3, 12", "seed 3 is a search seed and a sealed seed"),
        (", 20]", "]", "at least 10 seeds, not 9"),
        ("[1, 2, 3]", "[1, 1]", "list each seed once"),
        ("[1, 2, 3]", "[1, 4294967296]", "seed 4294967296 is too large"),
        ("low = 1e-4", "low = 1.0", "smaller than high"),
        ("low = 1e-4", "low = -1", "must be positive"),
        ("low = 1e-4", "low = nan", "finite number"),
        ("high = 1e-2", "hihg = 1e-2", "did you mean 'high'"),
        ('["adaptive", "fixed"]', '["adaptive", "fix"]', "choice 'fix'"),
        ('schedule = ["adaptive"]', 'schedules = ["adaptive"]', "stands above"),
        ('schedule = ["adaptive"]', 'schedule = ["x"]', "none of the choices"),
        ('"--max_iterations", "100"', '"--seed", "1"', "because the search sets it"),
        ("version = 1", "version = 2", "version 2"),
        ('task = "LedgerLab-Ant"', "", "task is missing"),
    ],
)
def test_a_wrong_file_is_told_in_one_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in SEARCH
    with pytest.raises(UserError) as error:
        load_search(written(tmp_path, SEARCH.replace(old, new)))
    assert message in str(error.value) and "\n" not in str(error.value)


POPULATION = """
version = 1
task = "LedgerLab-Ant"
strategy = "population"
search_seeds = [1, 2, 3]
sealed_seeds = [11, 12, 13, 14, 15, 16, 17, 18, 19, 20]
budget_h = 3
[population]
iterations = 50
[stock]
num_envs = 64
[space.learning_rate]
type = "float"
low = 1e-4
high = 1e-2
log = true
[space."env.rewards.alive.weight"]
type = "choice"
choices = [2, 4]
"""


def test_a_population_is_read(tmp_path: Path) -> None:
    search = load_search(written(tmp_path, POPULATION))
    assert search.population == Population(iterations=50, replaced=0.25, factors=(0.8, 1.25))
    assert (search.members, search.seeds_of(5), search.seeds_of(0)) == (3, (2,), ())
    other = load_search(written(tmp_path, POPULATION.replace("iterations = 50", "iterations = 51")))
    assert other.digest != search.digest


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[population]\niterations = 50\n", "", r"needs a table [population] with iterations"),
        ("iterations = 50", "iterations = 0", "iterations must be a whole number of at least 1"),
        ("iterations = 50", "iterations = 50\nreplaced = 0.6", "replaced must be a number above 0 and up to 0.5"),
        ("iterations = 50", "iterations = 50\nfactors = [1]", "factors must be positive numbers other than 1"),
        ("iterations = 50", "iterations = 50\nfactor = [2]", "did you mean 'factors'"),
        ("[1, 2, 3]", "[1]", "a seed for each member: list at least 2"),
        ("budget_h = 3", "budget_h = 3\ncontrol_every = 4", "a population has no controls"),
        ("budget_h = 3", 'budget_h = 3\narguments = ["--checkpoint", "a"]', "because the search sets it"),
        ("num_envs = 64", "max_iterations = 64", '--max_iterations", "N"'),
        ("space.learning_rate", "space.initial_noise_std", "can't change initial_noise_std during a training: set it"),
        ('space."env.rewards.alive.weight"', "space.num_envs", "can't change num_envs during a training"),
        ('strategy = "population"', 'strategy = "random"', 'this table needs strategy = "population"'),
    ],
)
def test_a_wrong_population_is_told_in_one_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in POPULATION
    with pytest.raises(UserError) as error:
        load_search(written(tmp_path, POPULATION.replace(old, new)))
    assert message in str(error.value) and "\n" not in str(error.value)


def test_digests_of_races_do_not_change(tmp_path: Path) -> None:
    assert load_search(written(tmp_path, SEARCH)).digest.startswith("e774b24e0faa2420")


def test_sealed_seeds_are_none_of_the_seeds_of_a_search_trainings_processes(tmp_path: Path) -> None:
    search = load_search(written(tmp_path, SEARCH))
    search.require_seeds_for(8)  # seed 3 becomes 3 to 10
    with pytest.raises(UserError, match="with 9 processes, trainings with seed 3 and with sealed seed 11 share seeds"):
        search.require_seeds_for(9)
