"""A trainer of any framework writes the same rows as LedgerLab's own trainings, however it ends."""

from __future__ import annotations

import dataclasses
import errno
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pytest

from ledger_lab.errors import UserError
from ledger_lab.ledger import CheckpointSaved, Outcomes, Status, read_ledger
from ledger_lab.panels import RULE_VERSION
from ledger_lab.reports import summarize_run
from ledger_lab.reports.audit import broken_verdicts
from ledger_lab.training.recording import RecordedPanel, RecordedRun, record_run
from tests.fakes.supervised import run_of

PANEL = RecordedPanel("panel", seeds=range(100), definition={"environment": "E", "horizon": 10})


TRAINER = """
import sys, time
from pathlib import Path
from ledger_lab.training.recording import RecordedPanel, record_run
panel = RecordedPanel("panel", seeds=range(100), definition={})
plan = {"seed": 3, "device": "cpu", "num_envs": 4, "horizon": 5, "max_iterations": 2}
with record_run(task="T", library="l", panel=panel, target_success=0.9, log_root=Path(sys.argv[1]), **plan) as run:
    run.iteration(1, env_steps=20)
    print("trained", flush=True)
    for _ in range(1200):
        time.sleep(0.05)
"""


def outcomes(seeds: range | list[int], successes: int) -> Outcomes:
    won = [index < successes for index in range(len(seeds))]
    return Outcomes(
        cell=["nominal"] * len(won),
        seed=list(seeds),
        success=won,
        success_any=won,
        steps=[10] * len(won),
        episode_return=[None] * len(won),
        ended_by=["horizon"] * len(won),
        fingerprint=["0"] * len(won),
    )


def begin(log_root: Path, **changes: object) -> AbstractContextManager[RecordedRun]:
    fields: dict[str, object] = {
        "task": "My Task/v0",
        "library": "mine",
        "panel": PANEL,
        "target_success": 0.9,
        "seed": 3,
        "device": "cpu",
        "num_envs": 4,
        "horizon": 5,
        "max_iterations": 2,
        "log_root": log_root,
        "usd_per_hour": 3.6,
    }
    return record_run(**{**fields, **changes})  # type: ignore[arg-type]


def save(run: RecordedRun, name: str = "policy.bin") -> CheckpointSaved:
    (run.directory / name).write_bytes(b"weights")
    return run.checkpoint(run.directory / name)


def test_a_judged_checkpoint_is_checked_and_proven_and_a_near_miss_is_extended(tmp_path: Path) -> None:
    with begin(tmp_path) as run:
        run.iteration(1, env_steps=20)
        left = itertools.chain((50, 95, 93), itertools.repeat(100))
        seen: list[set[int]] = []

        def take(seeds: Sequence[int]) -> Outcomes:
            seen.append(set(seeds))
            return outcomes(list(seeds), next(left))

        first = run.judge(save(run, "first.bin"), take)
        assert [each.purpose for each in first] == ["check"], "a poor policy is not proven"
        (run.directory / "second.bin").write_bytes(b"better weights")
        results = run.judge(run.checkpoint(run.directory / "second.bin"), take)
        check, *proof = results
        assert check.purpose == "check"
        assert {each.purpose for each in proof} == {"proof"}
        assert [each.extension for each in proof] == list(range(len(proof))), "a near miss is extended"
        assert [each.proves for each in proof] == [*[False] * (len(proof) - 1), True]
        assert run.target_reached
    assert seen[0] == seen[1] == set(PANEL.seeds)
    fresh = seen[2:]
    assert len(fresh) > 1
    assert len(set.union(*fresh)) == len(fresh) * len(PANEL.seeds), "an extension has seeds of its own"
    assert not set.union(*fresh) & seen[0]
    assert summarize_run(run_of(tmp_path)).status == Status.TARGET_REACHED


