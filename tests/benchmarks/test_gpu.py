"""The GPU kit runs every part in a process of its own, and keeps what it found whatever happens to a part."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.comparison import ROOT
from benchmarks.gpu import checks, device, kit, surroundings, waits
from benchmarks.gpu.compared import compared
from benchmarks.gpu.part import FIGURES, Part, keep_journals, read_figures, run_part
from benchmarks.gpu.parts import all_parts
from benchmarks.gpu.readers import read_without_cuda
from ledger_lab.errors import UserError
from ledger_lab.ledger.endings import Terminated
from ledger_lab.reports.terminal.exit_status import ENDING
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


def test_a_part_that_fails_tells_its_error_and_its_figures_so_far(tmp_path: Path) -> None:
    failed = run_part(part(f"{WRITES}; print('out of luck'); sys.exit(3)"), tmp_path / "a", os.environ, 60)
    assert (failed.status, failed.exit_status, failed.result) == ("failed", 3, {"x": 1})
    assert failed.error == "exit status 3: out of luck"
    silent = run_part(part("pass"), tmp_path / "b", os.environ, 60)
    assert silent.status == "failed"
    assert "no figures: FileNotFoundError" in (silent.error or "")


def test_a_part_that_takes_too_long_is_ended_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.gpu.part.GRACE_S", 0.2)
    deaf = "import signal, subprocess, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    child = "child = subprocess.Popen(['sleep', '100']); pathlib.Path(r'{folder}', 'pid').write_text(str(child.pid))"
    slow = run_part(part(f"{deaf}; {WRITES}; {child}; time.sleep(100)"), tmp_path / "a", os.environ, 3)
    assert (slow.status, slow.exit_status, slow.result) == ("timed out", None, {"x": 1})
    assert slow.error == "not finished after 3 s"
    wait_until(lambda: _is_dead(tmp_path / "a" / "pid"), "the killed child is dead", 30)


def test_a_worker_in_a_group_of_its_own_has_time_to_end_but_no_longer(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("benchmarks.gpu.part.GRACE_S", 2.0)
    worker = (
        "import os, signal, sys, time\n"
        "os.setpgid(0, 0)\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "open(sys.argv[1] + '/pid', 'w').write(str(os.getpid()))\n"
        "time.sleep(0.5)\n"  # longer than the part lives after SIGTERM
        "open(sys.argv[1] + '/saved', 'w')\n"
        "time.sleep(100)"
    )
    starts = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {worker!r}, r'{{folder}}'])"
    meets = "[time.sleep(0.01) for _ in iter(pathlib.Path(r'{folder}', 'pid').exists, True)]"
    slow = run_part(part(f"{WRITES}; {starts}; {meets}; time.sleep(100)"), tmp_path / "a", os.environ, 2)
    assert slow.status == "timed out"
    assert (tmp_path / "a" / "saved").exists()
    assert _is_dead(tmp_path / "a" / "pid")


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


def test_results_of_tests_are_there_when_the_rest_is_ended(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import os, pytest\n"
        "def test_good(): pass\n"
        "def test_bad(): assert 1 == 2\n"
        "@pytest.mark.skip(reason='not today')\n"
        "def test_not(): pass\n"
        "@pytest.fixture\n"
        "def broken(): raise RuntimeError('no device')\n"
        "def test_without(broken): pass\n"
        "def test_ended(): os._exit(9)\n"
    )
    results = tmp_path / FIGURES
    options = ("-q", "-o", "addopts=", "-p", "benchmarks.gpu.results_of_tests", f"--results={results}")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=ROOT,
        check=False,
        capture_output=True,
    )
    assert done.returncode == 9
    found = read_figures(tmp_path)
    assert found["counts"] == {"passed": 1, "failure": 1, "skipped": 1, "error": 1}
    told = {name.rpartition("::")[2]: result for name, result in found["tests"].items()}
    assert told["test_good"] == "passed"
    assert told["test_bad"].startswith("failure: assert 1 == 2")
    assert told["test_not"] == "skipped: Skipped: not today"
    assert told["test_without"] == "error: RuntimeError: no device"


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


def test_the_output_of_a_part_is_kept_if_the_kit_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = f"import os, signal, time; {WRITES}; print('so far', flush=True); os.kill(os.getppid(), signal.SIGTERM)"
    handlers = [signal.getsignal(each) for each in ENDING]
    with pytest.raises(Terminated):
        run_kit(monkeypatch, tmp_path, [part(f"{asked}; time.sleep(100)"), part(WRITES, "never")])
    assert [signal.getsignal(each) for each in ENDING] == handlers
    assert (tmp_path / "gpu-logs" / "tried" / "output.txt").read_text() == "so far\n"
    found = json.loads((tmp_path / "gpu.json").read_text())
    assert found["not_run"] == ["tried", "never"]


def test_kernels_are_compiled_into_a_folder_that_remains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = "folder = pathlib.Path(os.environ['WARP_CACHE_PATH'], '1.0', 'wp_x'); folder.mkdir(parents=True)"
    parts = [part(f"import os; {WRITES}; {kernel}", "first"), part(WRITES, "second")]
    status, found = run_kit(monkeypatch, tmp_path, parts, "--caches", str(tmp_path / "kernels"))
    assert status == 0
    assert [each["cached_kernels_before"] for each in found["parts"].values()] == [0, 1]
    assert (tmp_path / "kernels" / "warp" / "1.0" / "wp_x").is_dir()


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


def test_a_device_that_does_not_answer_or_computes_wrong_numbers_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = part("import time; time.sleep(100)", "device", limit_s=0.5)
    _, found = run_kit(monkeypatch, tmp_path, [slow, part(WRITES, "speed-64")], "--logs", str(tmp_path / "logs"))
    assert found["parts"]["speed-64"]["error"].startswith("the device cannot be used: not finished after 0 s")
    wrong = {"torch_device": {"product_is_right": False}, "warp_device": {"numbers_are_right": True}}
    monkeypatch.setattr(device, "ASKED", {name: (lambda _, answer=answer: answer) for name, answer in wrong.items()})
    assert device.main([str(tmp_path / "device.json"), "cpu"]) == 1
    assert capsys.readouterr().err == "torch_device: product_is_right is false\n"


def test_figures_that_cannot_be_compared_or_written_do_not_stop_the_kit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [
        part("pass", "speed-1024", read=lambda folder: {"steps_per_s": "fast"}),
        part("pass", "speed-1024-scored", read=lambda folder: {"steps_per_s": 1.0}),
        part("pass", "odd", read=lambda folder: {"path": folder}),
        part(WRITES, "last"),
    ]
    status, found = run_kit(monkeypatch, tmp_path, parts)
    assert status == 1
    assert [each["status"] for each in found["parts"].values()] == ["done", "done", "failed", "done"]
    assert "TypeError" in found["compared"]["error"]
    assert "not JSON serializable" in found["parts"]["odd"]["error"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--part", "spede-1024"], "no part 'spede-1024': did you mean 'speed-1024'"),
        (["--part", "nothing-"], "no part 'nothing-'"),
        (["--budget_s", "0"], "--budget_s must be above 0"),
        (["--device", "cpu"], "with --device cpu, add --quick"),
        (["--logs", "."], "exists already"),
        (["--caches", __file__], "is not a folder"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(arguments: list[str], message: str, tmp_path: Path) -> None:
    out = tmp_path / "gpu.json"
    with pytest.raises(UserError, match=message) as refusal:
        kit.run_kit(["--out", str(out), *arguments])
    assert "\n" not in str(refusal.value)
    assert not out.exists()


def test_names_are_unique_and_can_stand_for_several_parts() -> None:
    parts = all_parts("cuda")
    assert len({each.name for each in parts}) == len(parts)
    chosen = kit._chosen(parts, ["train-cartpole-", "device"])
    assert [each.name for each in chosen] == [
        *("device", "train-cartpole-rsl_rl", "train-cartpole-skrl", "train-cartpole-rl_games")
    ]


def test_only_journals_and_the_ends_of_logs_are_kept(tmp_path: Path) -> None:
    run = tmp_path / "part" / "rsl_rl" / "run"
    run.mkdir(parents=True)
    for name, size in (("journal-1-0.jsonl", 300_000), ("model_1.pt", 10), ("console.log", 300_000)):
        (run / name).write_bytes(b"x" * size)
    keep_journals(tmp_path / "part", tmp_path / "kept")
    kept = {path.name: path.stat().st_size for path in (tmp_path / "kept").rglob("*.*")}
    assert kept == {"journal-1-0.jsonl": 300_000, "console.log": 100_000}


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


def test_waits_are_counted_by_place_while_the_counter_is_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device=None: None)
    found = waits.Waits("cpu")

    def wait() -> None:
        torch.cuda.synchronize()
        warnings.warn("called a synchronizing CUDA operation (somewhere)", stacklevel=1)

    with warnings.catch_warnings(), found.counted():
        wait()
        found.switch(True)
        wait()
        wait()
        found.switch(False)
        wait()
    kinds = {name.partition(" at ")[0]: count for name, count in found.counts.items()}
    assert kinds == {"torch torch.cuda.synchronize": 2, "torch operation": 2}
    assert all("tests/benchmarks/test_gpu.py:" in name for name in found.counts)
    assert waits.per_step(found.counts, 8)["waits_per_step"] == 0.5
    places = {"torch operation at source/ledger_lab/panels/slots.py:1": 8, "warp x at newton/solvers/a.py:2": 4}
    assert waits.per_step(places, 8)["waits_per_step_by_folder"] == {"ledger_lab/panels": 1.0, "newton": 0.5}


def test_from_a_source_tree_the_parts_find_tasks_and_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surroundings, "_is_installed", lambda: False)
    found = surroundings.environ_of_parts(
        tmp_path, {"HOME": "/nowhere", "PYTHONPATH": "/packages"}, caches=tmp_path / "caches"
    )
    source, root, metadata, packages = found["PYTHONPATH"].split(os.pathsep)
    assert (Path(source), Path(root), packages) == (surroundings.ROOT / "source", surroundings.ROOT, "/packages")
    (points,) = Path(metadata).rglob("entry_points.txt")
    assert "ledger_lab = ledger_lab.tasks.registered" in points.read_text()
    assert os.access(found["HOME"], os.W_OK)
    assert found["WARP_CACHE_PATH"].startswith(str(tmp_path))
    assert surroundings.cached_kernels(found) == 0


def test_a_home_and_caches_that_can_be_used_are_used(tmp_path: Path) -> None:
    found = surroundings.environ_of_parts(tmp_path, {"HOME": str(tmp_path)}, caches=None)
    assert found["HOME"] == str(tmp_path)
    assert surroundings.cached_kernels(found) is None


def test_checks_tell_how_a_training_would_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost() -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered\nmore")

    assert checks._ending(lost) == {
        "status": "crashed",
        "error": "RuntimeError: CUDA error: an illegal memory access was encountered",
        "notes": [],
    }
    assert checks._ending(lambda: None)["status"] is None
    for passed in (True, False):
        monkeypatch.setattr(checks, "CHECKS", {"fault": lambda device, passed=passed: {"passed": passed}})
        assert checks.main([str(tmp_path / "found.json"), "cuda", "fault"]) == (0 if passed else 1)
        assert json.loads((tmp_path / "found.json").read_text()) == {"passed": passed}


def test_a_training_on_the_cpu_must_not_use_cuda(tmp_path: Path) -> None:
    (tmp_path / FIGURES).write_text('{"torch_uses_cuda": false}')
    assert read_without_cuda(tmp_path)
    (tmp_path / FIGURES).write_text('{"torch_uses_cuda": true}')
    with pytest.raises(ValueError, match="torch used CUDA"):
        read_without_cuda(tmp_path)
