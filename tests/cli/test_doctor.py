"""``doctor.py`` prints a line per check with a way out, and tells apart what a machine can lack."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from ledger_lab.cli import doctor
from ledger_lab.cli.doctor import Answer, Child, within
from ledger_lab.cli.probes import NEEDED, OPTIONAL, Finding, check_packages, check_python
from tests.conftest import ROOT, script

GIB = 1 << 30
BROKEN, SILENT = Answer(None, "RuntimeError: no kernel image"), Answer(None, "no answer")


def gpu(**changes: Any) -> Answer:
    driver = "driver 580.95 with CUDA 13.0"
    found = {"torch": "2.11.0", "cuda": "13.0", "devices": ["NVIDIA H100"], "driver": driver, "reason": "no NVML"}
    return Answer({**found, **changes}, "")


def installed(**changes: str | None) -> Callable[[str], str | None]:
    """Return a function that finds version 1.0 of all packages but some."""
    return lambda name: changes.get(name, "1.0")


@pytest.mark.thorough  # it starts a simulation; other tests ask about single parts
def test_this_machine_is_fit(tmp_path: Path) -> None:
    done = script("doctor", "--json", "--limit_s", "300", "--log_root", tmp_path / "logs")
    found = json.loads(done.stdout)
    assert (done.returncode, found["fit"]) == (0, True), done.stdout
    stepped = {"level": "ok", "text": "16 cart-poles on cpu were stepped", "way_out": None}
    assert found["checks"]["step cpu"] == stepped
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
    assert lines["GPU"].startswith("fail  GPU           torch can't be used: ImportError: torch is broken -> ")
    assert lines["step cpu"].startswith("fail  step cpu")
    assert all(lines[name].startswith(("ok", "warn")) for name in ("log root", "git"))


def test_where_ledger_lab_cannot_be_imported_the_packages_are_checked(tmp_path: Path) -> None:
    lines = examined(tmp_path, "torch", "rich", "msgspec", "numpy")
    assert {"Python", "packages"} <= lines.keys()
    assert " is broken" in lines["imports"]


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


def test_a_check_or_a_question_that_breaks_or_hangs_is_a_finding() -> None:
    def breaks() -> Finding:
        raise ValueError("a\nb")

    assert within(breaks, 5).text == "cannot be checked: ValueError: a b"
    hangs = within(lambda: time.sleep(30) or Finding("ok", ""), 0.1)  # type: ignore[func-returns-value]
    assert (hangs.level, hangs.text) == ("fail", "no answer in 0 s")
    began_s = time.monotonic()
    assert Child("-c", "import time; time.sleep(100)").answer(0.3).reason == "no answer"
    assert time.monotonic() - began_s < 30
    for program in ("print({}); raise SystemExit(3)", "print('no JSON')"):
        assert Child("-c", program).answer(30.0).found is None
    assert Child("-c", "print('a'); print('{}')").answer(30.0) == ({}, "{}")


def test_python_and_packages_are_those_that_are_locked() -> None:
    assert check_python((3, 12, 7)).level == "ok"
    wrong = check_python((3, 13, 0), "/usr/bin/python3")
    assert (wrong.level, wrong.text) == ("fail", "3.13.0, /usr/bin/python3: Isaac Lab 3.0 needs Python 3.12")
    assert check_packages("torch==1.0", installed()).level == check_packages(None, installed()).level == "ok"
    assert check_packages(None, installed(newton=None)).line("a") == (
        "fail  a             missing: newton → remove .venv/.complete, and call ./isaaclab.sh again"
    )
    assert check_packages(None, installed(skrl=None)).level == "warn"
    locked = "torch==2.11.0 \\\n    --hash=sha256:00\nsphinx==9.0\n"
    assert check_packages(locked, installed(torch="2.11.0+cu130", sphinx=None)).level == "ok"
    other = check_packages(locked, installed(torch="2.12.0", sphinx=None))
    assert (other.level, "torch 2.12.0 instead of 2.11.0" in other.text) == ("warn", True)
    lock = (ROOT / "tools/requirements/main.lock").read_text()
    assert all(f"\n{name}==" in lock for name in (*NEEDED, *OPTIONAL))
    assert (doctor.check_ledger_lab("0.1.0").level, doctor.check_ledger_lab(None).level) == ("ok", "warn")


def test_a_full_slow_volatile_or_broken_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(free_bytes: int, kind: str = "ext4", slow_s: float = 60.0) -> Finding:
        monkeypatch.setattr(doctor, "file_system", lambda folder: kind)
        return doctor.check_log_root(tmp_path / "logs" / "deep", free_bytes, slow_s)

    fit = found(100 * GIB)
    assert (fit.level, fit.text.split(", durable")[0]) == ("ok", f"{tmp_path} (ext4), 100.0 GiB free")
    assert list(tmp_path.iterdir()) == []
    assert found(10 << 20).level == "fail"
    assert {found(GIB).level, found(100 * GIB, "tmpfs").level, found(100 * GIB, slow_s=0.0).level} == {"warn"}

    def fsync(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fsync)
    broken = found(100 * GIB)
    assert (broken.level, "can't append to a file: Input/output error" in broken.text) == ("fail", True)


def test_hardware_is_found_on_the_bus_or_by_its_driver(tmp_path: Path) -> None:
    for name, vendor, kind in (("0000:00:01.0", "0x8086", "0x030000"), ("0000:00:02.0", "0x10de", "0x040300")):
        folder = tmp_path / "sys/bus/pci/devices" / name
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(f"{vendor}\n")
        (folder / "class").write_text(f"{kind}\n")
    assert not doctor.has_gpu(tmp_path), "neither another vendor's GPU nor a sound device of NVIDIA"
    (folder / "class").write_text("0x030200\n")
    assert doctor.has_gpu(tmp_path)
    (folder / "vendor").unlink()
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "dxg").touch()
    assert doctor.has_gpu(tmp_path)


@pytest.mark.parametrize(
    ("answer", "hardware", "visible", "level", "text"),
    [
        (gpu(), True, None, "ok", "torch 2.11.0, driver 580.95 with CUDA 13.0, NVIDIA H100"),
        (gpu(driver=None), True, None, "warn", "sees GPUs that can't be measured: no NVML"),
        (BROKEN, True, None, "fail", "torch can't be used: RuntimeError: no kernel image"),
        (SILENT, True, None, "warn", "torch was not imported in time; no GPU was tried"),
        (gpu(devices=[]), True, "", "ok", "hides all GPUs"),
        (gpu(devices=[]), True, "7", "warn", "sees no GPU; there is driver 580.95 with CUDA 13.0, and CUDA_VISIBLE"),
        (gpu(devices=[], driver=None), True, None, "warn", "torch 2.11.0 for CUDA 13.0 sees no GPU; there is no NVML"),
        (gpu(devices=[], driver=None), False, None, "ok", "torch 2.11.0; no NVIDIA GPU: trainings run on the CPU"),
    ],
)
def test_the_reason_why_torch_has_no_gpu_is_told(
    answer: Answer, hardware: bool, visible: str | None, level: str, text: str
) -> None:
    found = doctor.check_gpu(hardware, answer, visible)
    assert (found.level, text in found.text) == (level, True), found.text
