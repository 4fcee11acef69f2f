"""Writes ledgers of any size, with rows like those of trainings, for benchmarks of readers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from ledger_lab.ledger import (
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    DeviceSample,
    HostSample,
    Outcomes,
    PanelResult,
    PhaseWindow,
    Row,
    RunDeclared,
    ShutdownEnded,
    Status,
    SupervisionStarted,
    Telemetry,
)
from ledger_lab.ledger.costs.prices import load_prices
from ledger_lab.ledger.encoding import GENESIS, encode_fields, encode_line, hash_of
from ledger_lab.panels import VerdictRule

EPISODES = 256
"""Held-out episodes of a panel."""

_SECOND = 1_000_000_000
_STARTUP_NS = 12 * _SECOND
_ITERATION_NS = 390_000_000
_ENV_STEPS = 8192
_CHECKPOINTS = 4
_OTHER_ROWS = 5 + 2 * _CHECKPOINTS
"""Rows of a run that are neither phase windows nor telemetry."""


def least_rows() -> int:
    """Return the smallest number of rows of a run."""
    return _OTHER_ROWS + 2


def write_ledger(
    root: Path,
    runs: int,
    rows: int,
    on_progress: Callable[[int], None] = lambda done: None,
    *,
    episodes: int = EPISODES,
    other_files: int = 0,
) -> None:
    """Write a ledger: per run, a training process's journal and a supervisor's.

    Three in five rows are phase windows, two in five are telemetry of one accelerator. Each run has four checkpoints,
    three scores and a proof.

    Args:
        root: Existing root of the ledger.
        runs: Number of runs.
        rows: Number of rows of all runs together, at least :func:`least_rows` per run.
        on_progress: Called with the number of runs written.
        episodes: Held-out episodes of the panel.
        other_files: Files beside the journals of each run, such as checkpoints and configurations; they are empty.
    """
    counts = [rows // runs + (index < rows % runs) for index in range(runs)]
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("fork")) as pool:
        write = partial(_write_run, root, episodes, other_files)
        for done, _ in enumerate(pool.map(write, range(runs), counts, chunksize=8), start=1):
            on_progress(done)


def window(iteration: int) -> PhaseWindow:
    """Return the phase window of an iteration, with all figures of a training.

    Args:
        iteration: The iteration, from 1.
    """
    noise = iteration * 7919 % 1009 / 1009
    learn_ns = 60_000_000 + int(noise * 10_000_000)
    spent_ns = {
        "simulate": 190_000_000,
        "manage": 62_123_456,
        "infer": 31_234_567,
        "returns": 2_345_678,
        "learn": learn_ns,
        "evaluate": 30_123_457,
        "log": 3_456_789,
    }
    return PhaseWindow(
        iteration=iteration,
        env_steps=iteration * _ENV_STEPS,
        phase_ns={**spent_ns, "unattributed": _ITERATION_NS - sum(spent_ns.values())},
        wall_ns=_STARTUP_NS + iteration * _ITERATION_NS,
        figures={
            "mean_return": 180.0 * noise,
            "mean_episode_steps": 250.0 + 49.0 * noise,
            "value_loss": 0.01 / (1.0 + noise),
            "policy_loss": -0.003 * noise,
            "entropy": 1.4189385332046727 - noise,
            "action_std": 1.0 - 0.5 * noise,
            "kl": 0.01 * (0.5 + noise),
            "grad_norm": 0.7 + noise,
            "learning_rate": 0.0003,
        },
        non_finite=[],
    )


def telemetry(second: int) -> Telemetry:
    """Return the sample of host and accelerator of one second.

    Args:
        second: Age of the attempt [s].
    """
    device = DeviceSample(
        uuid="GPU-5a0e2b1c-77aa-4c1e-9d59-0c0ffee0cafe",
        utilization=0.87,
        memory_used_bytes=2_104_533_975 + second,
        power_w=212.5 + second % 7,
        energy_mj=212_500 * second,
        temperature_c=61.0,
        sm_clock_mhz=1980,
    )
    host = HostSample(
        cpu_s=1.03125, busiest_thread=0.984375, memory_bytes=3_221_225_472, available_bytes=128_849_018_880
    )
    return Telemetry(wall_ns=second * _SECOND, host=host, devices=[device])


def declared(run_id: str, index: int, episodes: int = EPISODES) -> RunDeclared:
    """Return a declaration of typical length.

    Args:
        run_id: The run.
        index: Its training seed; ten in a row make a cohort.
        episodes: Held-out episodes of the panel.
    """
    return RunDeclared(
        run_id=run_id,
        cohort=f"cohort-{index // 10}",
        task="LedgerLab-Cartpole",
        rl_library="rsl_rl",
        experiment="synthetic",
        overrides=[],
        seed=index,
        device="cuda:0",
        num_envs=256,
        world_size=1,
        max_iterations=100_000,
        horizon=32,
        epochs=5,
        minibatches=4,
        panel="cartpole_v1",
        panel_id="p1-" + "0" * 64,
        panel_fields={
            "seeds": list(range(episodes)),
            "packages": {f"package-{number}": "1.2.3" for number in range(30)},
            "settings": {f"setting_{number}": number / 7 for number in range(60)},
        },
        target_success=0.9,
        held_out_slots=episodes,
        eval_every=None,
        stop_at_target=True,
        error_budget=0.05,
        stop_on=[],
        physics="newton/mjwarp",
        timing="events",
        price=_price(),
        config_sha256={"env": "0" * 64, "agent": "0" * 64},
        versions={f"package-{number}": "1.2.3" for number in range(30)},
        git={"commit": "0" * 40, "changes_sha256": None},
        hardware={"cpu": "CPU", "cpu_cores": 2, "memory_bytes": 25_276_510_208, "accelerator": None},
        command=["scripts/train.py"],
    )


def checkpoint(iteration: int, wall_ns: int) -> CheckpointSaved:
    """Return a checkpoint.

    Args:
        iteration: Iterations completed.
        wall_ns: Age of the attempt [ns].
    """
    return CheckpointSaved(
        path=f"model_{iteration}.pt",
        sha256=f"{iteration:064x}",
        size_bytes=54_321,
        iteration=iteration,
        env_steps=iteration * _ENV_STEPS,
        wall_ns=wall_ns,
    )


def result(
    run_id: str, iteration: int, index: int, wall_ns: int, *, last: bool, episodes: int = EPISODES
) -> PanelResult:
    """Return the score of a checkpoint on all episodes of a panel.

    Args:
        run_id: The run.
        iteration: Iterations completed when the checkpoint was saved.
        index: Training seed of the run.
        wall_ns: Age of the attempt [ns].
        last: Whether it is the proof that ends the run.
        episodes: Held-out episodes of the panel.
    """
    rule = VerdictRule.of_version(1, 0.9)  # the rule and the target that the runs declare
    won = [last or (seed * 7919 + iteration + index) % 10 > 0 for seed in range(episodes)]
    outcomes = Outcomes(
        cell=["nominal"] * episodes,
        seed=list(range(episodes)),
        success=won,
        success_any=won,
        steps=[300 if success else 17 for success in won],
        episode_return=[float(seed) + 0.123456 for seed in range(episodes)],
        ended_by=["horizon" if success else "cart_out_of_bounds" for success in won],
        fingerprint=[f"{seed * 0x9E3779B97F4A7C15 % 2**64:016x}" for seed in range(episodes)],
    )
    return PanelResult(
        run_id=run_id,
        checkpoint=f"model_{iteration}.pt",
        checkpoint_sha256=f"{iteration:064x}",
        panel="cartpole_v1",
        panel_id="p1-" + "0" * 64,
        purpose="proof" if last else "check",
        proof=1,
        needed=rule.first_needs(episodes) if last else rule.check_needs(episodes),
        exactness="statistical",
        device="cuda:0",
        wall_ns=wall_ns,
        invalid=None,
        outcomes=outcomes,
    )


@cache
def _price() -> dict[str, Any]:
    """Return the price of a run."""
    return load_prices()["local"].to_dict()


def _write_run(root: Path, episodes: int, other_files: int, index: int, rows: int) -> None:
    """Write one run with a given number of rows."""
    run_id = f"{index:08x}"
    run_dir = root / "rsl_rl" / "synthetic" / f"2026-01-01_{run_id}"
    run_dir.mkdir(parents=True)
    samples = max((rows - _OTHER_ROWS) * 2 // 5, 1)
    iterations = rows - _OTHER_ROWS - samples
    began = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=index)
    _write(run_dir / "journal-1-0.jsonl", began, _training(run_id, index, iterations, episodes))
    _write(run_dir / "journal-1-supervisor.jsonl", began, _supervision(run_id, samples, iterations))
    for number in range(other_files):
        (run_dir / f"model_{number}.pt").touch()


def _write(path: Path, began: datetime, rows: Iterator[tuple[int, Row]]) -> None:
    """Write rows, each with its age [ns], in a journal's format, but all at once."""
    lines: list[bytes] = []
    previous = GENESIS
    for age_ns, row in rows:
        time = (began + timedelta(microseconds=age_ns // 1000)).isoformat(timespec="milliseconds")
        lines.append(encode_line(len(lines), time, type(row).__name__, encode_fields(row), previous))
        previous = hash_of(lines[-1])
    path.write_bytes(b"".join(lines))


def _training(run_id: str, index: int, iterations: int, episodes: int) -> Iterator[tuple[int, Row]]:
    """Yield the rows of a training process with their ages."""
    yield 0, declared(run_id, index, episodes)
    yield _SECOND, AttemptStarted(run_id=run_id, attempt=1, rank=0, pid=4242, host="node", wall_ns=_SECOND)
    every = max(iterations // _CHECKPOINTS, 1)
    saved = 0
    for iteration in range(1, iterations + 1):
        row = window(iteration)
        yield row.wall_ns, row
        if iteration % every == 0 and saved < _CHECKPOINTS:
            saved += 1
            yield row.wall_ns, checkpoint(iteration, row.wall_ns)
            last = saved == _CHECKPOINTS
            yield row.wall_ns, result(run_id, iteration, index, row.wall_ns, last=last, episodes=episodes)
    for _ in range(saved, _CHECKPOINTS):
        yield row.wall_ns, checkpoint(iterations, row.wall_ns)
        yield row.wall_ns, result(run_id, iterations, index, row.wall_ns, last=False, episodes=episodes)


def _supervision(run_id: str, samples: int, iterations: int) -> Iterator[tuple[int, Row]]:
    """Yield the rows of a supervisor with their ages."""
    yield 0, SupervisionStarted(run_id=run_id, attempt=1, pid=4241, host="node", wall_ns=0)
    for second in range(1, samples + 1):
        yield second * _SECOND, telemetry(second)
    wall_ns = max(samples * _SECOND, _STARTUP_NS + iterations * _ITERATION_NS) + _SECOND
    yield (
        wall_ns,
        AttemptEnded(
            status=Status.TARGET_REACHED,
            reason=None,
            wall_ns=wall_ns,
            peak_host_memory_bytes=3_221_225_472,
            peak_gpu_memory_bytes=2_104_533_975,
        ),
    )
    yield wall_ns, ShutdownEnded(wall_ns=wall_ns + _SECOND, exit_code=0, signal=None, overdue=False)
