"""The generated tables equal the journals in ``records/``, and include all runs that count."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from ledger_lab.documents import read_toml
from ledger_lab.files import times_file
from ledger_lab.ledger import (
    CapacityUsed,
    EvaluationStarted,
    Journal,
    Status,
    declare_cohort,
    read_ledger,
)
from ledger_lab.reports import summarize_run
from ledger_lab.units import duration, percent
from tests.fakes.ledgers import SECOND, result, write_run
from tests.reports.test_cohorts import A_DOLLAR_A_SECOND
from tools.records import (
    BEGIN,
    END,
    TABLES,
    phases_table,
    records_table,
    robustness_table,
    times_to_target,
    write_tables,
)
from tools.study_tables import algorithms_table, budget_table

ROOT = Path(__file__).parents[2]
FIELDS = {"task": "LedgerLab-T", "seeds": [0, 1], "cells": [], "physics": {"engine": "newton/mjwarp"}}
OTHER_ENGINE = {**FIELDS, "physics": {"engine": "ovphysx"}}


def recorded(root: Path, run_id: str, **changes: object) -> Path:
    """Write a run of the task that the tests' records are of; without more, one that falls short."""
    usual: dict[str, object] = {
        "task": "LedgerLab-T",
        "cohort": "c",
        "price": A_DOLLAR_A_SECOND,
        "hardware": {"cpu": "Abacus", "cpu_cores": 2, "accelerator": None},
        "panel_fields": FIELDS,
    }
    return write_run(root, run_id, **{**usual, **changes})  # type: ignore[arg-type]


def evaluated(
    run_dir: Path, scores: dict[str, int], fields: dict[str, object], invalid: str | None = None, used: int = 1
) -> None:
    """Write an evaluation of a run's checkpoints in another simulation."""
    number = len(list(run_dir.glob("journal-evaluation-*")))
    with Journal(run_dir / f"journal-evaluation-{number}-0.jsonl") as journal:
        journal.append(
            EvaluationStarted(run_id=run_dir.name, panel="p", panel_id=f"p1-{number}", panel_fields=fields,
                              checkpoints=list(scores), device="cpu", versions={}, host="h", pid=1, wall_ns=0)
        )  # fmt: skip
        for name, successes in scores.items():
            journal.append(result(run_dir.name, name, successes, f"p1-{number}", invalid=invalid))
        journal.append(
            CapacityUsed(
                constraints=used, constraint_capacity=9, contacts=1, contact_capacity=9, slots=2, wall_ns=SECOND
            )
        )


