"""Reports of large ledgers: many runs, and what is shown of them."""

from __future__ import annotations

import gc
import json
import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ledger_lab.cli.page
import ledger_lab.cli.report
from benchmarks.synthetic_ledger import write_ledger
from ledger_lab.cli.report import build_report
from ledger_lab.ledger import CohortDeclared, Journal, Ledger, LedgerDamageError, read_ledger, reader
from ledger_lab.ledger.comparability import settings
from ledger_lab.reports import selection, summarize_run
from tests.fakes.ledgers import priced, write_run


def test_summaries_on_all_cores_equal_those_on_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_ledger(tmp_path, runs=5, rows=150)
    runs = read_ledger(tmp_path).runs
    alone = [(summarize_run(run), settings(run.declared)) for run in runs]
    assert selection.summarize_runs(runs) == alone
    monkeypatch.setattr(selection, "_PARALLEL_FROM", 1)
    monkeypatch.setattr(selection, "_BATCH", 2)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    assert selection.summarize_runs(runs) == alone
    journal = runs[3].attempts[0].ranks[0]
    journal.path.write_bytes(journal.path.read_bytes().replace(b'"needed":231', b'"needed":230'))
    changed = selection.summarize_runs(runs)
    assert [each for each in changed if not isinstance(each, LedgerDamageError)] == alone[:3] + alone[4:]
    assert "the row was changed while the ledger was read" in str(changed[3])


def test_a_run_that_is_removed_while_it_is_read_hides_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_ledger(tmp_path, runs=3, rows=150)

    def read(root: Path, **options: Any) -> Ledger:
        ledger = read_ledger(root, **options)
        runs = tuple(run.reference() for run in ledger.runs)  # as of many runs
        shutil.rmtree(runs[1].directory)
        return replace(ledger, runs=runs)

    ids = [run.run_id for run in read_ledger(tmp_path).runs]
    monkeypatch.setattr(selection, "read_ledger", read)
    assert build_report(["--log_root", str(tmp_path), "--json", "-"]) == 1
    told = capsys.readouterr()
    assert [run["run_id"] for run in json.loads(told.out)["runs"]] == [ids[0], ids[2]]
    assert "the run was removed while the ledger was read" in told.err


def test_of_many_runs_only_those_that_are_shown_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_ledger(tmp_path, runs=12, rows=480)
    asked = ["--log_root", str(tmp_path)]
    assert build_report([*asked, "--json", "-"]) == 0
    whole = json.loads(capsys.readouterr().out)
    monkeypatch.setattr(reader, "_MANY", 11)
    assert build_report([*asked, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == whole
    oldest = sorted(tmp_path.rglob("journal-1-0.jsonl"))[0]
    oldest.write_bytes(oldest.read_bytes().replace(b'"needed":231', b'"needed":230'))
    monkeypatch.setattr(ledger_lab.cli.report, "SHOWN_RUNS", 2)
    assert build_report(asked) == 0, "it is of another cohort than the newest two"
    assert "left out" not in capsys.readouterr().out
    assert build_report([*asked, "--json", "-"]) == 1
    told = capsys.readouterr()
    assert len(json.loads(told.out)["runs"]) == 11 and str(oldest) in told.err


@pytest.mark.parametrize("asked", [["b"], [], ["compare", "a", "b"]], ids=" ".join)
def test_damage_that_is_found_late_counts_as_damage_that_is_found_at_once(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = [f"{number:016x}" for number in range(4)]
    began = {"run_id": ids[0], "task": "T", "checkpoint": "model_2.pt", "sha256": "a" * 64, "env_steps": 80}
    for run_id, cohort in zip(ids, "aabb", strict=True):
        begun: dict[str, Any] = {"began_from": {**began, "wall_s": 9.0, "usd": 9.0}} if run_id == ids[3] else {}
        write_run(tmp_path, run_id, cohort=cohort, seed=int(run_id, 16), price=priced(), **begun)
    (tmp_path / "declared").mkdir()
    with Journal(tmp_path / "declared" / "journal-a.jsonl") as journal:
        journal.append(CohortDeclared(cohort="a", size=2))
    damaged = tmp_path / "rsl_rl" / "e" / ids[0] / "journal-1-0.jsonl"
    damaged.write_bytes(damaged.read_bytes().replace(b'"needed":9', b'"needed":8'))

    def answers() -> list[Any]:
        found: list[Any] = []
        for arguments in (asked, [*asked, "--json", "-"]):
            found += [build_report([*arguments, "--log_root", str(tmp_path)]), capsys.readouterr()]
        return found

    whole = answers()
    assert whole[0] == 1 and str(damaged) in whole[1].err
    monkeypatch.setattr(reader, "_MANY", 3)
    assert answers() == whole


def test_bottlenecks_are_shown_of_named_runs_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_ledger(tmp_path, runs=2, rows=400)

    def said(*arguments: str) -> str:
        assert build_report(["--log_root", str(tmp_path), *arguments]) == 0
        return capsys.readouterr().out

    assert "simulate" not in said() and gc.isenabled(), "only the report itself leaves its garbage alone"
    assert "simulate" in said("00000001")
    assert json.loads(said("--json", "-"))["runs"][0]["bottleneck"] is None
    assert json.loads(said("00000001", "--json", "-"))["runs"][0]["bottleneck"]["phase"] == "simulate"


def test_a_page_of_many_runs_shows_the_newest_and_says_how_to_see_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "logs").mkdir()
    write_ledger(tmp_path / "logs", runs=5, rows=150)
    monkeypatch.setattr(ledger_lab.cli.page, "SHOWN_RUNS", 3)
    page, root = tmp_path / "page.html", ["--log_root", str(tmp_path / "logs")]
    newest = [run.declared.run_id for run in read_ledger(tmp_path / "logs").runs][2:]
    assert build_report(["page", str(page), *root]) == 0
    told = capsys.readouterr()
    assert "the 2 oldest of 5 are left out; to show others, name runs or cohorts" in told.err
    assert "3 runs" in told.out
    assert "3 of its 5 runs" in page.read_text()
    assert f'"run_id":"{newest[0]}"' in page.read_text()
    assert build_report(["page", str(page), "00000000", *root]) == 0
    assert capsys.readouterr().err == ""


def test_a_table_of_many_runs_shows_the_newest_and_json_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_ledger(tmp_path, runs=5, rows=150)
    monkeypatch.setattr(ledger_lab.cli.report, "SHOWN_RUNS", 3)
    root = ["--log_root", str(tmp_path)]
    assert build_report(root) == 0
    told = capsys.readouterr()
    assert "the 2 oldest of 5 are left out" in told.err
    assert "00000004" in told.out and "00000001" not in told.out
    assert " 5 of 5 " in told.out, "the whole cohort counts"
    assert build_report([*root, "00000001"]) == 0
    assert "00000001" in capsys.readouterr().out
    assert build_report([*root, "--json", "-"]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    assert len(json.loads(told.out)["runs"]) == 5
