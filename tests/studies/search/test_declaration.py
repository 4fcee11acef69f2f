"""Search files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger_lab.errors import UserError
from ledger_lab.studies.search.declaration import SearchDeclaration, load_search

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


def loaded(folder: Path, content: str) -> SearchDeclaration:
    path = folder / "ant.toml"
    path.write_text(content)
    return load_search(str(path))


def test_the_digest_tells_searches_apart_and_not_files(tmp_path: Path) -> None:
    digest = loaded(tmp_path, SEARCH).digest
    same = SEARCH.replace("1e-4", "0.0001").replace("version = 1", "# a comment\nversion = 1\nabout = 'x'")
    assert loaded(tmp_path, same).digest == digest
    assert loaded(tmp_path, SEARCH.replace("1e-4", "2e-4")).digest != digest


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'when = { schedule = ["adaptive"] }',
            "when = { schedule = [0] }",
            "must be a choice above this table, with its values",
        ),
        ("space.learning_rate", "space.learning_rat", "did you mean 'learning_rate'"),
        ("space.learning_rate", 'space."env.x=1"', "no 'env.x=1'"),
        ("budget_h = 3", "budget_h = 3\nbudgets = 1", "unknown field `budgets`"),
        ("budget_h = 3", "budget_h = 3\nname = 'x'", "unknown field `name`"),
        ("budget_h = 3", "", "either budget_usd or budget_h"),
        ("budget_h = 3", "budget_h = 3\nbudget_usd = 1", "either budget_usd or budget_h"),
        ("budget_h = 3", "budget_h = true", "Expected `float | null`"),
        ("budget_h = 3", "budget_h = 0", "> 0"),
        ("[11, 12", "[3, 12", "seed 3 is a search seed and a sealed seed"),
        (", 20]", "]", "length >= 10"),
        ("[1, 2, 3]", "[1, 1]", "list each seed once"),
        ("[1, 2, 3]", "[1, 4294967296]", "$.search_seeds[1]"),
        ("low = 1e-4", "low = 1.0", "smaller than high"),
        ("low = 1e-4", "low = -1", "positive if log"),
        ("low = 1e-4", "low = nan", "both finite"),
        ("high = 1e-2", "hihg = 1e-2", "unknown field `hihg`"),
        ('["adaptive", "fixed"]', '["adaptive", "fix"]', "'fix'"),
        ('schedule = ["adaptive"]', 'schedules = ["adaptive"]', "must be a choice above this table"),
        ('schedule = ["adaptive"]', 'schedule = ["x"]', "must be a choice above this table"),
        ('"--max_iterations", "100"', '"--seed", "1"', "because the search sets it"),
        ("version = 1", "version = 2", "$.version"),
        ('task = "LedgerLab-Ant"', "", "missing required field `task`"),
    ],
)
def test_a_wrong_file_is_told_in_one_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in SEARCH
    with pytest.raises(UserError) as error:
        loaded(tmp_path, SEARCH.replace(old, new))
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


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[population]\niterations = 50\n", "", "a table [population] need each other"),
        ("iterations = 50", "iterations = 0", "$.population.iterations"),
        ("iterations = 50", "iterations = 50\nreplaced = 0.6", "$.population.replaced"),
        ("iterations = 50", "iterations = 50\nfactors = [1]", "1 changes nothing"),
        ("iterations = 50", "iterations = 50\nfactor = [2]", "unknown field `factor`"),
        ("[1, 2, 3]", "[1]", "a seed for each member: list at least 2"),
        ("budget_h = 3", 'budget_h = 3\narguments = ["--checkpoint", "a"]', "because the search sets it"),
        ("num_envs = 64", "max_iterations = 64", '--max_iterations", "N"'),
        ("space.learning_rate", "space.initial_noise_std", "can't change it during a training: set it"),
        ('space."env.rewards.alive.weight"', "space.num_envs", "space.num_envs: a population can't change it"),
        ('strategy = "population"', 'strategy = "random"', "a table [population] need each other"),
    ],
)
def test_a_wrong_population_is_told_in_one_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in POPULATION
    with pytest.raises(UserError) as error:
        loaded(tmp_path, POPULATION.replace(old, new))
    assert message in str(error.value) and "\n" not in str(error.value)


def test_sealed_seeds_are_none_of_the_seeds_of_a_search_trainings_processes(tmp_path: Path) -> None:
    search = loaded(tmp_path, SEARCH)
    search.require_seeds_for(8)  # seed 3 becomes 3 to 10
    with pytest.raises(UserError, match="with 9 processes, trainings with seed 3 and with sealed seed 11 share seeds"):
        search.require_seeds_for(9)
