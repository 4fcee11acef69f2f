"""Exports equal the tables, and Isaac Lab's own classes accept the bundles."""

from __future__ import annotations

import csv
import dataclasses
import datetime
import json
import os
import types
import typing
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ledger_lab.errors import UserError
from ledger_lab.ledger import AttemptEnded, AttemptStarted, Journal, Status, read_ledger
from ledger_lab.reports import summarize_cohorts, summarize_run
from ledger_lab.reports.bundle import training_bundle, why_not, write_bundles
from ledger_lab.reports.cohort_summary import Contents
from ledger_lab.reports.export import export_tables
from ledger_lab.reports.ledger_tables import TABLES
from tests.fakes.ledgers import SECOND, declared, write_run

PRETRAINED = Path(__file__).parents[2] / "source" / "ledger_lab" / "tasks" / "pretrained"


@pytest.fixture
def ledger(tmp_path: Path) -> Contents:
    root = tmp_path / "logs"
    write_run(root, "aa", scores=(5, 9), proof=9, status=Status.TARGET_REACHED)
    write_run(root, "bb", scores=(), status=Status.CRASHED, physics="newton/mujoco")
    write_run(root, "cc", rl_library="unheard_of")
    runs = read_ledger(root).runs
    summaries = [summarize_run(run) for run in runs]
    return Contents(runs, summaries, summarize_cohorts(summaries))


