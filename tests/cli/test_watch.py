"""``watch.py``: its exit statuses, its documents, and what it asks engines."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from ledger_lab.cli.watch import EXIT_ALERTS, watch
from ledger_lab.errors import UserError
from ledger_lab.ledger import Status
from ledger_lab.reports.watch.model import SCHEMA_VERSION
from tests.conftest import command
from tests.fakes.watched import make_run


def test_the_exit_status_tells_alerts_from_notices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path, "aa", ago_s=1200.0, status=Status.COMPLETED)
    assert watch(["--log_root", str(tmp_path)]) == 0
    assert "· idle: machine elsewhere:" in capsys.readouterr().out, "a notice"
    make_run(tmp_path, "bb", ago_s=1000.0, supervised_ago_s=1.0, host="n2")
    assert watch(["--log_root", str(tmp_path)]) == EXIT_ALERTS
    said = capsys.readouterr().out
    assert "1 hung · $0.80/h" in said and said.index("!! hung: run bb") < said.index("· idle: machine elsewhere")
    assert watch(["--log_root", str(tmp_path), "--kind", "lost", "idle"]) == 0
    assert "hung: run bb" not in capsys.readouterr().out


def test_the_document_has_a_version_and_nothing_that_json_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run(tmp_path, "aa", cohort="c")
    assert watch(["--log_root", str(tmp_path), "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema_version"] == SCHEMA_VERSION and found["alerts"] == []
    (run,) = found["runs"]
    assert (run["state"], run["iterations"], run["max_iterations"], run["checks"]) == ("running", 50, 100, 1)
    assert run["left_s"]["high"] == pytest.approx(590) and run["left_s"]["expected"] is None
    assert found["cohorts"][0]["name"] == "c" and found["cohorts"][0]["planned"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--log_root", "nowhere"], "no ledger at nowhere"),
        (["--follow", "0"], "--follow: '0': give at least 1 s"),
        (["--follow", "nan"], "--follow: 'nan': give at least 1 s"),
        (["--follow", "1e300"], "--follow: '1e300': give at least 1 s, and at most"),
        (["--kind", "hangs"], "invalid choice: 'hangs'"),
        (["--quiet", "--json", "-"], "--quiet and --json cannot be used together"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "logs").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=message) as refused:
        watch(arguments)
    assert "\n" not in str(refused.value)


def test_a_damaged_run_is_no_silence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = make_run(tmp_path, "aa")
    make_run(tmp_path, "bb", status=Status.COMPLETED)
    journal = directory / "journal-1-0.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b"elsewhere", b"elsewhen.", 1))
    assert watch(["--log_root", str(tmp_path)]) == 1
    told = capsys.readouterr()
    assert "left out" in told.err and "not known: a run was left out" in told.out


def test_text_of_the_ledger_cannot_control_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path, "aa", ago_s=1000.0, supervised_ago_s=1.0, host="n\x1b[2J[bold]1")
    assert watch(["--log_root", str(tmp_path)]) == EXIT_ALERTS
    said = capsys.readouterr().out
    assert "\x1b" not in said and "[bold]1" in said


def test_follow_writes_one_document_a_line_until_it_is_interrupted(tmp_path: Path) -> None:
    make_run(tmp_path, "aa")
    program = command("watch", "--log_root", tmp_path, "--json", "-", "--follow", "1")
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        documents = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert "Traceback" not in process.stderr.read()
    assert documents[0]["at"] < documents[1]["at"]
