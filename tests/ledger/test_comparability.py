"""One table tells what a difference in each field of a declaration means, and every comparison and pool follows it."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from ledger_lab.errors import UserError
from ledger_lab.ledger import RunDeclared, read_ledger
from ledger_lab.ledger.comparability import (
    FORBIDDING,
    IGNORED,
    NAMED,
    differing,
    named_differences,
    refused_differences,
    settings,
    yardstick,
)
from ledger_lab.reports import summarize_run
from ledger_lab.reports.cohort_summary import by_yardstick, summarize_cohorts
from ledger_lab.reports.compare import require_pooled, select_side
from ledger_lab.studies.recommend.recommendation import measured_options, of_one_yardstick
from ledger_lab.studies.scaling.points import find_studies, scaled_runs
from tests.fakes.ledgers import declared, write_run

BASE = declared(run_id="a")
OTHERS: dict[str, Any] = {
    "task": "Other", "panel_id": "p1-bb", "target_success": 0.8, "error_budget": 0.01, "verdict_rule": 2,
    "stop_at_target": False, "timing": "events", "rl_library": "skrl", "agent": "mine", "symmetry": True,
    "overrides": ["a.b=1"],
    "recipe": {"fields": {"epochs": 3}, "num_envs": None, "overrides": []}, "physics": "other", "device": "cuda:0",
    "hardware": {"cpu_cores": 3}, "price": {**BASE.price, "date": "2031-01-01"}, "world_size": 2, "machines": 2,
    "num_envs": 7, "horizon": 7, "epochs": 7, "minibatches": 7, "max_iterations": 7, "request": {"limit_s": 60.0},
    "stop_on": ["stall"], "held_out_slots": 7, "eval_every": 7, "save_state_every": 7, "config_sha256": {"agent": "f"},
    "versions": {"torch": "9"}, "code_sha256": {"acme": "f"}, "scoring_code": {"acme.terms": "f"},
    "git": {"commit": "f"}, "run_id": "b", "cohort": "c", "seed": 77, "panel": "/elsewhere.toml", "experiment": "e",
    "command": ["other"], "panel_fields": {"seeds": [9]},
    "began_from": {
        "run_id": "r", "task": "T", "checkpoint": "m.pt", "sha256": "f", "env_steps": 1, "wall_s": 1.0, "usd": None,
    },
}  # fmt: skip


def test_every_field_of_a_declaration_has_a_line() -> None:
    names, rules = {each.name for each in fields(RunDeclared)}, (*FORBIDDING, *NAMED, *IGNORED)
    assert {rule.field for rule in rules} == names, "say in ledger_lab.ledger.comparability what a difference means"
    assert set(OTHERS) == names
    assert all(rule.why for rule in rules)


@pytest.mark.parametrize("rule", [*FORBIDDING, *NAMED, *IGNORED], ids=lambda rule: rule.field)
def test_each_difference_has_its_effect(rule: Any) -> None:
    one, other, forbids = BASE, replace(BASE, **{rule.field: OTHERS[rule.field]}), rule in FORBIDDING
    if forbids and rule.field == "timing":
        other = replace(BASE, timing="synchronized")
    refused, named = refused_differences([one], [other]), named_differences([one], [other])
    if rule in IGNORED:
        assert (refused, named) == ([], [])
        return
    assert rule.field in {each.field.partition(".")[0] for each in (refused if forbids else named)}
    assert bool(refused) == forbids == (yardstick(one) != yardstick(other))
    assert (rule.field in differing([settings(one), settings(other)])) == (not forbids or rule.field == "timing")


def written(root: Path, **changes: Any) -> list[Any]:
    """Write two cohorts of runs, of which one run of the first differs; return the runs."""
    write_run(root, "a1", cohort="c", seed=1)
    write_run(root, "a2", cohort="c", seed=2, **changes)
    return list(read_ledger(root).runs)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
     ({"verdict_rule": 2}, "verdict_rule"), ({"stop_at_target": False}, "stop_at_target"),
     ({"timing": "synchronized"}, "timing"),
     ({"panel_id": "p1-bb", "panel_fields": {"code": {"acme": "b"}}}, "panel_id"),
    ],
)  # fmt: skip
def test_runs_that_measure_different_things_are_pooled_nowhere(
    tmp_path: Path, changes: dict[str, Any], name: str
) -> None:
    runs = written(tmp_path, **changes)
    summaries = [summarize_run(run) for run in runs]
    yardsticks = by_yardstick(summaries)
    assert [len(members) for _, members in yardsticks] == [1, 1]
    assert all(name in each.rules for each, _ in yardsticks) or name == "panel_id"
    assert [cohort.runs for cohort in summarize_cohorts(summaries)] == [1, 1]
    with pytest.raises(UserError, match=rf"runs of c do not measure the same thing: {name} differs"):
        require_pooled(select_side("c", runs))
    points = scaled_runs(runs, summaries)
    assert len(find_studies(points)) == 2
    with pytest.raises(UserError, match="can.t be ranked together"):
        of_one_yardstick(points, None)


def test_what_pooled_runs_differ_in_is_named(tmp_path: Path) -> None:
    runs = written(tmp_path, stop_on=["stall"], request={"limit_s": 60.0}, held_out_slots=3)
    summaries = [summarize_run(run) for run in runs]
    (cohort,) = summarize_cohorts(summaries, declared_settings={run.run_id: settings(run.declared) for run in runs})
    assert cohort.differs_in == ["request", "stop_on", "held_out_slots"]
    (option,) = measured_options(scaled_runs(runs, summaries))
    assert "its runs differ in request, stop_on, held_out_slots" in option.notes