def rows(records: Path) -> list[list[str]]:
    """Return the cells of the table's rows."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in records_table(records).splitlines()[2:]]


@pytest.mark.parametrize("name", TABLES)
def test_the_page_holds_the_generated_table(name: str) -> None:
    page = (ROOT / "docs" / "generated" / f"{name}.md").read_text(encoding="utf-8")
    assert f"{BEGIN.format(name)}\n\n{TABLES[name](ROOT / 'records')}\n\n{END.format(name)}" in page, (
        "./isaaclab.sh -p -m tools.records records docs/generated"
    )


def test_the_package_holds_the_recorded_times() -> None:
    assert read_toml(times_file()) == times_to_target(ROOT / "records"), (
        "./isaaclab.sh -p -m tools.records records docs/generated"
    )


def test_the_records_are_light() -> None:
    assert sum(path.stat().st_size for path in (ROOT / "records").rglob("*") if path.is_file()) <= 12e6


def test_a_row_shows_the_lowest_success_and_the_median_of_all_runs(tmp_path: Path) -> None:
    folder = tmp_path / "t-cpu"
    declare_cohort(folder, "c", 4)
    recorded(folder, "a", scores=(5, 10), proof=10, status=Status.TARGET_REACHED)
    recorded(folder, "b", scores=(5, 9), proof=9, status=Status.TARGET_REACHED, seed=2)
    recorded(folder, "d", scores=(), status=Status.CRASHED, seed=3)
    ((task, reached, success, time, steps, cost, elsewhere),) = rows(tmp_path)
    assert (task, reached) == ("`LedgerLab-T`", "2 of 4")
    assert success == "90.0 % [90.0, 99.9]"
    assert (time, steps) == ("≈ 0:09", "≈ 80")
    assert cost == "$11.50", "of 9 + 9 + 5 dollars, for two policies"
    assert elsewhere == "–"


def test_checkpoints_that_runs_began_with_are_named_together(tmp_path: Path) -> None:
    for run_id, task in (("aaaaaaaa", "LedgerLab-V"), ("bbbbbbbb", "LedgerLab-U"), ("cccccccc", "LedgerLab-V")):
        began: dict[str, object] = {"run_id": "dddddddd", "task": task, "checkpoint": "model_1.pt", "sha256": "0" * 64}
        recorded(tmp_path / "t-cpu", run_id, began_from=began | {"env_steps": 2_000, "wall_s": 60.0, "usd": 1.0})
    assert "`LedgerLab-U` or `LedgerLab-V`" in rows(tmp_path)[0][0]


def test_the_cost_of_a_beginning_counts_once(tmp_path: Path) -> None:
    began: dict[str, object] = {"task": "LedgerLab-U", "checkpoint": "model_1.pt", "sha256": "0" * 64}
    elsewhere = {"run_id": "dddddddd", "env_steps": 2_000, "wall_s": 60.0, "usd": 1.0}
    here = {"run_id": "aaaaaaaa", "env_steps": 2_080, "wall_s": 70.0, "usd": 11.0}
    recorded(tmp_path / "t-cpu", "aaaaaaaa", began_from=began | elsewhere)
    recorded(tmp_path / "t-cpu", "bbbbbbbb", began_from=began | here, proof=9)
    cells = rows(tmp_path)[0]
    assert [cells[number].split(" + ")[1] for number in (3, 4, 5)] == ["1:10", "2.08 k", "$1.00"]


def test_a_task_without_a_proven_policy_shows_its_best_score(tmp_path: Path) -> None:
    recorded(tmp_path / "t-cpu", "a", scores=(7, 6))
    ((_, reached, success, time, steps, cost, _),) = rows(tmp_path)
    assert (reached, success) == ("0 of 1", "short of the target, at best 70.0 % [39.7, 89.2]")
    assert (time, steps, cost) == ("> 0:09", "> 80", "> $9.00")


def test_the_table_of_phases_adds_up_the_runs_of_a_cohort(tmp_path: Path) -> None:
    recorded(tmp_path / "t-cpu", "a", scores=(7, 6))
    recorded(tmp_path / "t-cpu", "b", scores=())
    runs = [summarize_run(run) for run in read_ledger(tmp_path).runs]
    assert len({run.wall_s for run in runs}) == 2
    wall_s = sum(run.wall_s for run in runs)
    header, _, row = (line.strip("| ").split(" | ") for line in phases_table(tmp_path).splitlines())
    cells = dict(zip(header, row, strict=True))
    assert (cells.pop("task"), cells.pop("time of all runs")) == ("`LedgerLab-T`", duration(wall_s))
    rest = cells.pop("rest")
    columns = {"start-up": "startup", "`returns`, `learn`": "learn"}
    for column, share in cells.items():
        phase = columns.get(column, column.strip("`"))
        assert share == percent(sum(run.phases.get(phase, 0.0) for run in runs) / wall_s, 0), column
    assert len(set(cells.values())) > 3
    shares = [int(share.removesuffix(" %")) for share in (*cells.values(), rest)]
    assert sum(shares) == pytest.approx(100, abs=3)


def test_runs_of_another_task_panel_or_target_are_not_mixed_in(tmp_path: Path) -> None:
    recorded(tmp_path / "t-cpu", "a", proof=9)
    recorded(tmp_path / "t-cpu", "b", proof=9, task="LedgerLab-Other")
    recorded(tmp_path / "t-gpu", "d", proof=9, panel_id="p1-bb", target_success=0.8)
    recorded(tmp_path / "speed-cpu", "e", proof=9)
    (tmp_path / "notes.json").write_text("{}")
    assert [row[1] for row in rows(tmp_path)] == ["1 of 1", "1 of 1"]


def test_scores_under_other_engines_have_a_column(tmp_path: Path) -> None:
    one = recorded(tmp_path / "t-cpu", "a", proof=9)
    two = recorded(tmp_path / "t-cpu", "b", proof=9)
    evaluated(one, {"model_2.pt": 1}, {**OTHER_ENGINE, "seeds": [2, 3]})  # another panel
    evaluated(one, {"model_2.pt": 2}, FIELDS)  # the same engine
    evaluated(one, {"model_2.pt": 3}, OTHER_ENGINE, invalid="contacts were dropped")
    assert rows(tmp_path)[0][-1] == "–"
    evaluated(one, {"model_1.pt": 4, "model_2.pt": 8}, OTHER_ENGINE)
    evaluated(one, {"model_2.pt": 10}, OTHER_ENGINE)  # the first score stands
    assert rows(tmp_path)[0][-1] == "ovphysx: 80.0 % [49.0, 94.3] (1 of 2 policies)"
    evaluated(two, {"model_2.pt": 9}, OTHER_ENGINE)
    assert rows(tmp_path)[0][-1] == "ovphysx: 80.0 % [49.0, 94.3]"


def test_the_robustness_table_shows_last_score_worst_cell_and_capacities(tmp_path: Path) -> None:
    one = recorded(tmp_path / "t-cpu", "a", proof=9)
    recorded(tmp_path / "t-cpu", "b", proof=9)
    cells = {"cells": [{"name": "nominal"}, {"name": "heavy"}]}
    evaluated(one, {"model_2.pt": 3}, {**FIELDS, **cells}, used=3)
    evaluated(one, {"model_1.pt": 4, "model_2.pt": 8}, {**FIELDS, **cells}, used=7)
    evaluated(one, {"model_2.pt": 9}, {**FIELDS, **cells}, used=8, invalid="contacts were dropped")
    evaluated(one, {"model_2.pt": 9}, {**OTHER_ENGINE, **cells}, used=8)
    evaluated(one, {"model_2.pt": 9}, {**FIELDS, "cells": [{"name": "nominal"}]}, used=8)
    (row,) = robustness_table(tmp_path).splitlines()[2:]
    assert row == "| `LedgerLab-T` | 8 of 10 | `nominal`, 8 of 10 | 7 of 9 | – |"


def run_of(cohort: str, seed: int, **changes: Any) -> dict[str, Any]:
    """Return figures of a run, as a report has them: by default, it reached its target after 60 s."""
    figures: dict[str, Any] = {
        "run_id": f"{cohort}-{seed}",
        "cohort": cohort,
        "seed": seed,
        "rl_library": "skrl",
        "algorithm": "sac",
        "num_envs": 256,
        "target_reached": True,
        "wall_s": 61.0,
        "wall_to_target_s": 60.0,
        "env_steps": 3000,
        "checkpoints": [
            {"env_steps": 1000, "proven": False, "heldout_successes": 5, "heldout_episodes": 10},
            {"env_steps": 2000, "proven": True, "heldout_successes": 9, "heldout_episodes": 10},
        ],
        "billable_usd": 0.01,
        "peak_host_memory_gb": 1.0,
        "gradient_steps_per_env_step": 2 / 256,
    }
    return {**figures, **changes}


def reported(records: Path, name: str, *runs: dict[str, Any]) -> None:
    """Write a report of some runs."""
    (records / f"{name}.json.gz").write_bytes(gzip.compress(json.dumps({"runs": runs}).encode()))


def test_algorithms_are_ordered_by_their_median_and_misses_are_slower_than_all_others(tmp_path: Path) -> None:
    miss = {"target_reached": False, "wall_to_target_s": None, "wall_s": 200.0, "checkpoints": []}
    runs = [run_of("slow", seed) for seed in (1, 2)] + [run_of("slow", 3, **miss)]
    runs += [
        run_of("quick", seed, wall_to_target_s=10.0 * seed, rl_library="rl_games", peak_host_memory_gb=2.0)
        for seed in (1, 2, 3)
    ]
    reported(tmp_path, "study", *runs)
    assert algorithms_table(tmp_path, "study").splitlines()[2:] == [
        "| SAC of rl_games | 3 of 3 | 0:20 (0:10 to 0:30) | 2 k | $0.03 | 2.0 GB |",
        "| SAC of SKRL | 2 of 3 | 1:00 (1:00 to more than 3:20) | 2 k | $0.03 | 1.0 GB |",
    ]


def test_trainings_with_a_budget_show_their_best_scores(tmp_path: Path) -> None:
    missed = {"target_reached": False, "wall_to_target_s": None, "wall_s": 900.0, "env_steps": 2_000_000}
    unscored = {**missed, "checkpoints": [{"proven": False, "heldout_successes": None, "heldout_episodes": None}]}
    reported(
        tmp_path, "study", run_of("a", 2, **unscored), run_of("a", 1, **{**missed, "wall_s": 800.0}), run_of("b", 1)
    )
    assert budget_table(tmp_path, "study").splitlines()[2:] == [
        "| SAC of SKRL | 0 of 2 | 9 of 10, none | 13:20 to 15:00 | 2 M | 7.8 |",
        "| SAC of SKRL | 1 of 1 | 9 of 10 | 1:01 | 3 k | 7.8 |",
    ]


def test_tables_are_written_into_their_pages(tmp_path: Path) -> None:
    recorded(tmp_path / "records" / "t-cpu", "a", proof=9)
    for name in {*TABLES} - {"tasks", "robustness"}:
        reported(tmp_path / "records", f"{name}-cpu", run_of("a", 1))
    for name in TABLES:
        page = f"before\n{BEGIN.format(name)}\nstale\n{END.format(name)}\nafter\n"
        (tmp_path / f"{name}.md").write_text(page, encoding="utf-8")
    write_tables(tmp_path / "records", tmp_path)
    for name, make in TABLES.items():
        table = f"{BEGIN.format(name)}\n\n{make(tmp_path / 'records')}\n\n{END.format(name)}"
        assert (tmp_path / f"{name}.md").read_text(encoding="utf-8") == f"before\n{table}\nafter\n"
    (tmp_path / "tasks.md").write_text("nothing", encoding="utf-8")
    with pytest.raises(ValueError, match="has no lines"):
        write_tables(tmp_path / "records", tmp_path)
