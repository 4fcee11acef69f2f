"""``report.py --sql``, ``--schema`` and ``export.py``, called like by a user."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from ledger_lab.commands.report import build_report
from ledger_lab.errors import UserError
from ledger_lab.ledger import Status
from ledger_lab.reports.ledger_tables import TABLES
from tests.conftest import script
from tests.fakes.ledgers import write_run


@pytest.fixture
def log_root(tmp_path: Path) -> Path:
    root = tmp_path / "logs"
    write_run(root, "aa", scores=(5, 9), confirmation=9, status=Status.TARGET_REACHED)
    write_run(root, "bb", scores=(), status=Status.CRASHED, task="[red]T")
    return root


def test_an_answer_is_a_table_json_or_csv(log_root: Path, tmp_path: Path) -> None:
    query = "SELECT run_id, task, heldout_success, declared_at, 1.5 AS half FROM runs ORDER BY run_id"
    shown = script("report", "--log_root", log_root, "--sql", query)
    assert shown.returncode == 0
    assert "[red]T" in shown.stdout
    assert "2 rows" in shown.stdout
    as_json = script("report", "--log_root", log_root, "--sql", query, "--json", "-")
    rows = json.loads(as_json.stdout)
    assert [(row["run_id"], row["heldout_success"], row["half"]) for row in rows] == [
        ("aa", 0.9, 1.5),
        ("bb", None, 1.5),
    ]
    assert script("report", "--log_root", log_root, "--sql", query, "--csv", tmp_path / "out.csv").returncode == 0
    header, *lines = csv.reader(io.StringIO((tmp_path / "out.csv").read_text()))
    assert header == ["run_id", "task", "heldout_success", "declared_at", "half"]
    assert [line[:3] for line in lines] == [["aa", "T", "0.9"], ["bb", "[red]T", ""]]


def test_the_schema_names_every_column() -> None:
    shown = script("report", "--schema")
    assert shown.returncode == 0
    for table in TABLES.values():
        assert table.meaning in shown.stdout
        assert all(column.name in shown.stdout for column in table.columns)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--sql", "SELECT * FROM nope"), "no table 'nope'"),
        (("--sql", "SELECT 1 AS a, 2 AS a", "--json", "-"), "two columns are called 'a'"),
        (("--sql", "SELECT 1", "--csv", "/proc/nope/out.csv"), "cannot write /proc/nope/out.csv"),
        (("--csv", "-"), "--csv needs --sql"),
    ],
)
def test_a_bad_query_gives_one_line_and_status_2(log_root: Path, arguments: tuple[str, ...], said: str) -> None:
    done = script("report", "--log_root", log_root, *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--sql", f"SELECT {2**100} AS x", "--json", "-"), "CAST it to DOUBLE or VARCHAR"),
        (("--html", "page.html", "--json", "-"), "call report.py twice"),
        (("--html", "page.html", "--checkpoints"), "--checkpoints cannot be used with --html"),
        (("aa", "--compare", "aa", "bb"), "--compare A B takes no other names"),
    ],
)
def test_flags_that_would_be_ignored_are_refused(log_root: Path, arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(UserError, match=said) as refused:
        build_report(["--log_root", str(log_root), *arguments])
    assert "\n" not in str(refused.value)


def test_exports_list_written_files_and_runs_left_out(log_root: Path, tmp_path: Path) -> None:
    write_run(log_root, "cc", rl_library="unheard_of")
    done = script("export", "--log_root", log_root, "--to", tmp_path / "out", "--format", "parquet", "isaaclab")
    assert (done.returncode, done.stderr) == (0, "")
    assert "no bundle of run cc: the schema doesn't know the library 'unheard_of'" in done.stdout
    assert f"3 runs, {len(TABLES) + 2} files" in done.stdout
    assert (tmp_path / "out" / "aa" / "training.json").is_file()
    only = script("export", "bb", "--log_root", log_root, "--to", tmp_path / "one", "--format", "csv")
    assert only.returncode == 0
    with (tmp_path / "one" / "runs.csv").open() as file:
        assert [row["run_id"] for row in csv.DictReader(file)] == ["bb"]
    refused = script("export", "--log_root", log_root, "--to", "/proc/nope")
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
