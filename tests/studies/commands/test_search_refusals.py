"""What a search refuses: files, arguments, flags, runs that are not its own, and machines that lack something."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from ledger_lab.errors import UserError
from ledger_lab.studies.commands.search import run_search
from ledger_lab.studies.search.declaration import load_search
from ledger_lab.studies.search.trials import STOCK, cohort_of
from tests.fakes.ledgers import write_run
from tests.fakes.searches import FILE, Trainer, replace_trainings, search_file, searched, told


@pytest.fixture(autouse=True)
def trainings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Trainer]:
    """The next trainings; when the list is empty, trainings go as the formula says."""
    return replace_trainings(monkeypatch, tmp_path)


def test_costs_need_a_price(tmp_path: Path) -> None:
    path = search_file(tmp_path, more='objective = "cost"')
    with pytest.raises(UserError, match="local has no price"):
        searched(path, tmp_path / "logs")
    path = search_file(tmp_path, more='objective = "cost"', arguments='["--nproc", "2", "--usd_per_hour", "0.5"]')
    with pytest.raises(UserError, match="the price of 2 processes depends on where they run"):
        searched(path, tmp_path / "logs")
    path = search_file(tmp_path, more='objective = "cost"', arguments='["--usd_per_hour", "0.5"]')
    assert searched(path, tmp_path / "logs") == 0
    found = told(path, tmp_path / "logs")
    assert found["trials"][0]["charges"]["1"] == pytest.approx(found["trials"][0]["runs"][0]["usd"], rel=0.01)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("[stock]\nrl_library = 'skrl'\n", 'write arguments = ["--rl_library", "skrl"] instead'),
        ("[stock]\nlearning_rat = 0.1\n", "a recipe has no 'learning_rat': did you mean 'learning_rate'"),
        ("[stock]\nminibatches = 7\n", "the stock recipe can't be trained: a batch of"),
        ("[stock]\nclip = -1\n", "clip -1: must be positive"),
        ("[space.num_env]\ntype = 'int'\nlow = 1\nhigh = 2\n", "a recipe has no 'num_env'"),
        ("[stock]\n'env.a.func' = 'os:system'\n", "may load code"),
        ("[space.'env.a.func']\ntype = 'choice'\nchoices = ['os:system', 'os:kill']\n", "may load code"),
        ("[space.'env.x']\ntype = 'float'\nlow = -1.7e308\nhigh = 1.7e308\n", "both finite"),
    ],
)
def test_impossible_files_are_refused_in_one_line(tmp_path: Path, change: str, complaint: str) -> None:
    path = tmp_path / "s.toml"
    path.write_text(FILE.format(arguments="[]", budget_h=1, more="", search_seeds="[1, 2]") + change)
    with pytest.raises(UserError) as refused:
        searched(path, tmp_path / "logs")
    assert complaint in str(refused.value) and "\n" not in str(refused.value)
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("['--no_eval']", "--no_eval: no training would end at a proven target"),
        ("['--no_stop_at_target']", "--no_stop_at_target: no training would end at a proven target"),
        ("['--algorithm', 'sac']", "leave --algorithm and --agent out"),
        ("['--agent', 'skrl_sac_cfg_entry_point', '--rl_library', 'skrl']", "leave --algorithm and --agent out"),
        ("['agent.algorithm.learning_rate=0.1']", "agent.algorithm.learning_rate=0.1: the recipe sets"),
        ("['--nproc', '10', '--device', 'cpu']", "with 10 processes, trainings with seed 2 and with sealed seed 11"),
    ],
)
def test_arguments_that_fail_after_the_stock_recipe_are_refused_before_it(
    tmp_path: Path, arguments: str, complaint: str
) -> None:
    path, log_root = search_file(tmp_path, arguments=arguments), tmp_path / "logs"
    with pytest.raises(UserError) as refused:
        searched(path, log_root)
    assert complaint in str(refused.value) and "\n" not in str(refused.value)
    assert not log_root.exists()


@pytest.mark.parametrize("change", [{"panel_id": "p1-other", "panel_fields": {"hold_s": 2.0}}, {"target_success": 0.5}])
def test_runs_on_other_panels_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    path, log_root = search_file(tmp_path), tmp_path / "logs"
    cohort = cohort_of(load_search(str(path)), STOCK)
    write_run(log_root, "one", cohort=cohort, seed=1)
    write_run(log_root, "two", cohort=cohort, seed=2, **change)
    with pytest.raises(UserError, match=r"runs one and two have other panels or targets"):
        searched(path, log_root, "--status")


def test_optuna_is_missed_before_the_stock_recipe_is_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(UserError, match=r"pip install 'ledger_lab\[search\]'"):
        searched(search_file(tmp_path), tmp_path / "logs")
    assert not (tmp_path / "logs").exists()


def test_flags_that_need_others_are_refused(tmp_path: Path) -> None:
    path = str(search_file(tmp_path))
    for flags, complaint in (
        (["--at_once", "2"], "--at_once needs --on"),
        (["--cancel"], "--cancel needs --on"),
        (["--json", "-"], "add --status"),
        (["--status", "--dry_run"], "cannot be used together"),
        (["--at_once", "0", "--on", "local"], "must be at least 1"),
    ):
        with pytest.raises(UserError, match=complaint):
            run_search([path, *flags])
    with pytest.raises(UserError, match="'ant_recip': name a .toml file.*did you mean"):
        run_search(["ant_recip"])
