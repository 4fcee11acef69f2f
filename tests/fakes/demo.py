"""A ledger as days of work leave it: cohorts, failures, telemetry, health events, robust panels. All made up."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ledger_lab.ledger import (
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    CohortDeclared,
    DeviceSample,
    Health,
    HostSample,
    Journal,
    Outcomes,
    Status,
    SupervisionStarted,
    Telemetry,
)
from ledger_lab.ledger.costs.prices import load_prices
from tests.fakes.ledgers import SECOND, declared, result, window

CELLS = ("nominal", "heavy_pole", "weak_motor", "push", "tilted_gravity")
SHARES = {
    "simulate": 0.40,
    "manage": 0.22,
    "infer": 0.10,
    "returns": 0.02,
    "learn": 0.18,
    "evaluate": 0.06,
    "log": 0.02,
}
_STARTUP_S, _SAMPLE_S = 12, 20


@dataclass
class Plan:
    """One run of the demo."""

    run_id: str
    seed: int
    skill: float
    """Iterations at which half of the episodes succeed."""
    iterations: int = 60
    iteration_s: float = 7.0
    ceiling: float = 1.0
    status: Status = Status.TARGET_REACHED
    reason: str | None = None
    telemetry: bool = True
    robust: bool = False
    events: tuple[Health, ...] = ()
    declaration: dict[str, object] = field(default_factory=dict)


def write_demo(root: Path) -> None:
    """Write the whole demo: two cohorts of one task, one of which lacks a run, and a run of another task.

    Args:
        root: Root of the ledger.
    """
    root.mkdir(parents=True)
    for cohort, size in (("skrl-l4", 6), ("rsl-l40s", 5)):
        with Journal(root / f"journal-cohort-{cohort}.jsonl") as journal:
            journal.append(CohortDeclared(cohort=cohort, size=size))
    for plan in demo_plans():
        write_plan(root, plan)


def demo_plans() -> Iterator[Plan]:
    """Return the runs of the demo."""
    prices = {name: price.to_dict() for name, price in load_prices().items()}
    on_gpu = {"device": "cuda:0", "hardware": {"accelerator": "NVIDIA L4"}}
    fast = on_gpu | {"cohort": "rsl-l40s", "price": prices["aws-g6e.xlarge"], "rl_library": "rsl_rl"}
    slow = on_gpu | {"cohort": "skrl-l4", "price": prices["aws-g6.xlarge"], "rl_library": "skrl"}
    for seed, skill in enumerate((15, 17, 16, 21, 18), start=1):
        yield Plan(f"a{seed}1c4e0f", seed, skill, iteration_s=7 + seed / 10, robust=seed < 4, declaration=fast)
    for seed, skill in enumerate((24, 28, 22), start=1):
        yield Plan(f"b{seed}93d7aa", seed, skill, iteration_s=10.5, robust=seed == 1, declaration=slow)

    def event(name: str, iteration: int, *, stops: bool = False) -> Health:
        wall_ns = round((_STARTUP_S + 10.5 * iteration) * SECOND)
        return Health(event=name, iteration=iteration, wall_ns=wall_ns, evidence="e", advice="a", stops=stops)

    events = (event("entropy_collapse", 33), event("reward_hacking", 52))
    yield Plan("b493d7aa", 4, 40, 60, 10.5, 0.72, Status.COMPLETED, events=events, declaration=slow)
    broken, why = event("non_finite", 12, stops=True), "value_loss is NaN at iteration 12"
    yield Plan("b593d7aa", 5, 30, 12, 10.5, 1.0, Status.NON_FINITE, why, events=(broken,), declaration=slow)
    ant = {"task": "LedgerLab-Ant", "panel": "ant_v1", "panel_id": "p1-a47c11be0d5522f10c3e"}
    yield Plan("c0ffee42", 1, 48, iterations=90, iteration_s=13.0, telemetry=False, declaration=ant)


def write_plan(root: Path, plan: Plan) -> Path:
    """Write the journals of one run.

    Args:
        root: Root of the ledger.
        plan: The run.

    Returns:
        The run's directory.
    """
    fields: dict[str, object] = {
        "task": "LedgerLab-Cartpole",
        "panel": "cartpole_v1",
        "panel_id": "p1-049f1320604916724c57",
        "seed": plan.seed,
        "num_envs": 4096,
        "max_iterations": 90,
        "held_out_slots": 256,
    }
    declaration = declared(plan.run_id, **{**fields, **plan.declaration})
    run_dir = root / declaration.rl_library / "demo" / plan.run_id
    run_dir.mkdir(parents=True)
    wall_ns, iteration = _STARTUP_S * SECOND, 0
    with Journal(run_dir / "journal-1-0.jsonl") as journal:
        journal.append(declaration)
        start = AttemptStarted(run_id=plan.run_id, attempt=1, rank=0, pid=2**22 + 1, host="demo", wall_ns=SECOND)
        journal.append(start)
        journal.append(window(None, 0, {"startup": wall_ns - SECOND, "compile": SECOND}, wall_ns))
        for iteration in range(1, plan.iterations + 1):
            wall_ns += round(plan.iteration_s * SECOND)
            phase_ns = {phase: round(share * plan.iteration_s * SECOND) for phase, share in SHARES.items()}
            steps = iteration * declaration.env_steps_per_iteration
            progress = 1 / (1 + math.exp(-(iteration - plan.skill) / 3))
            row = window(iteration, steps, phase_ns, wall_ns)
            journal.append(replace(row, figures={"mean_return": -4 + 9 * progress, "entropy": 1.4 - progress}))
            for each in plan.events:
                if each.iteration == iteration:
                    journal.append(each)
            if iteration % 5:
                continue
            path, won = f"model_{iteration}.pt", round(256 * plan.ceiling * progress)
            _save(journal, path, iteration, steps, wall_ns)
            _score(journal, plan.run_id, path, "check", declaration.panel_id, wall_ns, _outcomes([won]))
            if won >= 231:
                fresh = _outcomes([won], 1_000_000)
                _score(journal, plan.run_id, path, "proof", "p1-fresh", wall_ns + SECOND, fresh)
            if won >= 239:
                break
        wall_ns += 4 * SECOND
        journal.append(window(None, steps, {"evaluate": 4 * SECOND}, wall_ns))
        end = AttemptEnded(
            status=plan.status,
            reason=plan.reason,
            wall_ns=wall_ns,
            peak_host_memory_bytes=2_900_000_000,
            peak_gpu_memory_bytes=6_150_000_000 if plan.telemetry else None,
        )
        if not plan.telemetry:
            journal.append(end)
    if plan.telemetry:
        with Journal(run_dir / "journal-1-supervisor.jsonl") as journal:
            journal.append(SupervisionStarted(run_id=plan.run_id, attempt=1, pid=2**22 + 2, host="demo", wall_ns=0))
            for second in range(_SAMPLE_S, wall_ns // SECOND, _SAMPLE_S):
                journal.append(_sample(second))
            journal.append(end)
    if plan.robust:
        with Journal(run_dir / "journal-evaluation-00-0.jsonl") as journal:
            of_cells = _outcomes([62, 60, 58, 55, 50], episodes=64)
            _score(journal, plan.run_id, f"model_{iteration}.pt", "evaluation", "p1-robust", 40 * SECOND, of_cells)
    return run_dir


def _save(journal: Journal, path: str, iteration: int, steps: int, wall_ns: int) -> None:
    """Write that a policy was saved."""
    journal.append(
        CheckpointSaved(
            path=path,
            sha256="00",
            size_bytes=45_743,
            iteration=iteration,
            env_steps=steps,
            wall_ns=wall_ns,
            train_ns=round(0.7 * wall_ns),
            evaluate_ns=round(0.1 * wall_ns),
            peak_host_memory_bytes=2_400_000_000,
            peak_gpu_memory_bytes=6_100_000_000,
            endings={"time_out": 20 * iteration, "cart_out_of_bounds": max(400 - 8 * iteration, 0)},
        )
    )


def _outcomes(won: Sequence[int], first_seed: int = 0, episodes: int = 256) -> Outcomes:
    """Return outcomes of some successes of each cell; the seeds that fail are the last ones."""
    success = [place < wins for wins in won for place in range(episodes)]
    ends = ["horizon" if ok or place % 2 else "pole_fell" for place, ok in enumerate(success)]
    return Outcomes(
        cell=[cell for cell, _ in zip(CELLS, won, strict=False) for _ in range(episodes)],
        seed=[*range(first_seed, first_seed + episodes)] * len(won),
        success=success,
        success_any=success,
        steps=[300 if end == "horizon" else 100 for end in ends],
        episode_return=[4.6 if ok else -1.0 for ok in success],
        ended_by=ends,
        fingerprint=[f"{index:016x}" for index in range(len(success))],
    )


def _score(
    journal: Journal, run_id: str, path: str, purpose: str, panel_id: str, wall_ns: int, outcomes: Outcomes
) -> None:
    """Write a score."""
    row = replace(
        result(run_id, path, 5, panel_id, purpose),
        checkpoint_sha256="00",
        panel="cartpole_robust_v1" if purpose == "evaluation" else "cartpole_v1",
        needed={"check": 231, "proof": 239, "evaluation": None}[purpose],
        wall_ns=wall_ns,
        outcomes=outcomes,
    )
    journal.append(row)


def _sample(second: int) -> Telemetry:
    """Return a sample."""
    device = DeviceSample(
        uuid="GPU-5b1f7c1e-demo",
        utilization=0.9,
        memory_used_bytes=6_100_000_000,
        power_w=390.0,
        energy_mj=390_000 * second,
        temperature_c=61.0,
        sm_clock_mhz=1980,
    )
    host = HostSample(
        cpu_s=1.5 * _SAMPLE_S, busiest_thread=0.9, memory_bytes=2_400_000_000, available_bytes=110 * 10**9
    )
    return Telemetry(wall_ns=second * SECOND, host=host, devices=[device])
