"""Gradient steps beside the simulation: one step of lag, whatever the speed of the threads, also after a resumption."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from ledger_lab.errors import UserError
from ledger_lab.ledger import Status
from ledger_lab.ledger.endings import status_of
from ledger_lab.ledger.meters import Phase
from ledger_lab.mujoco_cpu.threads import at_most_threads, pool
from ledger_lab.training.runners.process_group import ALONE
from ledger_lab.training.runners.threads import Threads
from tests.fakes.off_policy import RECIPES, Training, adapter, learned, translated
from tests.fakes.toy_env import ToyEnv

each_algorithm = pytest.mark.parametrize("algorithm", RECIPES)

OVERLAPS = {"overlap": True}
WARM_UP, UPDATES = 20, 2
"""Steps before the first update, and updates per step, of the small recipes."""


def overlapping(algorithm: str, run_dir: Path, **recipe: Any) -> Training:
    """Return a training whose gradient steps run beside the simulation."""
    return Training(algorithm, run_dir, settings=OVERLAPS, **{"observation_normalization": True, **recipe})


def learner_of(training: Training) -> str:
    """Return a hash of the learner, which differs if a bit differs."""
    hashes: list[str] = []
    ALONE.require_equal(training.trainer.state(), hashes.append)
    return hashes[0]


def delayed(owner: object, name: str, by_s: float) -> None:
    """Make a method of an object slow."""
    method = getattr(owner, name)

    def slow(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passes through
        time.sleep(by_s)
        return method(*args, **kwargs)

    setattr(owner, name, slow)


def learner_threads() -> list[str]:
    """Return the threads of learners that exist."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("learner")]


@each_algorithm
def test_the_speed_of_the_threads_changes_nothing(algorithm: str, tmp_path: Path) -> None:
    plain, slow_simulation, slow_learner = (
        overlapping(algorithm, tmp_path / name) for name in ("plain", "simulation", "learner")
    )
    delayed(slow_simulation.env.sim, "step", 0.002)
    delayed(slow_learner.trainer.replay, "draw", 0.002)
    for training in (plain, slow_simulation, slow_learner):
        torch.manual_seed(7)
        training.train()
    assert learner_of(plain) == learner_of(slow_simulation) == learner_of(slow_learner)
    assert torch.equal(torch.stack(plain.env.actions), torch.stack(slow_learner.env.actions))
    assert not learner_threads(), "none outlives its training"


@each_algorithm
def test_the_acting_policy_lags_by_exactly_one_step(algorithm: str, tmp_path: Path) -> None:
    drawn: dict[bool, list[int]] = {}
    finished: dict[bool, list[int]] = {}
    for overlaps in (False, True):
        training = Training(algorithm, tmp_path / str(overlaps), settings={"overlap": overlaps})
        watch(training, drawn.setdefault(overlaps, []), finished.setdefault(overlaps, []))
        training.train()
    assert drawn[False] == [added for added in range(WARM_UP + 1, 49) for _ in range(UPDATES)]
    assert drawn[True] == drawn[False][:-UPDATES], "the same memory for the same update; the last one is still due"
    steps = range(len(finished[True]))
    assert finished[False] == [max(0, step - WARM_UP) for step in steps]
    assert finished[True] == [max(0, step - WARM_UP - 1) for step in steps]


