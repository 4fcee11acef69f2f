"""Files, pictures, scripts and flags that README and documentation name exist."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import pkgutil
import re
import shlex
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from ledger_lab.cli.export import export_ledger
from ledger_lab.cli.programs import COMMANDS
from ledger_lab.documents import read_toml
from ledger_lab.files import times_file
from ledger_lab.ledger.find import find_run
from ledger_lab.panels.panel import load_panel
from ledger_lab.reports import summarize_run
from ledger_lab.reports.answer import answer_lines
from ledger_lab.studies.declared import load_study
from ledger_lab.tasks import pretrained

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SHIPPED = pretrained.shipped_tasks()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


class _ParsedError(Exception):
    """Raised in place of carrying out a command that its parser has accepted."""


def _snippets(language: str) -> list[tuple[str, str]]:
    """Return each block in a language, with the page that shows it."""
    block = re.compile(rf"^```{language}\n(.*?)^```", re.M | re.S)
    return [
        (str(page.relative_to(ROOT)), text)
        for page in PAGES
        for text in block.findall(page.read_text(encoding="utf-8"))
    ]


def _commands() -> list[tuple[str, str]]:
    """Return each call of our scripts and modules in a bash block, with the page that shows it."""
    return [
        (page, line.strip())
        for page, text in _snippets("bash")
        for line in text.replace("\\\n", " ").splitlines()
        if "isaaclab.sh -p " in line
    ]


def _parser_of(script: str) -> argparse.ArgumentParser | None:
    """Return the parser of a command that imports heavy modules only later; else None."""
    request = COMMANDS[script].request
    if request is None:
        return None
    parser: argparse.ArgumentParser = pkgutil.resolve_name(request).parser()
    return parser


def _program_of(script: str) -> Callable[[list[str]], object]:
    """Return the function that a script runs."""
    program: Callable[[list[str]], object] = pkgutil.resolve_name(COMMANDS[script].target)
    return program


def _require_accepted(line: str, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that the parser of a program accepts a command.

    Args:
        line: The command as a user types it.
        page: What shows it.
        monkeypatch: Ends the program once its command line is parsed.

    Raises:
        SystemExit: If the parser refuses the command.
    """
    words = shlex.split(line, comments=True)
    words = words[next(at for at, word in enumerate(words) if word.endswith("isaaclab.sh")) + 2 :]

    def stopping(real: Callable[..., object]) -> Callable[..., None]:
        def parse_and_stop(parser: argparse.ArgumentParser, args: list[str] | None = None) -> None:
            real(parser, args)
            if not any(action.nargs == argparse.REMAINDER for action in parser._actions):
                raise _ParsedError

        return parse_and_stop

    if words[0] == "-X":  # an option of Python itself
        words = words[2:]
    if words[0] == "-c":
        compile(words[1], page, "exec")
        return
    if words[0] == "-m":
        if words[1] != "benchmarks":
            assert importlib.util.find_spec(words[1]) is not None, page
            return
        name, argv = words[2], words[3:]
        program = getattr(importlib.import_module(f"benchmarks.{name}"), f"bench_{name}")
    else:
        path = ROOT / words[0]
        assert path.exists(), page
        if path.parent.name != "scripts":
            return
        argv = words[1:]
        parser = _parser_of(path.stem)
        if parser is not None:
            argv = [word for at, word in enumerate(argv) if word != "--nproc" and argv[at - 1 : at] != ["--nproc"]]
            _, others = parser.parse_known_args(argv)
            assert [word for word in others if not re.fullmatch(r"~?(env|agent|physics)\b[\w.]*=.*", word)] == [], page
            return
        program = _program_of(path.stem)
    for name in ("parse_args", "parse_intermixed_args"):
        monkeypatch.setattr(argparse.ArgumentParser, name, stopping(getattr(argparse.ArgumentParser, name)))
    with pytest.raises(_ParsedError):
        program(argv)