def test_parquet_and_csv_hold_every_row(ledger: Contents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Path("~nobody", "it's here")
    folder.mkdir(parents=True)
    (folder / "runs.csv").write_text("an older export")
    written = export_tables(ledger, folder, ["parquet", "csv"])
    assert {path.name for path in written} == {f"{name}.{kind}" for name in TABLES for kind in ("parquet", "csv")}
    assert {path.name for path in folder.iterdir()} == {path.name for path in written}
    with duckdb.connect() as connection:
        for name, table in TABLES.items():
            rows = connection.execute(
                "SELECT * FROM read_parquet(?)", [str(folder.absolute() / f"{name}.parquet")]
            ).fetchall()
            assert rows == [tuple(each.read(row) for each in table.columns) for row in table.rows(ledger)]
            with (folder / f"{name}.csv").open(newline="") as file:
                header, *lines = csv.reader(file)
            assert header == [column.name for column in table.columns]
            assert len(lines) == len(rows)


def test_a_folder_that_cannot_be_written_gives_an_error_of_one_line(ledger: Contents, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot write"):
        export_tables(ledger, tmp_path / "file" / "deeper", ["csv"])
    with pytest.raises(UserError, match="cannot write"):
        write_bundles(ledger.runs, ledger.summaries, tmp_path / "file" / "deeper")


def build(kind: Any, value: Any, path: str, missing: set[str], strange: set[str]) -> Any:
    """Build one of Isaac Lab's dataclasses of plain values; note what must not be null, and values it does not list."""
    if isinstance(kind, types.UnionType):
        options = [option for option in typing.get_args(kind) if option is not types.NoneType]
        return (
            None if value is None else build(options[0] if len(options) == 1 else object, value, path, missing, strange)
        )
    if value is None:
        missing.add(path)
        return None
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        assert set(value) <= set(hints), path
        within = {key: (hints[key], each, f"{path}.{key}".lstrip(".")) for key, each in value.items()}
        return kind(**{key: build(*each, missing, strange) for key, each in within.items()})
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is list:
        return [build(arguments[0], each, path, missing, strange) for each in value]
    if origin is dict:
        return {key: build(arguments[1], each, f"{path}.{key}", missing, strange) for key, each in value.items()}
    if origin is typing.Literal:
        if value not in arguments:
            strange.add(path)
    elif isinstance(kind, type) and kind is not object:
        assert isinstance(value, (int, float) if kind is float else kind), path
    return value


def test_isaac_labs_classes_accept_the_bundles(ledger: Contents, tmp_path: Path) -> None:
    schema = pytest.importorskip("isaaclab.benchmark.schema", reason="needs Isaac Lab")
    paths, left_out = write_bundles(ledger.runs, ledger.summaries, tmp_path)
    assert left_out == {"cc": "the schema doesn't know the library 'unheard_of'"}
    assert paths == [tmp_path / "aa" / "training.json", tmp_path / "bb" / "training.json"]
    for path in paths:
        plain = json.loads(path.read_text())
        missing: set[str] = set()
        strange: set[str] = set()
        bundle = build(schema.TrainingBundle, plain, "", missing, strange)
        assert bundle.schema_version == schema.SCHEMA_VERSION
        assert "runtime.startup_time_s.app_launch" in missing, "what was not recorded is null, and never 0"
        assert not any(each.startswith("run.") for each in missing)
        assert strange == set(plain["extra"].get("ledger_lab/not_in_schema", "").split())


def test_a_bundle_holds_the_ledgers_figures(ledger: Contents) -> None:
    bundle = training_bundle(ledger.runs[0], ledger.summaries[0])
    assert bundle["run"]["status"] == "completed"
    assert bundle["extra"]["ledger_lab/status"] == "target_reached"
    assert bundle["run"]["config"]["physics_backend"] == "newton_mjwarp"
    assert bundle["run"]["duration_s"] == bundle["runtime"]["total_wall_time_s"] == 9.0
    assert bundle["success_rate"] == 0.9
    # 40 steps an iteration: 3 s of training each, 2 s of it collecting.
    assert bundle["runtime"]["iteration_time_s"] == {"mean": 3.0, "std": 0.0, "peak": 3.0}
    assert bundle["runtime"]["collection_fps"]["mean"] == 20.0
    assert bundle["runtime"]["iterations_completed"] == 2
    assert "ledger_lab/not_in_schema" not in bundle["extra"]
    crashed = training_bundle(ledger.runs[1], ledger.summaries[1])
    assert crashed["run"]["config"]["physics_backend"] == "newton_mujoco"
    assert crashed["run"]["status"] == "crashed"
    assert crashed["success_rate"] is None


def test_an_excerpt_and_a_run_without_an_end_have_no_bundle(tmp_path: Path) -> None:
    write_run(tmp_path, "dd", status=None, pid=os.getpid())
    for root, reason in (
        (PRETRAINED / "LedgerLab-Cartpole", "it is an excerpt, which has no single iterations"),
        (tmp_path, "it is still running"),
    ):
        (run,) = read_ledger(root).runs
        assert why_not(run, summarize_run(run)) == reason


@pytest.mark.parametrize("run_id", ["../../out", "/tmp/out", "..", ".", "a/b", ""])
def test_a_bundle_is_never_written_outside_its_folder(tmp_path: Path, run_id: str) -> None:
    write_run(tmp_path / "logs", "aa")
    (run,) = read_ledger(tmp_path / "logs").runs
    run = dataclasses.replace(run, declared=dataclasses.replace(run.declared, run_id=run_id))
    paths, left_out = write_bundles([run], [summarize_run(run)], tmp_path / "there" / "out")
    assert (paths, left_out) == ([], {run_id: "its id cannot be the name of a folder"})
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]


def test_a_bundle_ends_when_the_last_attempt_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hour = iter(range(24))
    clock = types.SimpleNamespace(now=lambda tz: datetime.datetime(2026, 1, 1, next(hour), tzinfo=tz))
    monkeypatch.setattr("ledger_lab.ledger.journal.datetime", clock)
    for attempt, status in ((1, Status.PREEMPTED), (2, Status.COMPLETED)):
        with Journal(tmp_path / f"journal-{attempt}-0.jsonl") as journal:
            if attempt == 1:
                journal.append(declared("aa"))
            journal.append(
                AttemptStarted(run_id="aa", attempt=attempt, rank=0, pid=2**22 + 1, host="h", wall_ns=60 * SECOND)
            )
            peaks: dict[str, Any] = {"peak_host_memory_bytes": None, "peak_gpu_memory_bytes": None}
            journal.append(AttemptEnded(status=status, reason=None, wall_ns=90 * SECOND, **peaks))
    (run,) = read_ledger(tmp_path).runs
    facts = training_bundle(run, summarize_run(run))["run"]
    # Their processes began a minute before they said so, at 2 and at 5 o'clock, and lived for a minute and a half.
    assert facts["start_time_utc"] == "2026-01-01T01:59:00+00:00"
    assert facts["end_time_utc"] == "2026-01-01T05:00:30+00:00"
    assert facts["duration_s"] == 180.0
