"""``scripts/doctor.py`` prints a line per check, also where packages are broken."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from ledger_lab.cli.doctor.child import Child
from ledger_lab.cli.doctor.finding import Finding, fail, ok, warn, within
from ledger_lab.cli.doctor.program import examine_machine, line_of
from tests.conftest import ROOT, script


@pytest.mark.thorough  # it starts a simulation; other tests ask about single parts
def test_this_machine_is_fit(tmp_path: Path) -> None:
    done = script("doctor", "--json", "--limit_s", "300", "--log_root", tmp_path / "logs")
    found = json.loads(done.stdout)
    assert done.returncode == 0, done.stdout
    assert found["fit"]
    assert found["checks"]["step cpu"] == {
        "level": "ok", "text": "16 cart-poles on cpu were stepped", "way_out": None
    }  # fmt: skip
    assert list(tmp_path.iterdir()) == []


def examined(folder: Path, *broken: str) -> dict[str, str]:
    """Run the doctor where packages are broken, and return its lines by the names of the checks."""
    for name in broken:
        (folder / f"{name}.py").write_text(f"raise ImportError('{name} is broken')\n")
    environ = {"PYTHONPATH": str(folder), "HOME": str(folder), "LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, str(ROOT / "scripts" / "doctor.py"), "--log_root", str(folder)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[-1].startswith("this machine is not fit for trainings: ")
    assert "Traceback" not in done.stdout + done.stderr
    return {line[6:18].strip(): line for line in done.stdout.splitlines()}


def test_a_broken_torch_is_one_finding_of_many(tmp_path: Path) -> None:
    lines = examined(tmp_path, "torch")
    assert lines["CUDA"].startswith("fail  CUDA          torch can't be used: ImportError: torch is broken -> ")
    assert lines["step cpu"].startswith("fail  step cpu")
    assert lines["log root"].startswith(("ok", "warn"))
    assert lines["git"].startswith(("ok", "warn"))


def test_where_ledger_lab_cannot_be_imported_the_packages_are_checked(tmp_path: Path) -> None:
    lines = examined(tmp_path, "torch", "rich", "msgspec", "numpy")
    assert {"Python", "packages"} <= lines.keys()
    assert " is broken" in lines["imports"]


@pytest.mark.parametrize("arguments", [["--limit_s", "0"], ["--no_such_flag"], ["--limit_s", "x"]])
def test_a_wrong_command_line_is_refused_in_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert examine_machine(arguments) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("error: ")


def test_a_line_has_the_fact_and_the_way_out() -> None:
    assert line_of("git", ok("commit a")) == "ok    git           commit a"
    assert line_of("files", warn("few\x1b", "more")) == "warn  files         few\\x1b → more"


def test_a_check_that_breaks_or_hangs_is_a_finding() -> None:
    def breaks() -> Finding:
        raise ValueError("a\nb")

    assert within(breaks, 5).text == "cannot be checked: ValueError: a b"
    hangs = within(lambda: time.sleep(30) or fail("", ""), 0.1)  # type: ignore[func-returns-value]
    assert (hangs.level, hangs.text) == ("fail", "no answer in 0 s")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_questions_too(number: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "doctor.py"), "--log_root", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline().startswith("ok    Python")
        children = psutil.Process(process.pid).children(recursive=True)
        assert children
        process.send_signal(number)
        assert process.wait(60) == 128 + number
    assert not psutil.wait_procs(children, timeout=30)[1]


def test_a_question_without_an_answer_is_killed() -> None:
    child = Child("-c", "print('begun', flush=True); import time; time.sleep(100)")
    began_s = time.monotonic()
    answer = child.answer(2.0)
    assert (answer.status, answer.last_line) == (None, "begun")
    assert time.monotonic() - began_s < 30
    assert Child("-c", "raise SystemExit(3)").answer(30.0).status == 3
