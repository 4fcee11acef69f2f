"""Health events of a run in the report, from rows alone."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from ledger_lab.cli.report import build_report
from ledger_lab.ledger import AttemptStarted, Health, Journal, Status
from tests.fakes.ledgers import SECOND, declared, ended, window


def test_the_report_shows_each_kind_of_event_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_dir = tmp_path / "logs" / "aa"
    run_dir.mkdir(parents=True)
    with Journal(run_dir / "journal-1-0.jsonl") as journal:
        journal.append(declared("aa", max_iterations=10))
        journal.append(
            AttemptStarted(run_id="aa", attempt=1, rank=0, pid=2**22 + 1, host=socket.gethostname(), wall_ns=SECOND)
        )
        journal.append(window(3, 120, {"simulate": 9 * SECOND}, 9 * SECOND))
        for event, iteration, stops in (
            ("kl_out_of_range", 2, False),
            ("kl_out_of_range", 3, False),
            ("entropy_collapse", 3, True),
        ):
            evidence = f"evidence {iteration}"
            journal.append(
                Health(
                    event=event, iteration=iteration, wall_ns=SECOND, evidence=evidence, advice="advice", stops=stops
                )
            )
        journal.append(ended(Status.STOPPED, 9 * SECOND, "HealthEvent: entropy_collapse: evidence 3"))
    asked = ["--log_root", str(tmp_path / "logs")]
    build_report([*asked, "aa"])
    lines = capsys.readouterr().out.splitlines()
    assert "HealthEvent: entropy_collapse: evidence 3" in lines
    assert "kl_out_of_range at iteration 2 (2 times): evidence 2; advice" in lines
    assert "entropy_collapse at iteration 3: evidence 3; advice" in lines
    build_report([*asked, "--json", str(tmp_path / "report.json")])
    (run,) = json.loads((tmp_path / "report.json").read_text())["runs"]
    assert [(each["event"], each["times"], each["iteration"], each["stopped"]) for each in run["health"]] == [
        ("kl_out_of_range", 2, 2, False),
        ("entropy_collapse", 1, 3, True),
    ]
