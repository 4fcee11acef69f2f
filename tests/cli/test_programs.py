"""``ledgerlab`` is all commands in one program; the scripts are the same commands."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

from ledger_lab.cli import programs
from ledger_lab.cli.programs import COMMANDS, known_commands
from ledger_lab.names import as_started
from tests.conftest import ROOT
from tests.warm import HEAVY


def ledgerlab(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``python -m ledger_lab`` to its end."""
    command = [sys.executable, "-m", "ledger_lab", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def test_every_command_is_there_and_has_a_script() -> None:
    assert {path.stem for path in (ROOT / "scripts").glob("*.py")} == COMMANDS.keys()
    for command in known_commands().values():
        if command.request is None:
            assert callable(pkgutil.resolve_name(command.target))
        else:
            assert issubclass(pkgutil.resolve_name(command.request), object)


def test_help_lists_all_commands_and_imports_none() -> None:
    program = (
        "import runpy, sys\nsys.argv = ['ledgerlab', '--help']\n"
        "try:\n    runpy.run_module('ledger_lab', run_name='__main__')\nexcept SystemExit: pass\n"
        f"print([name for name in (*{HEAVY!r}, 'numpy', 'rich', 'ledger_lab.ledger') if name in sys.modules])\n"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    *_, last = finished.stdout.splitlines()
    assert last == "[]"
    assert all(f"  {name} " in finished.stdout for name in known_commands())


def test_a_command_gets_its_arguments_and_its_status_is_passed_on() -> None:
    listed = ledgerlab("report", "--log_root", "records/cartpole-cpu", "--json", "-")
    assert (listed.returncode, listed.stdout[0]) == (0, "{")
    refused = ledgerlab("train", "--tsk", "LedgerLab-Ant")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == "error: unknown argument '--tsk': did you mean --task?\n"


def test_messages_name_commands_as_the_user_has_started_this_one(tmp_path: Path) -> None:
    shown = ledgerlab("report", "--help").stdout
    assert shown.startswith("usage: ledgerlab report [-h]") and "  ledgerlab report COHORT --details" in shown
    assert "isaaclab.sh" not in shown and "ledgerlab verify_ledger" in " ".join(shown.split())
    damaged = tmp_path / "journal-1-0.jsonl"
    damaged.write_text("nonsense\n")
    refused = ledgerlab("report", "--log_root", str(tmp_path))
    assert "(ledgerlab verify_ledger checks the whole ledger)" in refused.stderr
    assert as_started("use scripts/report.py") == "use scripts/report.py", "this process is not ledgerlab"


def test_an_unknown_command_is_one_line() -> None:
    finished = ledgerlab("verfy_ledger")
    assert finished.returncode == 2
    assert finished.stderr == "error: unknown command 'verfy_ledger': did you mean 'verify_ledger'?\n"


def test_without_the_folder_of_a_wing_its_commands_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs.importlib.util, "find_spec", lambda name: None if name.endswith(".studies") else 1)
    assert COMMANDS.keys() - known_commands().keys() == {"study", "search"}
