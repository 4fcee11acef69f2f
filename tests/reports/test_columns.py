"""A column that is declared once is in every output."""

from __future__ import annotations

import dataclasses
from io import StringIO
from pathlib import Path

from rich.console import Console

from ledger_lab.ledger import Ledger, Run, read_ledger
from ledger_lab.reports import summarize_cohorts, summarize_run
from ledger_lab.reports.cohort_summary import CohortSummary, Contents
from ledger_lab.reports.columns import Shown, columns_of, figure, shown_columns, shown_table, sql_columns, summarize
from ledger_lab.reports.ledger_tables import TABLES
from ledger_lab.reports.page.document import render_page
from ledger_lab.reports.page.model import build_model
from ledger_lab.reports.selection import Selection
from ledger_lab.reports.summary import RunSummary
from ledger_lab.reports.terminal_table import render_report
from tests.fakes.ledgers import write_run
from tools.reference import _tables_page


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sizes:
    """Two figures of a run, one of which nobody measured."""

    slots: int = figure(
        lambda run: run.declared.held_out_slots, Shown("slots", "of all panels", lambda s: str(s.slots))
    )
    """Held-out slots [episodes]."""
    kept: list[str] = figure(lambda run: ["a"])
    warm_s: float | None = figure(
        lambda run: None, Shown("warm", "of all", lambda s: "–", priority=1, if_measured=True)
    )
    """Seconds until ``slots`` were warm."""


def one_run(root: Path) -> Run:
    write_run(root, "aa", scores=(5, 9), proof=9, cohort="c")
    (run,) = read_ledger(root).runs
    return run


def test_one_declaration_makes_value_type_meaning_and_cell(tmp_path: Path) -> None:
    sizes = summarize(Sizes, one_run(tmp_path))
    assert dataclasses.asdict(sizes) == {"slots": 10, "kept": ["a"], "warm_s": None}
    assert [(each.name, each.type, each.meaning) for each in columns_of(Sizes)] == [
        ("slots", "BIGINT", "Held-out slots [episodes]."),
        ("kept", None, ""),
        ("warm_s", "DOUBLE", "Seconds until slots were warm."),
    ]
    assert [(each.name, each.read((sizes,))) for each in sql_columns(Sizes, lambda row: row[0])] == [
        ("slots", 10),
        ("warm_s", None),
    ]
    columns, rows = shown_table(Sizes, [sizes])
    assert [shown.title for _, shown in columns] == ["slots"], "what nobody measured has no column"
    assert [[cell.text for cell in row] for row in rows] == [["10"]]


def test_every_report_column_is_in_terminal_page_sql_json_and_reference(tmp_path: Path) -> None:
    run = one_run(tmp_path)
    summary = summarize_run(run)
    # Figures of accelerators, schedulers, several processes, replay memories and stand-alone evaluations, which the run
    # does not have.
    summary = dataclasses.replace(
        summary,
        energy_kwh=1.0,
        mean_gpu_utilization=0.5,
        evaluation_afterwards_s=1.0,
        evaluation_afterwards_usd=1.0,
        queue_s=1.0,
        gradient_noise_scale=1.0,
        replay_memory_gb=1.0,
    )
    cohorts = summarize_cohorts([summary])
    terminal = StringIO()
    Console(file=terminal, width=400).print(render_report([summary], cohorts, 400))
    page = render_page(build_model(Selection(Ledger(tmp_path, (run,)), (), Contents([run], [summary], cohorts), None)))
    reference = _tables_page()
    for kind, table in ((RunSummary, "runs"), (CohortSummary, "cohorts")):
        in_sql = {column.name for column in TABLES[table].columns}
        for name, shown in shown_columns(kind):
            assert name in in_sql and name in summary.to_json() | cohorts[0].to_json()
            assert f"{shown.title}<small>" in page or f"{shown.title}</button><small>{shown.denominator}" in page
            assert f"| `{name}` | {shown.title} | {shown.denominator} |" in reference
    for _, shown in shown_columns(RunSummary):
        assert shown.title in terminal.getvalue()
