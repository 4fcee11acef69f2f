"""Files of figures name the command that produced them, without its secrets."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from ledger_lab.ledger.redaction import REDACTED
from ledger_lab.reports.terminal.findings import write_findings


def test_the_command_of_findings_holds_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sys, "orig_argv", ["/bin/python3", "profile_run.py", "--wandb_api_key", "correct-horse-battery", "--seed", "3"]
    )
    write_findings(tmp_path / "figures.json", answer=42)
    written = json.loads((tmp_path / "figures.json").read_text())
    assert written["command"] == ["python", "profile_run.py", "--wandb_api_key", REDACTED, "--seed", "3"]
    assert written["answer"] == 42
