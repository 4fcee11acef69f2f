"""Bottlenecks of runs, and advice that is computed from measured figures only."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ledger_lab.cli.report import build_report
from tests.fakes.bottlenecks import GPU, MS, advised, bottlenecks, step_ms, write_phases


def test_the_bottleneck_is_the_phase_that_took_most_time(tmp_path: Path) -> None:
    write_phases(tmp_path, "aa", {"simulate": 300, "learn": 500})
    write_phases(tmp_path, "bb", {"simulate": 50})
    write_phases(tmp_path, "cc", {"learn": 400, "simulate": 400})
    found = bottlenecks(tmp_path)
    assert [found[run_id].phase for run_id in ("aa", "bb", "cc")] == ["learn", "startup", "simulate"]
    assert found["aa"].share == pytest.approx(5 / 9)


def test_no_bottleneck_without_time_and_no_advice_without_iterations(tmp_path: Path) -> None:
    write_phases(tmp_path, "aa", {}, iterations=0, startup_ms=0)
    write_phases(tmp_path, "bb", {}, iterations=0)
    found = bottlenecks(tmp_path)
    assert found["bb"].phase == "startup" and found["bb"].advice == []
    assert "aa" not in found or found["aa"].advice == []


def test_larger_environments_of_other_runs_are_advised_by_their_time_per_step(tmp_path: Path) -> None:
    for run_id, envs in (("aa", 200), ("bb", 400), ("cc", 800)):
        write_phases(tmp_path, run_id, {"simulate": step_ms(envs), "learn": 40}, num_envs=envs, startup_ms=0)
    found = bottlenecks(tmp_path)
    advice = advised(found["aa"], "train in 800 environments instead of 200")
    assert advice is not None and advice.caveat == "may take more steps to learn"
    saved = 1 - (step_ms(800) / 4) / step_ms(200)
    assert advice.gain == pytest.approx(saved * step_ms(200) / (step_ms(200) + 40))
    assert "took 75 µs per environment step here, and 37.5 µs in the median of runs in 800" in advice.basis
    assert advised(found["cc"], "environments") is None, "nothing larger was measured"
    gains = [a.gain for a in found["aa"].advice]
    assert gains == sorted(gains, reverse=True)


@pytest.mark.parametrize(
    "change",
    [
        {"task": "other"},
        {"device": "cuda:0"},
        {"physics": "ovphysx"},
        {"hardware": {"cpu": "other"}},
        {"request": {"cpu_threads": 1}},
        {"versions": {"newton": "2"}},
        {"overrides": ["env.decimation=4"]},
        {"config_sha256": {"env": "0", "agent": "other"}},
        {"timing": "synchronized"},
        {"world_size": 2},
        {"rl_library": "skrl"},
    ],
    ids=str,
)
def test_runs_in_other_surroundings_are_ignored(tmp_path: Path, change: dict[str, object]) -> None:
    write_phases(tmp_path, "aa", {"simulate": step_ms(200)}, num_envs=200)
    write_phases(tmp_path, "bb", {"simulate": step_ms(400)}, **{"num_envs": 400, **change})
    assert advised(bottlenecks(tmp_path)["aa"], "environments") is None


def test_rarer_scoring_saves_the_time_outside_the_slots(tmp_path: Path) -> None:
    phases = {"simulate": 100, "evaluate": 160}  # 64 + 64 slots: 100 of it belong to the steps, 60 to the scoring
    fields = {"num_envs": 64, "held_out_slots": 64, "startup_ms": 0}
    write_phases(tmp_path, "aa", phases, checkpoints=5, judged=5, **fields)
    write_phases(tmp_path, "bb", {"simulate": 100, "evaluate": 100}, checkpoints=5, judged=5, **fields)
    write_phases(tmp_path, "cc", phases, checkpoints=2, judged=2, **fields)
    found = bottlenecks(tmp_path)
    advice = advised(found["aa"], "--eval_every 2")
    assert advice is not None and advice.gain == pytest.approx(30 / 260)
    assert all(advised(found[run_id], "--eval_every") is None for run_id in ("bb", "cc"))


@pytest.mark.parametrize("timing", ["host", "events"])
def test_advice_never_compares_times_of_different_timing_modes(tmp_path: Path, timing: str) -> None:
    slow = {"overrides": ["env.sim.physics.use_cuda_graph=False"], "num_envs": 64, "held_out_slots": 64}
    on_gpu = {"startup_ms": 3000, "epochs": 1, **GPU}
    write_phases(tmp_path, "aa", {"simulate": 200}, **{**on_gpu, **slow, "timing": "synchronized"})
    write_phases(tmp_path, "bb", {"simulate": 50}, **{**on_gpu, "startup_ms": 1000, "timing": timing})
    write_phases(tmp_path, "cc", {"simulate": 55}, **{**on_gpu, "startup_ms": 1000, "timing": timing, "num_envs": 128})
    assert bottlenecks(tmp_path)["aa"].advice == []


def test_times_of_launches_are_not_taken_for_times(tmp_path: Path) -> None:
    settings = {"startup_ms": 0, "checkpoints": 5, "judged": 5, "held_out_slots": 64, "num_envs": 64, **GPU}
    phases = {"simulate": 1, "manage": 5, "evaluate": 94, "learn": 20}
    for run_id, more in (("aa", {}), ("bb", {"num_envs": 128})):
        write_phases(tmp_path, run_id, phases, telemetry=(0.3, 0.98, 10), **{**settings, **more, "timing": "host"})
    found = bottlenecks(tmp_path)["aa"]
    assert (found.phase, found.times_launches, found.share, found.advice) == ("training loop", True, 1.0, [])
    write_phases(tmp_path / "cpu", "aa", phases, startup_ms=0)
    assert bottlenecks(tmp_path / "cpu")["aa"].phase == "evaluate", "a CPU has computed what it has launched"


def test_the_share_that_a_device_determined_is_told_if_it_was_measured(tmp_path: Path) -> None:
    write_phases(tmp_path, "aa", {"simulate": 300}, startup_ms=0, **GPU)
    bound = {"simulate": 270 * MS}
    write_phases(tmp_path, "bb", {"simulate": 300}, startup_ms=0, device_bound_ns=bound, **GPU)
    found = bottlenecks(tmp_path)
    assert (found["aa"].device_bound, found["bb"].device_bound) == (None, pytest.approx(0.9))


def test_the_report_has_the_best_advice_and_the_json_has_everything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for run_id, envs in (("aa", 200), ("bb", 400)):
        write_phases(tmp_path / "logs", run_id, {"simulate": step_ms(envs)}, num_envs=envs, startup_ms=500)
    out = tmp_path / "report.json"
    assert build_report(["aa", "--log_root", str(tmp_path / "logs"), "--json", str(out)]) == 0
    (run,) = json.loads(out.read_text())["runs"]
    assert run["bottleneck"]["phase"] == "simulate"
    assert run["bottleneck"]["advice"][0]["action"] == "train in 400 environments instead of 200"
    assert {"gain", "basis", "caveat"} <= set(run["bottleneck"]["advice"][0])
    capsys.readouterr()
    assert build_report(["aa", "--log_root", str(tmp_path / "logs")]) == 0
    shown = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if line]
    assert ["advice", "train in 400 environments instead of 200"] in [
        [words[0], words[-1].partition(":")[0]] for words in shown
    ]