def watch(training: Training, drawn: list[int], finished: list[int]) -> None:
    """Write down how many steps the memory had received at each draw, and how many updates had ended at each action."""
    replay, agent = training.trainer.replay, training.agent
    draw, act = replay.draw, agent.act

    def watched_draw(batch_size: int) -> Any:  # noqa: ANN401 - passes through
        drawn.append(replay.added)
        return draw(batch_size)

    def watched_act(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passes through
        finished.append(len(drawn) // UPDATES)
        return act(*args, **kwargs)

    replay.draw, agent.act = watched_draw, watched_act


@pytest.fixture(scope="module", params=RECIPES)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Training:
    """A short training that overlaps."""
    training = overlapping(request.param, tmp_path_factory.mktemp("overlapping"))
    training.clock.set_base(Phase.UNATTRIBUTED)
    training.train()
    return training


def test_the_lag_and_the_overlapped_time_are_recorded(trained: Training) -> None:
    first, second, last = trained.heard.figures.values()
    assert not any(name.startswith(("overlapped", "policy_lag")) for name in first), "before the first update"
    for figures in (second, last):
        assert (figures["policy_lag_steps"], figures["policy_lag_updates"]) == (1.0, float(UPDATES))
        assert {"policy_loss", "value_loss", "learning_rate"} <= set(figures)
    assert 0.0 <= last["overlapped_s"] < trained.clock.wall_ns() / 1e9
    assert 0 < second["replay_age"] < 32 and 0 < last["replay_age"] < 48


def test_the_phases_are_those_of_the_main_thread(trained: Training) -> None:
    phase_ns, wall_ns = trained.clock.flush()
    assert sum(phase_ns.values()) == wall_ns
    assert {"manage", "infer", "replay_write", "learn", "log"} <= set(phase_ns)
    assert "replay_sample" not in phase_ns, "the learner draws on its own thread"


def test_an_update_draws_nothing_from_the_stream_of_the_process(trained: Training) -> None:
    before, own = torch.get_rng_state(), trained.trainer.state()["overlap"]["stream"]
    trained.trainer._library["update"](timestep=0, timesteps=0)
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.equal(trained.trainer.state()["overlap"]["stream"], own)


def test_only_the_callables_of_the_main_thread_are_in_the_profile(trained: Training) -> None:
    parts = trained.trainer.parts()
    assert all(callable(getattr(part.owner, part.attribute)) for part in parts)
    assert "wait for the learner" in {part.name for part in parts}


@each_algorithm
@pytest.mark.parametrize(("interrupted", "critics"), [(4, 3)])
def test_a_resumed_training_is_the_same_training(
    algorithm: str, interrupted: int, critics: int, tmp_path: Path
) -> None:
    whole = overlapping(algorithm, tmp_path / "whole", iterations=6, critics=critics)
    whole.train()
    begun = overlapping(algorithm, tmp_path / "begun", iterations=6, critics=critics)
    begun.heard.stop_after = interrupted
    begun.train()
    resumed = overlapping(algorithm, tmp_path / "resumed", iterations=6, critics=critics)
    resumed.go_on_from(begun)
    resumed.train()
    assert learner_of(resumed) == learner_of(whole)
    assert {**learned(begun), **learned(resumed)} == learned(whole)


@each_algorithm
def test_a_resumed_training_with_an_empty_memory_refills_first(algorithm: str, tmp_path: Path) -> None:
    begun = overlapping(algorithm, tmp_path / "begun")
    begun.train()
    again = overlapping(algorithm, tmp_path / "again", iterations=5)
    again.trainer.restore(begun.trainer.state())
    again.train()
    assert "value_loss" not in again.heard.figures[4] and "value_loss" in again.heard.figures[5]


@pytest.mark.parametrize(
    ("failure", "status"),
    [(MemoryError("no room"), Status.OUT_OF_MEMORY), (FloatingPointError("loss"), Status.NON_FINITE)],
)
def test_an_error_of_the_learner_ends_the_training_under_its_own_name(
    failure: Exception, status: Status, tmp_path: Path
) -> None:
    training = overlapping("sac", tmp_path)

    def fail(_: int) -> Any:  # noqa: ANN401 - never returns
        raise failure

    training.trainer.replay.draw = fail
    with pytest.raises(type(failure)) as raised:
        training.train()
    assert raised.value is failure and status_of(raised.value) is status
    assert training.trainer.replay.added == WARM_UP + 1, "in the first step with an update"
    assert not learner_threads()


def test_if_the_simulation_fails_the_learner_rests_before_anything_else_happens(tmp_path: Path) -> None:
    training = overlapping("sac", tmp_path)
    ended = []
    draw, step = training.trainer.replay.draw, training.env.sim.step

    def slow(batch_size: int) -> Any:  # noqa: ANN401 - passes through
        time.sleep(0.05)
        ended.append(time.perf_counter())
        return draw(batch_size)

    def fail() -> None:
        step()
        if training.trainer.replay.added > WARM_UP:
            raise RuntimeError("unstable")

    training.trainer.replay.draw, training.env.sim.step = slow, fail
    with pytest.raises(RuntimeError, match="unstable"):
        training.train()
    assert len(ended) == UPDATES, "the update was finished"
    assert not learner_threads()


def test_simulation_and_learner_share_the_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shares = {}
    for cores, learner in ((1, 1), (2, 1), (4, 1), (16, 8)):
        monkeypatch.setattr("ledger_lab.off_policy.skrl.off_policy_adapter.own_cores", lambda cores=cores: cores)
        training = overlapping("sac", tmp_path / str(cores))
        training.trainer.compute_in(Threads(act=1, learn=learner))
        overlap = training.trainer._overlap
        shares[cores] = (overlap._step_threads, overlap._learner_threads)
    assert shares == {1: (1, 1), 2: (1, 1), 4: (3, 1), 16: (8, 8)}


def test_the_threads_of_the_physics_are_limited_for_a_while() -> None:
    threads = pool()
    before, threads.threads = threads.threads, 3
    try:
        with at_most_threads(2) as lift:
            assert threads.threads == 2
            with at_most_threads(8):
                assert threads.threads == 2
            lift()
            assert threads.threads == 3
        assert threads.threads == 3
    finally:
        threads.threads = before


def test_on_a_gpu_it_is_refused_before_anything_is_allocated(tmp_path: Path) -> None:
    env = ToyEnv()
    env.device = "cuda:1"
    with pytest.raises(UserError, match=r"agent.overlap True: .* take turns on cuda:1, .*: leave it out") as refused:
        overlapping("td3", tmp_path, env=env)
    assert "\n" not in str(refused.value)


def test_the_plan_knows_that_the_cores_are_shared() -> None:
    sac, config = adapter("sac"), translated("sac")
    plans = [sac.plan(sac.prepare({**config, **each}, "cpu", max_iterations=3)) for each in ({}, OVERLAPS)]
    assert [plan.overlaps for plan in plans] == [False, True]


def test_anything_but_true_and_false_is_refused() -> None:
    with pytest.raises(UserError, match="agent.overlap 1: must be true or false"):
        adapter("sac").prepare({**translated("sac"), "overlap": 1}, "cpu")


@pytest.mark.parametrize("algorithm", RECIPES)
def test_several_processes_are_refused(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skrl.config.torch._is_distributed", True)
    adapter(algorithm).prepare(translated(algorithm), "cpu")
    with pytest.raises(UserError, match="agent.overlap True: several processes .*: leave it out, or train in one"):
        adapter(algorithm).prepare({**translated(algorithm), "overlap": True}, "cpu")


@each_algorithm
def test_the_learner_works_while_the_simulation_takes_a_step(algorithm: str, tmp_path: Path) -> None:
    training = overlapping(algorithm, tmp_path)
    draws, steps = threading.Event(), threading.Event()
    meetings: list[bool] = []
    draw, step = training.trainer.replay.draw, training.env.sim.step

    def met_draw(batch_size: int) -> Any:  # noqa: ANN401 - passes through
        draws.set()
        meetings.append(steps.wait(timeout=10.0))
        return draw(batch_size)

    def met_step(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passes through
        if learner_threads() and not steps.is_set():
            steps.set()
            meetings.append(draws.wait(timeout=10.0))
        return step(*args, **kwargs)

    training.trainer.replay.draw, training.env.sim.step = met_draw, met_step
    training.train()
    assert meetings and all(meetings), "each waited for the other one"
    assert training.heard.figures[3]["overlapped_s"] > 0.0
