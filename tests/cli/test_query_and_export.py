"""``report.py query``, ``--schema`` and ``export.py``, called like by a user."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ledger_lab.cli.export import export_ledger
from ledger_lab.cli.report import build_report
from ledger_lab.errors import UserError
from ledger_lab.ledger import Row, RunDeclared, ShutdownEnded, Status
from ledger_lab.reports.ledger_tables import TABLES
from tests.conftest import ROOT, script
from tests.fakes.ledgers import declared, write_run


@pytest.fixture
def log_root(tmp_path: Path) -> Path:
    root = tmp_path / "logs"
    write_run(root, "aa", scores=(5, 9), proof=9, status=Status.TARGET_REACHED)
    write_run(root, "bb", scores=(), status=Status.CRASHED, task="[red]T")
    return root


def test_an_answer_is_a_table_json_or_csv(log_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT run_id, task, heldout_success, declared_at, 1.5 AS half FROM runs ORDER BY run_id"
    shown = script("report", "query", query, "--log_root", log_root)
    assert shown.returncode == 0
    assert "[red]T" in shown.stdout
    assert "2 rows" in shown.stdout
    written = tmp_path / "out.csv"
    assert build_report(["query", query, "--log_root", str(log_root), "--json", "-", "--csv", str(written)]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["run_id"], row["heldout_success"], row["half"]) for row in rows] == [
        ("aa", 0.9, 1.5),
        ("bb", None, 1.5),
    ]
    header, *lines = csv.reader(io.StringIO(written.read_text()))
    assert header == ["run_id", "task", "heldout_success", "declared_at", "half"]
    assert [line[:3] for line in lines] == [["aa", "T", "0.9"], ["bb", "[red]T", ""]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("query", "SELECT * FROM nope"), "Table with name nope does not exist"),
        (("query", "SELECT 1 AS a, 2 AS a", "--json", "-"), "two columns are called 'a'"),
        (("query", "SELECT 1", "--csv", "/proc/nope/out.csv"), "cannot write /proc/nope/out.csv"),
        (("query", f"SELECT {2**100} AS x", "--json", "-"), "CAST it to DOUBLE or VARCHAR"),
        (("page", "page.html", "--details"), "unknown argument '--details'"),
        (("aa", "compare", "bb"), "no run or cohort 'compare'"),
        (("compare", "aa"), "the following arguments are required: B"),
        (("--prices", "mine.toml"), "also name an entry of the file with --instance"),
        (("",), "'' names no run or cohort"),
    ],
)
def test_what_cannot_be_answered_is_refused_in_one_line(log_root: Path, arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(UserError, match=said) as refused:
        build_report([*arguments, "--log_root", str(log_root)])
    assert "\n" not in str(refused.value)


def test_exports_list_written_files_and_runs_left_out(
    log_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(log_root, "cc", rl_library="unheard_of")
    root = ["--log_root", str(log_root)]
    assert export_ledger([*root, "--to", str(tmp_path / "out"), "--format", "parquet", "isaaclab"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "no bundle of run cc: the schema doesn't know the library 'unheard_of'" in said
    assert f"3 runs, {len(TABLES) + 2} files" in said
    assert (tmp_path / "out" / "aa" / "training.json").is_file()
    assert export_ledger(["bb", *root, "--to", str(tmp_path / "one"), "--format", "csv"]) == 0
    with (tmp_path / "one" / "runs.csv").open() as file:
        assert [row["run_id"] for row in csv.DictReader(file)] == ["bb"]
    with pytest.raises(UserError, match="cannot write"):
        export_ledger([*root, "--to", "/proc/nope"])


HOSTILE_CELLS = ["=1+1", "+1+1", "-1+1", "@SUM(1)", "\t=1", "\r=1", "\uff1d1", "-2.5e-3", "+3", "-", "plain", "a=b"]


def test_no_cell_of_a_csv_file_is_a_formula(log_root: Path, tmp_path: Path) -> None:
    for index, cell in enumerate(HOSTILE_CELLS):
        write_run(log_root, f"c{index}", task=cell)
    escaped = {cell if cell in ("-2.5e-3", "+3", "plain", "a=b") else f"'{cell}" for cell in HOSTILE_CELLS}
    asked, exported = tmp_path / "asked.csv", tmp_path / "out" / "runs.csv"
    query = "SELECT task, -1 AS number FROM runs WHERE run_id LIKE 'c%'"
    assert build_report(["query", query, "--log_root", str(log_root), "--csv", str(asked)]) == 0
    assert export_ledger(["--log_root", str(log_root), "--to", str(exported.parent), "--format", "csv"]) == 0
    for file in (asked, exported):
        with file.open(newline="") as lines:
            rows = list(csv.DictReader(lines))
        assert {row["task"] for row in rows} >= escaped
        assert not {row["task"] for row in rows} & (set(HOSTILE_CELLS) - escaped)
    with asked.open(newline="") as lines:
        assert {row["number"] for row in csv.DictReader(lines)} == {"-1"}


@pytest.mark.parametrize("kind", ["--csv", "--json"])
def test_an_answer_on_a_terminal_sends_no_control_characters(log_root: Path, kind: str) -> None:
    write_run(log_root, "cc", task="a\x1b[2J\x9b31m\u202e\x7fb")
    query = ["query", "SELECT task FROM runs WHERE run_id = 'cc'", "--log_root", str(log_root), kind, "-"]
    terminal, end = os.openpty()
    with open(end, "wb") as stdout:
        done = subprocess.run([sys.executable, "scripts/report.py", *query], stdout=stdout, cwd=ROOT, check=True)
    shown = os.read(terminal, 10_000).decode()
    os.close(terminal)
    assert done.returncode == 0
    assert [each for each in shown if not each.isprintable() and each not in "\r\n"] == []
    assert "[2J" in shown


def test_an_export_that_leaves_out_damaged_runs_says_so_with_its_status(
    log_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (log_root / "damaged").mkdir()
    (log_root / "damaged" / "journal-1-0.jsonl").write_text("nonsense\n")
    out = tmp_path / "out"
    assert export_ledger(["--log_root", str(log_root), "--to", str(out), "--format", "csv"]) == 1
    assert "damaged" in capsys.readouterr().err and (out / "runs.csv").exists()


@pytest.mark.parametrize(
    ("kind", "field", "number"),
    [(ShutdownEnded, "exit_code", 10**23), (RunDeclared, "hardware", {"cpu": "c", "cpu_quota": 5e-324})],
)
def test_numbers_that_no_table_could_hold_are_refused(kind: type[Row], field: str, number: object) -> None:
    sound = {
        ShutdownEnded: ShutdownEnded(wall_ns=1, exit_code=0, signal=None, overdue=False),
        RunDeclared: declared("aa"),
    }
    data = sound[kind].to_data()
    kind.from_data(data)
    with pytest.raises(ValueError):
        kind.from_data({**data, field: number})
