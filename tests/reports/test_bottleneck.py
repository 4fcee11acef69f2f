"""Bottlenecks of runs, and advice that is computed from measured figures only."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from ledger_lab.cli.report import build_report
from ledger_lab.ledger import read_ledger
from ledger_lab.ledger.libraries import agent_key
from ledger_lab.reports import render_report, summarize_cohorts, summarize_run
from ledger_lab.reports.bottleneck import find_bottlenecks
from tests.fakes.bottlenecks import GPU, MS, advised, bottlenecks, step_ms, write_phases
from tests.fakes.ledgers import write_run


@pytest.mark.parametrize(
    ("phases_ms", "name"),
    [
        ({"simulate": 600, "manage": 200}, "simulation-bound"),
        ({"simulate": 100, "manage": 200}, "manager-bound"),
        ({"simulate": 100, "infer": 500}, "inference-bound"),
        ({"simulate": 300, "returns": 200, "learn": 250}, "learner-bound"),
        ({"simulate": 100, "synchronize": 500}, "synchronisation-bound"),
        ({"simulate": 100, "transfer": 500}, "transfer-bound"),
        ({"simulate": 100, "evaluate": 500}, "evaluation-bound"),
        ({"simulate": 100, "log": 500}, "logging-bound"),
        ({"simulate": 100, "checkpoint": 500}, "checkpoint-bound"),
        ({"simulate": 100, "compile": 500}, "compile-bound"),
        ({"simulate": 50}, "start-up-bound"),
        ({"simulate": 100, "unattributed": 500}, "of no known bound"),
    ],
)
def test_the_bottleneck_is_named_after_where_most_time_went(
    tmp_path: Path, phases_ms: dict[str, int], name: str
) -> None:
    write_phases(tmp_path, "aa", phases_ms)
    found = bottlenecks(tmp_path)["aa"]
    assert found.name == name
    assert 0 < found.share <= 1
    assert f"of {1 + sum(phases_ms.values()) / 100:.1f} s" in found.evidence


def test_near_ties_are_named_regardless_of_order(tmp_path: Path) -> None:
    write_phases(tmp_path, "aa", {"learn": 400, "simulate": 400, "manage": 370, "infer": 300})
    found = bottlenecks(tmp_path)["aa"]
    assert (found.name, found.close) == ("simulation-bound", ["learner-bound", "manager-bound"])
    assert "closely followed by learn 25% (4.0 s), manage 24% (3.7 s)" in found.evidence


def test_the_loop_has_its_own_bottleneck_when_start_up_takes_longer(tmp_path: Path) -> None:
    write_phases(tmp_path, "aa", {"learn": 20, "simulate": 10}, startup_ms=5000)
    found = bottlenecks(tmp_path)["aa"]
    assert found.name == "start-up-bound"
    assert "of the training loop, learn 67%" in found.evidence


def test_no_bottleneck_without_time_and_no_advice_without_iterations(tmp_path: Path) -> None:
    write_phases(tmp_path, "aa", {}, iterations=0, startup_ms=0)
    write_phases(tmp_path, "bb", {}, iterations=0)
    found = bottlenecks(tmp_path)
    assert found["bb"].name == "start-up-bound" and found["bb"].advice == []
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


def test_a_replay_memory_changes_with_the_environments(tmp_path: Path) -> None:
    for run_id, envs in (("aa", 200), ("bb", 400)):
        sac = {"rl_library": "skrl", "agent": agent_key("skrl", "sac"), "minibatches": 400 // envs}
        write_phases(tmp_path, run_id, {"simulate": step_ms(envs), "learn": 60}, num_envs=envs, startup_ms=0, **sac)
    (advice,) = bottlenecks(tmp_path)["aa"].advice
    assert advice.caveat is not None and "the size of the replay memory" in advice.caveat


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


def test_environments_are_advised_by_long_runs_that_save_enough(tmp_path: Path) -> None:
    write_phases(tmp_path / "alone", "aa", {"simulate": 100}, num_envs=200)
    for run_id, envs in (("aa", 200), ("bb", 400)):
        write_phases(tmp_path / "slower", run_id, {"simulate": envs}, num_envs=envs)
        write_phases(tmp_path / "short", run_id, {"simulate": step_ms(envs)}, num_envs=envs, iterations=4)
    for folder in ("alone", "slower", "short"):
        assert advised(bottlenecks(tmp_path / folder)["aa"], "environments") is None, folder


def test_full_memory_is_the_bottleneck_if_more_work_at_once_needs_more(tmp_path: Path) -> None:
    write_phases(tmp_path, "aa", {"simulate": 500}, telemetry=(0.9, 0.5, 97_000_000_000), **GPU)
    write_phases(tmp_path, "bb", {"simulate": 500}, telemetry=(0.9, 0.5, 50_000_000_000), **GPU)
    write_phases(tmp_path, "cc", {"log": 500}, telemetry=(0.9, 0.5, 97_000_000_000), **GPU)
    found = bottlenecks(tmp_path)
    assert (found["aa"].name, found["aa"].close) == ("memory-bound", ["simulation-bound"])
    assert found["aa"].evidence.startswith("97% of 100.0 GB of memory in use; ")
    assert (found["bb"].name, found["cc"].name) == ("simulation-bound", "logging-bound")


def test_a_device_that_waits_for_one_thread_is_named(tmp_path: Path) -> None:
    for run_id, utilization, thread in (("aa", 0.4, 0.98), ("bb", 0.4, None), ("cc", 0.9, 0.98)):
        write_phases(tmp_path, run_id, {"simulate": 300}, telemetry=(utilization, thread, 10), **GPU)
    found = bottlenecks(tmp_path)
    assert "one thread took 98% of a core, and the device, busy for 30% of the time, waited" in found["aa"].evidence
    assert all("thread" not in found[run_id].evidence for run_id in ("bb", "cc"))


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


def test_start_up_is_compared_with_other_runs(tmp_path: Path) -> None:
    write_phases(tmp_path, "aa", {"simulate": 100}, startup_ms=3000)
    write_phases(tmp_path, "bb", {"simulate": 100}, startup_ms=1000)
    found = bottlenecks(tmp_path)
    warm = advised(found["aa"], "warm caches")
    assert warm is not None and warm.gain == pytest.approx(2 / 4)
    assert found["bb"].advice == []


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
    assert (found.name, found.share, found.advice) == ("of no known bound", 1.0, [])
    assert "times of launches" in found.evidence
    write_phases(tmp_path / "cpu", "aa", phases, startup_ms=0)
    assert bottlenecks(tmp_path / "cpu")["aa"].name == "evaluation-bound", "a CPU has computed what it has launched"


def test_evidence_says_how_much_a_device_determined(tmp_path: Path) -> None:
    write_phases(tmp_path, "aa", {"simulate": 300}, startup_ms=0, **GPU)
    bound = {"simulate": 270 * MS}
    write_phases(tmp_path, "bb", {"simulate": 300}, startup_ms=0, device_bound_ns=bound, **GPU)
    found = bottlenecks(tmp_path)
    assert "determined" not in found["aa"].evidence, "not measured is not zero"
    assert "the GPU determined 90% of this time" in found["bb"].evidence


def test_the_report_has_a_line_each_and_the_json_has_everything(tmp_path: Path) -> None:
    for run_id, envs in (("aa", 200), ("bb", 400)):
        write_phases(tmp_path / "logs", run_id, {"simulate": step_ms(envs)}, num_envs=envs, startup_ms=500)
    out = tmp_path / "report.json"
    assert build_report(["aa", "--log_root", str(tmp_path / "logs"), "--json", str(out)]) == 0
    (run,) = json.loads(out.read_text())["runs"]
    assert run["bottleneck"]["name"] == "simulation-bound"
    assert run["bottleneck"]["advice"][0]["action"] == "train in 400 environments instead of 200"
    assert {"gain", "basis", "caveat"} <= set(run["bottleneck"]["advice"][0])
    runs = read_ledger(tmp_path / "logs").runs
    summaries = [summarize_run(each) for each in runs]
    drawn = StringIO()
    report = render_report(summaries, summarize_cohorts(summaries), 200, find_bottlenecks(runs, summaries))
    Console(file=drawn, width=400).print(report)
    lines = drawn.getvalue().splitlines()
    place = next(index for index, line in enumerate(lines) if line.startswith("aa took"))
    assert lines[place + 1].startswith("  simulation-bound: simulate ")
    assert lines[place + 2].startswith("  → train in 400 environments instead of 200: −")


def test_equal_parts_are_named_in_the_order_of_the_phases(tmp_path: Path) -> None:
    write_run(tmp_path, "aa")
    found = bottlenecks(tmp_path)["aa"]
    assert (found.name, found.close) == ("start-up-bound", ["simulation-bound", "learner-bound"])