def test_a_run_is_reported_like_any_other(tmp_path: Path) -> None:
    with begin(tmp_path, cohort="c", packages=("pytest",), config={"lr": 0.1}) as run:
        for iteration in (1, 2):
            with run.phase("simulate"):
                time.sleep(0.02)
                with run.phase("infer"):
                    time.sleep(0.01)
            run.iteration(iteration, env_steps=20 * iteration, figures={"mean_return": 1.5, "kl": float("nan")})
        saved = save(run)
        left = iter((95, 95, 100))
        proof = run.judge(saved, lambda seeds: outcomes(list(seeds), next(left)))[-1]
        assert proof.passes
        assert run.target_reached
    recorded = run_of(tmp_path)
    assert [(row.proof, row.extension) for row in recorded.results] == [(1, 0), (1, 0), (1, 1)]
    assert recorded.declared.verdict_rule == RULE_VERSION
    assert recorded.results[1].panel_id != PANEL.id == recorded.results[0].panel_id
    assert recorded.declared.rl_library == "mine"
    assert recorded.declared.versions["pytest"] == pytest.__version__
    assert recorded.declared.config_sha256.keys() == {"agent"}
    assert recorded.directory.parent == (tmp_path / "mine" / "my_task_v0").resolve()
    (attempt,) = recorded.attempts
    windows = attempt.windows
    assert sum(ns for window in windows for ns in window.phase_ns.values()) == attempt.ended.wall_ns  # type: ignore[union-attr]
    trained = [window for window in windows if window.iteration]
    assert [window.figures for window in trained] == [{"mean_return": 1.5}] * 2
    assert [window.non_finite for window in trained] == [["kl"]] * 2
    assert all(window.phase_ns["simulate"] >= 20_000_000 > 10_000_000 <= window.phase_ns["infer"] for window in trained)
    summary = summarize_run(recorded)
    assert summary.status == "target_reached"
    assert (summary.heldout_successes, summary.heldout_episodes) == (195, 200), "all panels of the proof"
    assert summary.env_steps == 40
    assert summary.billable_usd is not None
    assert summary.phases["evaluate"] > 0


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (ValueError("no\nway"), Status.CRASHED, "ValueError: no"),
        (KeyboardInterrupt(), Status.INTERRUPTED, "KeyboardInterrupt"),
        (SystemExit(0), Status.COMPLETED, None),
        (SystemExit(1), Status.CRASHED, "SystemExit: 1"),
    ],
)
def test_the_status_matches_the_end_and_the_exception_is_passed_on(
    tmp_path: Path, error: BaseException, status: Status, reason: str | None
) -> None:
    handler = signal.getsignal(signal.SIGTERM)
    with pytest.raises(type(error)), begin(tmp_path) as run, run.phase("learn"):
        raise error
    (attempt,) = run_of(tmp_path).attempts
    assert attempt.ended is not None
    assert (attempt.ended.status, attempt.ended.reason) == (status, reason)
    assert signal.getsignal(signal.SIGTERM) is handler


@pytest.mark.parametrize(
    ("signum", "status"),
    [
        (signal.SIGINT, Status.INTERRUPTED),
        (signal.SIGTERM, Status.PREEMPTED),
        (signal.SIGKILL, Status.LOST),
    ],
)
def test_signals_end_a_run_with_the_right_status(tmp_path: Path, signum: signal.Signals, status: Status) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", TRAINER, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"trained\n"
        assert run_of(tmp_path).attempts[0].status is Status.RUNNING
        process.send_signal(signum)
        process.communicate(timeout=60)
    assert process.returncode == {signal.SIGTERM: 143}.get(signum, -signum)
    run = run_of(tmp_path)
    assert run.attempts[0].status is status
    assert summarize_run(run).env_steps == 20


def test_a_forked_child_does_not_end_the_run(tmp_path: Path) -> None:
    parent = os.getpid()
    try:
        with begin(tmp_path) as run:
            if (child := os.fork()) == 0:
                raise KeyboardInterrupt
            os.waitpid(child, 0)
            run.iteration(1, env_steps=20)
    finally:
        if os.getpid() != parent:
            os._exit(0)
    (attempt,) = run_of(tmp_path).attempts
    assert attempt.status is Status.COMPLETED
    assert attempt.windows[-2].iteration == 1


def test_invalid_scores_and_checkpoints_are_refused(tmp_path: Path) -> None:
    with begin(tmp_path) as run:
        saved = save(run)
        with pytest.raises(UserError, match="give one outcome for each"):
            run.judge(saved, lambda seeds: outcomes(list(seeds)[1:], 99))
        with pytest.raises(UserError, match="did not record it: score a checkpoint that its own"):
            run.judge(dataclasses.replace(saved, sha256="0" * 64), lambda seeds: outcomes(list(seeds), 99))
        (run.directory / "policy.bin").write_bytes(b"other weights")
        with pytest.raises(UserError, match="had another policy before"):
            run.checkpoint(run.directory / "policy.bin")
        with pytest.raises(UserError, match="did you mean 'mean_return'"):
            run.iteration(1, env_steps=20, figures={"mean_returns": 1.0})
        with pytest.raises(TypeError):
            run.iteration(1, env_steps=1e6)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="'physics' is not a valid Phase"):
            run.phase("physics")
        with pytest.raises(UserError, match="inside the run's directory"):
            run.checkpoint(tmp_path / "elsewhere.bin")
        run.iteration(np.int64(1), env_steps=np.int32(20), figures={"kl": np.float32(0.5)})  # type: ignore[arg-type]
    recorded = run_of(tmp_path)
    assert recorded.results == () and recorded.attempts[-1].status is Status.COMPLETED
    (window,) = (window for _, window in recorded.windows if window.iteration == 1)
    assert (window.env_steps, window.figures) == (20, {"kl": 0.5})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"target_success": 1.5}, "target_success 1.5"),
        ({"panel": RecordedPanel("short", seeds=range(3), definition={})}, "give it more seeds"),
        ({"library": "../up"}, "library '../up'"),
        ({"instance": "none-such"}, "unknown instance"),
        ({"usd_per_hour": -1.0}, "--usd_per_hour"),
    ],
)
def test_an_invalid_declaration_is_refused_before_anything_is_written(
    tmp_path: Path, changes: dict[str, object], said: str
) -> None:
    with pytest.raises(UserError, match=said), begin(tmp_path, **changes):
        pass
    assert list(tmp_path.iterdir()) == []


