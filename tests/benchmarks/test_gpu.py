"""The GPU kit runs every part in a process of its own, and keeps what it found whatever happens to a part."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.comparison import ROOT
from benchmarks.gpu import kit
from benchmarks.gpu.compared import compared
from benchmarks.gpu.part import FIGURES, Part, read_figures, run_part
from tests.conftest import benchmark
from tests.fakes.waiting import wait_until


def part(code: str, name: str = "tried", **changes: Any) -> Part:
    made: dict[str, Any] = {"what": "", "command": ("-c", code), "read": read_figures, "limit_s": 60.0, **changes}
    return Part(name=name, **made)


WRITES = f"import pathlib, sys; pathlib.Path(r'{{folder}}', '{FIGURES}').write_text('{{\"x\": 1}}')"


def on_a_cpu(tmp_path: Path) -> dict[str, Any]:
    """Run small parts of the kit, each of which must be done, and return what they found."""
    done = benchmark("gpu", "--device", "cpu", "--quick", "--out", tmp_path / "gpu.json")
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads((tmp_path / "gpu.json").read_text())
    assert {each["status"] for each in found["parts"].values()} == {"done"}
    return found


@pytest.mark.thorough  # tests below show what the kit does with parts
def test_the_whole_kit_runs_on_a_cpu(tmp_path: Path) -> None:
    found = on_a_cpu(tmp_path)
    parts = {"device", "compile", "tests", "waits-cartpole", "speed-64-scored", "overhead", "start-warm", "doctor"}
    parts |= {"check-skrl", "check-memory"}
    assert found["parts"].keys() == parts
    assert found["not_run"] == []
    require_speed(found)
    assert found["parts"]["compile"]["result"]["trainings"]["LedgerLab-Cartpole"]["exit_status"] == 0
    waited = found["parts"]["waits-cartpole"]["result"]
    assert waited["env_steps"] == 2 * 32
    assert sum(waited["places"].values()) == pytest.approx(waited["waits_per_step"])
    assert found["parts"]["overhead"]["result"]["median_ratio"] > 0
    require_small_logs(tmp_path)


def require_speed(found: dict[str, Any]) -> None:
    """Check what a training with held-out slots tells of its speed."""
    speed = found["parts"]["speed-64-scored"]["result"]
    assert speed["heldout_episodes"] == 256
    assert found["compared"]["steps_per_s"]["64"]["with_held_out_slots"] == speed["steps_per_s"] > 0


def require_small_logs(tmp_path: Path) -> None:
    """Check that journals are kept, and nothing large."""
    kept = [path for path in (tmp_path / "gpu-logs").rglob("*") if path.is_file()]
    assert [path for path in kept if path.name == "journal-1-0.jsonl"]
    assert not [path for path in kept if path.suffix == ".pt"]
    assert sum(path.stat().st_size for path in kept) < 2_000_000


def test_a_part_that_takes_too_long_is_ended_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.gpu.part.GRACE_S", 0.2)
    deaf = "import signal, subprocess, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    child = "child = subprocess.Popen(['sleep', '100']); pathlib.Path(r'{folder}', 'pid').write_text(str(child.pid))"
    slow = run_part(part(f"{deaf}; {WRITES}; {child}; time.sleep(100)"), tmp_path / "a", os.environ, 3)
    assert (slow.status, slow.exit_status, slow.result) == ("timed out", None, {"x": 1})
    assert slow.error == "not finished after 3 s"
    wait_until(lambda: _is_dead(tmp_path / "a" / "pid"), "the killed child is dead", 30)


def test_a_part_ends_with_a_kit_that_is_killed(tmp_path: Path) -> None:
    code = (
        "import os; from pathlib import Path; from benchmarks.gpu.part import Part, read_figures, run_part; "
        "code = \"import os, time; open(r'{folder}/pid', 'w').write(str(os.getpid())); time.sleep(100)\"; "
        "part = Part(name='slow', what='', command=('-c', code), read=read_figures, limit_s=100); "
        f"run_part(part, Path(r'{tmp_path}/a'), os.environ, 100)"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT) as kit_process:
        try:
            pid = tmp_path / "a" / "pid"
            wait_until(lambda: pid.exists() and pid.read_text() != "", "the part runs", 60)
        finally:
            kit_process.kill()
    wait_until(lambda: _is_dead(pid), "the part has ended, too", 30)


def _is_dead(pid: Path) -> bool:
    """Tell whether the process whose id a file contains has ended; nobody may have waited for it yet."""
    try:
        return Path(f"/proc/{int(pid.read_text())}/stat").read_text().split()[2] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def run_kit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, parts: list[Part], *arguments: str) -> tuple[int, Any]:
    """Run a kit of these parts, and return its exit status and its file."""
    monkeypatch.setattr(kit, "all_parts", lambda device, quick=False: parts)
    out = tmp_path / "gpu.json"
    status = kit.run_kit(["--out", str(out), *arguments])
    return status, json.loads(out.read_text())


def test_no_part_stops_the_next_and_what_does_not_fit_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [
        part("import sys; sys.exit(1)", "first", least_s=1),
        part(WRITES, "second", least_s=1),
        part(WRITES, "third", least_s=1000),
    ]
    status, found = run_kit(monkeypatch, tmp_path, parts, "--budget_s", "100")
    assert status == 1
    assert [each["status"] for each in found["parts"].values()] == ["failed", "done", "skipped"]
    assert "it needs 1012 s: run it alone with --part third" in found["parts"]["third"]["error"]
    assert found["parts"]["second"]["result"] == {"x": 1}
    assert (tmp_path / "gpu-logs" / "first" / "output.txt").exists()


def test_if_the_device_cannot_be_used_the_rest_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [
        part(f"{WRITES}; sys.exit('banner\\ntorch: no CUDA')", "device"),
        part(WRITES, "doctor", needs_device=False),
        part(WRITES, "speed-64"),
    ]
    status, found = run_kit(monkeypatch, tmp_path, parts)
    assert (status, found["parts"]["doctor"]["status"], found["parts"]["speed-64"]["status"]) == (1, "done", "skipped")
    assert found["parts"]["speed-64"]["error"] == "the device cannot be used: torch: no CUDA"
    assert found["parts"]["device"]["result"] == {"x": 1}


def test_parts_are_compared_where_both_ran() -> None:
    def trained(speed: float, simulate_s: float = 0.5) -> dict[str, Any]:
        phases = {"simulate": simulate_s, "learn": 0.5}
        return {
            "steps_per_s": speed,
            "timing": "events",
            "iterations": 20,
            "iteration_phases_s": phases,
            "device_bound_s": {},
            "iteration_s": sum(phases.values()),
        }

    results = {
        "speed-1024": trained(100.0),
        "speed-4096": trained(400.0),
        "speed-4096-scored": trained(300.0),
        "speed-4096-launched": trained(100.0),
        "speed-4096-scored-synchronized": {**trained(250.0, simulate_s=0.8), "timing": "synchronized"},
        "start-cold": {"phases": {"startup": 5.0, "compile": 60.0}},
    }
    found = compared(results)
    assert found["steps_per_s"]["1024"] == {"without": 100.0, "with_held_out_slots": None}
    assert found["speed_lost_to_held_out_slots"] == {"4096": 0.25}
    assert found["speed_captured_over_launched"] == 4.0
    assert found["start-cold"] == {"startup": 5.0, "compile": 60.0}
    assert found["events_against_synchronized"] == ["simulate: 500.0 ms by events, and 800.0 ms synchronized"]
    assert compared({}) == {}
