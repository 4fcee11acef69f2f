"""A profile of a real task: every component, consistent figures, and files with its id."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from ledger_lab.ledger import read_ledger
from ledger_lab.ledger.meters.probes import Probes
from ledger_lab.training.profiling.run import _train_for_nsys
from ledger_lab.training.profiling.stages import Ranges, Schedule, Stages, components
from tests.conftest import script

EVERY_COMPONENT = {
    "iteration",
    "act",
    "policy forward",
    "value forward",
    "environment step",
    "actions: process",
    "actions: apply",
    "cart_force",
    "write to physics",
    "physics step",
    "read from physics",
    "terminations",
    "time_out",
    "cart_out_of_bounds",
    "rewards",
    "alive",
    "terminating",
    "pole_pos",
    "cart_vel",
    "pole_vel",
    "reset",
    "events",
    "reset: reset_cart",
    "reset: reset_pole",
    "commands",
    "observations",
    "policy.joint_pos",
    "policy.joint_vel",
    "store transition",
    "returns",
    "update",
    "minibatch step",
    "optimizer step",
    "policy normalizer",
    "value normalizer",
    "log",
    "checkpoint",
}


def test_the_parts_of_a_real_tasks_iteration_are_profiled(tmp_path: Path) -> None:
    finished = script("profile_run", "--num_envs", "32", "--device", "cpu", "--warm_up", "1", "--iterations", "2",
                      "--trace", "--json", tmp_path / "out.json", "--log_root", tmp_path / "logs")  # fmt: skip
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "Parsing configuration" not in finished.stdout
    files = [path for path in (tmp_path / "logs").rglob("*") if path.is_file()]
    (run_dir,) = {path.parent for path in files}
    run_id = run_dir.name.rpartition("_")[2]
    assert run_dir.relative_to(tmp_path / "logs").parts[:2] == ("rsl_rl", "ledgerlab_cartpole")
    assert sorted(path.name for path in files) == [
        f"console_{run_id}.log",
        f"operators_{run_id}.txt",
        f"profile_{run_id}.json",
        f"trace_{run_id}.json.gz",
    ]
    assert read_ledger(tmp_path / "logs").runs == (), "a profile is no run"

    profile = json.loads((run_dir / f"profile_{run_id}.json").read_text())
    assert json.loads((tmp_path / "out.json").read_text()) == profile
    assert (profile["run_id"], profile["num_envs"], len(profile["plain_iteration_us"])) == (run_id, 32, 2)
    found = {tuple(each["path"]): each for each in profile["components"]}
    assert {path[-1] for path in found} >= EVERY_COMPONENT
    for path, each in found.items():
        figures = [each[name] for name in ("median_us", "p10_us", "p90_us", "n", "calls_per_iteration", "share")]
        assert all(math.isfinite(value) and value > 0 for value in figures), path
        assert each["p10_us"] <= each["median_us"] <= each["p90_us"], path
        assert path[-1] in finished.stdout
    inside = [each for path, each in found.items() if path[0] == "iteration"]
    assert sum(each["own_share"] for each in inside) == pytest.approx(1.0)
    per_iteration = {path: each["calls_per_iteration"] for path, each in found.items()}
    assert per_iteration[("iteration", "environment step")] == 32
    assert per_iteration[("iteration", "environment step", "physics step")] == 64, "two physics steps per step"
    assert per_iteration[("iteration", "update", "minibatch step")] == 5 * 4
    assert per_iteration[("checkpoint",)] == pytest.approx(1 / 50)

    trace = json.loads(gzip.decompress((run_dir / f"trace_{run_id}.json.gz").read_bytes()))
    named = {event.get("name") for event in trace["traceEvents"]}
    assert {"simulate", "manage", "infer", "returns", "learn", "aten::addmm"} <= named
    assert "aten::" in (run_dir / f"operators_{run_id}.txt").read_text()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--iterations", "0"], "--iterations 0: must be at least 1"),
        (["--warm_up", "0"], "--warm_up 0: must be at least 1"),
        (["--nsys", "--trace"], "choose one"),
        (["--num_envs", "0"], "--num_envs 0: must be at least 1"),
        (["env.decimatoin=4"], "did you mean 'decimation'"),
        (["--json", "/nowhere/profile.json"], "--json /nowhere/profile.json: its folder does not exist"),
    ],
)
def test_an_impossible_profile_is_refused_before_anything_is_written(
    arguments: list[str], complaint: str, tmp_path: Path
) -> None:
    from ledger_lab.errors import UserError
    from ledger_lab.training.profiling.run import profile_run

    with pytest.raises(UserError) as raised:
        profile_run([*arguments, "--device", "cpu", "--log_root", str(tmp_path / "logs")])
    assert complaint in str(raised.value) and "\n" not in str(raised.value)
    assert not (tmp_path / "logs").exists()


def test_the_timeline_of_nsight_systems_begins_after_the_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr("torch.cuda.profiler.start", lambda: told.append("start"))
    monkeypatch.setattr("torch.cuda.profiler.stop", lambda: told.append("stop"))
    ranges = Ranges(nvtx=False)
    schedule = Schedule(warm_up=3, pairs=0, traced=0)
    stages = Stages(schedule, Probes(), ranges, None, lambda done: told.append(f"{done} {ranges.active}"))

    class Trainer:
        def train(self, observer: Callable[[int, dict[str, float]], bool]) -> None:
            for done in range(1, 6):
                observer(done, {})

    _train_for_nsys(stages, Trainer(), ranges, 2, on_gpu=True)
    assert told == ["1 False", "2 False", "start", "3 True", "4 True", "5 True", "stop"]


def test_shares_follow_from_calls_and_times() -> None:
    ticks = iter([0, 10, 30, 40, 60, 100])
    probes = Probes(clock_ns=lambda: next(ticks))
    probes.open("iteration")
    for name in ("physics step", "physics step"):
        with probes.window(name):
            pass
    probes.close()
    ticks = iter([0, 5000])
    with probes.window("checkpoint"):
        pass
    iteration, physics, checkpoint = components(probes.samples, 1, 0.01)
    assert (iteration.share, iteration.own_share) == (1.0, pytest.approx(0.6))
    assert (physics.share, physics.calls_per_iteration, physics.n) == (pytest.approx(0.4), 2, 2)
    assert checkpoint.share == pytest.approx(0.5), "50 times an iteration, every hundredth one"
