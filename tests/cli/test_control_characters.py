"""Control characters in ledgers and file names are shown, and never sent to the terminal."""

from __future__ import annotations

import ast
import io
from pathlib import Path

import pytest
from rich.console import Group
from rich.table import Table
from rich.text import Text

import ledger_lab
from ledger_lab.cli.export import export_ledger
from ledger_lab.cli.report import build_report
from ledger_lab.cli.verify import verify_ledger
from ledger_lab.errors import UserError
from ledger_lab.names import visible
from ledger_lab.reports.terminal.console import make_console, tell_error
from tests.fakes.hostile import write_hostile_runs
from tests.fakes.ledgers import write_run

TITLE, CLEAR, REVERSED = "\x1b]0;owned\x07", "\x1b[2J", "\u202e"
HOSTILE = f"FIELD{TITLE}{CLEAR}{REVERSED}\u2066\x9b31m\r\n\tnext line\u2028"
PACKAGE = Path(ledger_lab.__file__).parent


def require_shown(text: str, *, somewhere: bool = True) -> None:
    """Require that a text holds no control character but newlines, and that the hostile one is shown in one line."""
    assert [each for each in text if not each.isprintable() and each != "\n"] == []
    assert not any(line.strip().startswith("next line") for line in text.splitlines())
    assert not somewhere or r"\x1b[2J\u202e\u2066\x9b31m\r\n\tnext line\u2028" in text


def test_control_characters_are_shown_as_python_writes_them() -> None:
    assert visible("Größe 4 µs") == "Größe 4 µs"
    assert visible(f"a{TITLE}\n") == r"a\x1b]0;owned\x07\n"
    assert visible("\udcff") == r"\udcff"  # of a file name that is no UTF-8


def test_every_way_to_print_a_string_shows_control_characters() -> None:
    out = io.StringIO()
    console = make_console(out)
    table = Table(HOSTILE, title=HOSTILE)
    table.add_row(HOSTILE)
    table.add_row(Text(HOSTILE, style="red"))
    table.add_row(Group(HOSTILE, Text.assemble(("a", "red"), (HOSTILE, "bold"))))
    console.print(HOSTILE, Text(HOSTILE), Path(HOSTILE))
    console.print(Group(HOSTILE, Text(HOSTILE)))
    console.print(table)
    console.print(HOSTILE, HOSTILE, sep="\n", soft_wrap=True)
    require_shown(out.getvalue())
    assert out.getvalue().count("FIELD") == 13
    console.print(markup := f"[red]{'a' * 500} :smile:[/red]")
    assert out.getvalue().endswith(f"{markup}\n"), "nothing is markup, and nothing is cut in a pipe"


def test_errors_show_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    assert tell_error(UserError(f"no run {HOSTILE}")) == 2
    told = capsys.readouterr().err
    require_shown(told)
    assert told.count("\n") == 1
    assert tell_error(ValueError(f"{CLEAR}{REVERSED}")) == 1
    assert capsys.readouterr().err.splitlines() == [r"ValueError: \x1b[2J\u202e"] * 2


def test_reports_of_hostile_fields_show_control_characters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = set()
    for folder, hostile in write_hostile_runs(tmp_path / "logs", HOSTILE):
        for program, arguments in ((build_report, ["--details", "--instance", "local"]), (verify_ledger, [])):
            try:
                program(["--log_root", str(folder), *arguments])
            except Exception as error:  # a text in the place of a number ends most reports
                tell_error(error)
        told = capsys.readouterr()
        require_shown(told.out, somewhere=False)
        require_shown(told.err, somewhere=False)
        if hostile.text.partition("\x1b")[0] in told.out:
            shown.add(hostile.name)
    assert shown >= {
        "RunDeclared.task",
        "RunDeclared.cohort",
        "RunDeclared.rl_library",
        "RunDeclared.panel",
        "AttemptEnded.reason",
        "PanelResult.invalid",
        "Health.advice",
        "CohortDeclared.cohort",
    }


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    """Two runs with hostile texts, whose tasks differ."""
    for run_id in ("aa", "bb"):
        write_run(tmp_path / "pair", run_id, cohort=HOSTILE, task=HOSTILE + run_id, hardware={"cpu": HOSTILE})
    write_run(tmp_path / "pair", "cc", cohort="other", task=HOSTILE + "aa", hardware={"cpu": HOSTILE})
    return tmp_path / "pair"


def test_comparisons_and_queries_show_control_characters(pair: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match="do not measure the same thing"):
        build_report(["compare", "aa", "bb", "--log_root", str(pair)])
    require_shown(capsys.readouterr().err, somewhere=False)
    assert build_report(["compare", "aa", "cc", "--log_root", str(pair)]) == 0
    require_shown(capsys.readouterr().out, somewhere=False)
    assert build_report(["query", 'SELECT cohort, task AS "t\n\x1b[2J" FROM runs', "--log_root", str(pair)]) == 0
    require_shown(capsys.readouterr().out)
    with pytest.raises(UserError) as refused:
        build_report(["--log_root", str(pair), f"no{CLEAR}run"])
    tell_error(refused.value)
    require_shown(capsys.readouterr().err, somewhere=False)


def test_exports_and_file_names_show_control_characters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / HOSTILE.replace("/", "")
    write_run(root, "aa", rl_library=HOSTILE)
    assert export_ledger(["--log_root", str(root), "--to", str(root / "out"), "--format", "isaaclab"]) == 0
    require_shown(capsys.readouterr().out)
    journal = next(root.rglob("journal-1-0.jsonl"))
    journal.write_bytes(journal.read_bytes()[:-1])
    assert verify_ledger(["--log_root", str(root)]) == 0
    require_shown(capsys.readouterr().out)
    journal.write_bytes(b"no row\n")
    assert verify_ledger(["--log_root", str(root)]) == 1
    require_shown(capsys.readouterr().out)


def test_all_other_output_goes_through_the_console() -> None:
    """Data for other programs, and lines without a foreign text, are all that goes around the console."""
    around = {
        "__main__.py",  # names of commands, before anything is imported
        "cli/scripts/doctor.py",  # where a package is broken
        "clusters/ray_job.py",  # runs in Ray, where LedgerLab need not be installed
        "ledger/find.py",  # made visible
        "tasks/registry.py",  # made visible
        "training/supervision/supervisor.py",  # made visible
        "reports/terminal/console.py",
    }
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("print", "Console"):
                found.add(str(path.relative_to(PACKAGE)))
    assert found == around