def test_seeds_that_were_drawn_are_recorded_before_others(tmp_path: Path) -> None:
    with begin(tmp_path) as run:
        saved, other = save(run), run.checkpoint(other_policy(run))
        drawn: list[Sequence[int]] = []

        def fail(seeds: Sequence[int]) -> Outcomes:
            drawn.append(seeds)
            if len(drawn) > 1:
                raise ConnectionError
            return outcomes(list(seeds), 100)

        with pytest.raises(ConnectionError):
            run.judge(saved, fail, episodes=200)
        with pytest.raises(UserError, match=rf"fresh seeds were drawn for checkpoint {saved.sha256[:12]}…"):
            run.judge(other, fail)
        check, proof = run.judge(saved, lambda seeds: outcomes(list(seeds), len(seeds)))
        assert check.passes and proof.proves
        assert proof.outcomes.seed == list(drawn[1]), "it is repeated on the same seeds, whatever their number"
        assert len(drawn[1]) == 200 and not {*drawn[1]} & {*PANEL.seeds}
    assert not list(broken_verdicts(read_ledger(tmp_path)))


def other_policy(run: RecordedRun) -> Path:
    path = run.directory / "another.bin"
    path.write_bytes(b"other weights")
    return path


def test_a_proof_that_could_not_be_written_counts_all_the_same(
    tmp_path: Path,
) -> None:
    with begin(tmp_path) as run:
        saved, broken = save(run), pytest.MonkeyPatch()

        def take(seeds: Sequence[int]) -> Outcomes:
            if set(seeds) == set(PANEL.seeds):
                return outcomes(list(seeds), 100)
            broken.setattr(os, "pwrite", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
            return outcomes(list(seeds), 0)

        with pytest.raises(OSError, match="full"):
            run.judge(saved, take)
        broken.undo()
        assert not run.target_reached
        assert run.judge(saved, lambda seeds: outcomes(list(seeds), len(seeds)), episodes=300)[-1].proves
    first, second = (row for row in run_of(tmp_path).results if row.purpose == "proof")
    assert (first.proof, first.outcomes.successes) == (1, 0), "the row was written later"
    assert (second.proof, second.outcomes.successes) == (2, 300)
    assert not list(broken_verdicts(read_ledger(tmp_path)))


def test_a_run_within_another_leaves_its_handler_of_sigterm(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with begin(tmp_path):
            own = signal.getsignal(signal.SIGTERM)
            with begin(tmp_path):
                pass
            assert signal.getsignal(signal.SIGTERM) is own is not signal.SIG_DFL
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_cohort_may_be_declared_with_its_size(tmp_path: Path) -> None:
    with begin(tmp_path, cohort="c", cohort_size=3):
        pass
    assert [(cohort.name, cohort.size) for cohort in read_ledger(tmp_path).cohorts] == [("c", 3)]
    with pytest.raises(UserError, match="was declared with 3 runs"), begin(tmp_path, cohort="c", cohort_size=4):
        pass
    with pytest.raises(UserError, match="name the cohort"), begin(tmp_path, cohort_size=4):
        pass


def test_panels_differ_in_id_if_anything_relevant_differs() -> None:
    assert RecordedPanel("a", [1, 2], {"x": 1}).id == RecordedPanel("b", [1, 2], {"x": 1}).id
    assert len({RecordedPanel("a", seeds, {"x": x}).id for seeds in ([1, 2], [1, 3]) for x in (1, 2)}) == 4
    fresh = PANEL.with_fresh_seeds(500)
    assert len(fresh.seeds) == 500
    assert not set(fresh.seeds) & set(PANEL.seeds)
    with pytest.raises(ValueError, match="each of them once"):
        RecordedPanel("a", [1, 1], {})