@pytest.mark.parametrize("task", SHIPPED)
def test_the_readme_shows_the_policies_that_come_with_the_package_and_their_times(task: str) -> None:
    (row,) = [line for line in README.splitlines() if line.startswith(f"| `{task}` |")]
    picture = f"docs/tasks/{task.removeprefix('LedgerLab-').lower()}"
    assert f" | {read_toml(times_file())[task]} | [![" in row
    assert row.endswith(f"]({picture}.png)]({picture}.mp4) |")


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 120


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_the_end_of_a_training_that_a_page_shows_is_that_of_a_recorded_run(page: str) -> None:
    run = find_run("cafe6942", ROOT / "records" / "cartpole-cpu")
    lines = [line.plain.split(" --log_root")[0] for line in answer_lines(run, summarize_run(run), 120)]
    assert "\n".join(lines) in (ROOT / page).read_text(encoding="utf-8")


def test_every_script_has_a_guide() -> None:
    scripts = {path.stem for path in (ROOT / "scripts").glob("*.py")}
    assert {name for name in scripts if not (ROOT / "docs" / "guides" / f"{name}.md").exists()} == set()


@pytest.mark.parametrize(("page", "line"), _commands())
def test_a_command_of_the_documentation_is_accepted(page: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _require_accepted(line, page, monkeypatch)


@pytest.mark.parametrize("script", sorted(path.stem for path in (ROOT / "scripts").glob("*.py")))
def test_the_help_of_a_script_shows_commands_that_are_accepted(
    script: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")  # examples are not wrapped
    parser = _parser_of(script)
    if parser is not None:
        parser.print_help()
    else:
        with pytest.raises(SystemExit):
            _program_of(script)(["--help"])
    examples = [line.strip() for line in capsys.readouterr().out.splitlines() if line.startswith("  ./isaaclab.sh ")]
    assert any(f"scripts/{script}.py" in line for line in examples)
    for line in examples:
        with monkeypatch.context() as patch:
            _require_accepted(line, script, patch)


def test_the_help_of_the_benchmarks_shows_commands_that_are_accepted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    examples = [line.strip() for line in capsys.readouterr().out.splitlines() if "isaaclab.sh -p -m " in line]
    assert examples
    for line in examples:
        with monkeypatch.context() as patch:
            _require_accepted(line, "benchmarks", patch)


@pytest.mark.parametrize(("page", "text"), _snippets("toml"))
def test_a_toml_file_of_the_documentation_is_accepted(page: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / "file.toml"
    file.write_text(text, encoding="utf-8")
    fields = tomllib.loads(text)
    if "success" in fields:
        assert load_panel(str(file)).cells, page
    elif "seeds" in fields:
        assert load_study(str(file)).trainings(), page


@pytest.mark.parametrize(("page", "text"), _snippets("python"))
def test_a_python_snippet_of_the_documentation_is_python(page: str, text: str) -> None:
    assert compile(text, page, "exec")


def test_the_snippets_of_the_tutorial_on_data_frames_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export_ledger(
        [
            "--to",
            str(tmp_path / "out"),
            "--format",
            "parquet",
            "csv",
            "--log_root",
            str(ROOT / "records" / "cartpole-cpu"),
        ]
    )
    monkeypatch.chdir(tmp_path)
    snippets = [text for page, text in _snippets("python") if page.endswith("pandas.md")]
    assert len(snippets) == 2
    for text in snippets:
        exec(compile(text, "pandas.md", "exec"), {})


def test_the_program_of_the_page_on_the_python_api_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ROOT / "records" / "cartpole-cpu", tmp_path / "logs")
    monkeypatch.chdir(tmp_path)
    (program,) = [text for page, text in _snippets("python") if page.endswith("api.md")]
    exec(compile(program, "api.md", "exec"), {})
    assert len(capsys.readouterr().out.splitlines()) == 3
