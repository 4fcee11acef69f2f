"""A ledger as days of work leave it: cohorts, failures, telemetry, health events, robust panels. All made up."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
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
    PanelResult,
    PhaseWindow,
    RunDeclared,
    ShutdownEnded,
    Status,
    SupervisionStarted,
    Telemetry,
)
from ledger_lab.ledger.costs import load_prices
from tests.fakes.ledgers import SECOND, declared

ROBUST_CELLS = ("nominal", "heavy_pole", "weak_motor", "push", "tilted_gravity")
SHARES = {
    "simulate": 0.40,
    "manage": 0.21,
    "infer": 0.10,
    "returns": 0.01,
    "learn": 0.17,
    "transfer": 0.01,
    "evaluate": 0.06,
    "log": 0.02,
    "checkpoint": 0.01,
    "unattributed": 0.01,
}


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
    status: Status | None = Status.TARGET_REACHED
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
    root.mkdir(parents=True, exist_ok=True)
    with Journal(root / "journal-cohort-skrl-l4.jsonl") as journal:
        journal.append(CohortDeclared(cohort="skrl-l4", size=6))
    with Journal(root / "journal-cohort-rsl-l40s.jsonl") as journal:
        journal.append(CohortDeclared(cohort="rsl-l40s", size=5))
    for plan in demo_plans():
        write_plan(root, plan)


def demo_plans() -> Iterator[Plan]:
    """Return the runs of the demo."""
    prices = load_prices()
    fast = {
        "cohort": "rsl-l40s",
        "device": "cuda:0",
        "price": prices["aws-g6e.xlarge"].to_dict(),
        "rl_library": "rsl_rl",
    }
    slow = {"cohort": "skrl-l4", "device": "cuda:0", "price": prices["aws-g6.xlarge"].to_dict(), "rl_library": "skrl"}
    for seed, skill in enumerate((15, 17, 16, 21, 18), start=1):
        yield Plan(f"a{seed}1c4e0f", seed, skill, robust=seed < 4, declaration=fast)
    for seed, skill in enumerate((24, 28, 22), start=1):
        yield Plan(f"b{seed}93d7aa", seed, skill, iteration_s=10.5, robust=seed == 1, declaration=slow)
    collapse = Health(
        event="entropy_collapse",
        iteration=33,
        wall_ns=360 * SECOND,
        evidence="entropy fell from 1.42 nat to 0.03 nat within 20 iterations",
        advice="raise entropy_coef, or lower the learning rate",
        stops=False,
    )
    hacking = Health(
        event="reward_hacking",
        iteration=52,
        wall_ns=560 * SECOND,
        evidence="training return rose by 31 % while held-out success fell from 71 % to 58 %",
        advice="look at videos of the failing seeds; the reward may pay for something else",
        stops=False,
    )
    yield Plan(
        "b493d7aa", 4, 40, ceiling=0.72, iteration_s=10.5, status=Status.COMPLETED, events=(collapse, hacking),
        declaration=slow,
    )  # fmt: skip
    broken = Health(
        event="non_finite",
        iteration=12,
        wall_ns=140 * SECOND,
        evidence="value_loss is NaN",
        advice="lower the learning rate, or clip observations",
        stops=True,
    )
    yield Plan(
        "b593d7aa", 5, 30, iterations=12, iteration_s=10.5, status=Status.NON_FINITE, events=(broken,),
        reason="value_loss is NaN at iteration 12", declaration=slow,
    )  # fmt: skip
    ant = {"task": "LedgerLab-Ant", "panel": "ant_v1", "panel_id": "p1-a47c11be0d5522f10c3e"}
    yield Plan("c0ffee42", 1, 48, iterations=90, iteration_s=13.0, telemetry=False, declaration=ant)


def demo_declared(plan: Plan) -> RunDeclared:
    """Return the declaration of a run of the demo."""
    fields: dict[str, object] = {
        "task": "LedgerLab-Cartpole",
        "panel": "cartpole_v1",
        "panel_id": "p1-049f1320604916724c57",
        "panel_fields": {"task": "LedgerLab-Cartpole", "success": {"function": "upright", "params": {"rad": 0.2}}},
        "seed": plan.seed,
        "num_envs": 4096,
        "horizon": 32,
        "max_iterations": 90,
        "held_out_slots": 256,
        "hardware": {"accelerator": "NVIDIA L40S" if plan.declaration.get("rl_library") == "rsl_rl" else "NVIDIA L4"},
        "versions": {"isaaclab": "3.0.0", "newton": "1.6.1"},
        **plan.declaration,
    }
    return declared(plan.run_id, **fields)


def write_plan(root: Path, plan: Plan) -> Path:
    """Write the journals of one run.

    Args:
        root: Root of the ledger.
        plan: The run.

    Returns:
        The run's directory.
    """
    chance = random.Random(plan.run_id)
    declaration = demo_declared(plan)
    run_dir = root / declaration.rl_library / "demo" / plan.run_id
    run_dir.mkdir(parents=True)
    startup_s = chance.uniform(9, 14)
    wall_s = startup_s
    with Journal(run_dir / "journal-1-0.jsonl") as journal:
        journal.append(declaration)
        journal.append(
            AttemptStarted(run_id=plan.run_id, attempt=1, rank=0, pid=2**22 + 1, host="demo", wall_ns=SECOND)
        )
        journal.append(_window(None, 0, {"startup": 0.8 * startup_s, "compile": 0.2 * startup_s}, wall_s))
        for iteration in range(1, plan.iterations + 1):
            seconds = plan.iteration_s * chance.uniform(0.9, 1.15)
            wall_s += seconds
            figures = _figures(plan, iteration, chance)
            steps = iteration * declaration.env_steps_per_iteration
            journal.append(_window(iteration, steps, {p: seconds * s for p, s in SHARES.items()}, wall_s, figures))
            for event in plan.events:
                if event.iteration == iteration:
                    journal.append(event)
            if iteration % 5 == 0 and _judge(journal, plan, declaration, iteration, wall_s, chance):
                break
        wall_s += 4.0
        journal.append(_window(None, steps, {"evaluate": 4.0}, wall_s))
        if plan.status is not None and not plan.telemetry:
            journal.append(_ended(plan, wall_s))
    if plan.telemetry:
        _supervise(run_dir, plan, wall_s, startup_s, chance)
    if plan.robust:
        with Journal(run_dir / "journal-evaluation-00-0.jsonl") as journal:
            outcomes = _robust(chance)
            journal.append(_result(plan, f"model_{iteration}.pt", "evaluation", "p1-robust", outcomes, 40.0))
    return run_dir


def _judge(
    journal: Journal, plan: Plan, declaration: RunDeclared, iteration: int, wall_s: float, chance: random.Random
) -> bool:
    """Save and screen a policy, confirm one that passes, and tell whether that proved it."""
    path = f"model_{iteration}.pt"
    journal.append(
        CheckpointSaved(
            path=path,
            sha256="00",
            size_bytes=45_743,
            iteration=iteration,
            env_steps=iteration * declaration.env_steps_per_iteration,
            wall_ns=round(wall_s * SECOND),
            train_ns=round(0.7 * wall_s * SECOND),
            evaluate_ns=round(0.1 * wall_s * SECOND),
            peak_host_memory_bytes=2_400_000_000,
            peak_gpu_memory_bytes=6_100_000_000 if plan.telemetry else None,
            endings={"time_out": 20 * iteration, "cart_out_of_bounds": max(400 - 8 * iteration, 0)},
        )
    )
    share = plan.ceiling / (1 + math.exp(-(iteration - plan.skill) / 3))
    screening = _episodes(share, range(256), ("nominal",), chance)
    panel_id = declaration.panel_id
    journal.append(_result(plan, path, "screening", panel_id, screening, wall_s + 1.2, declaration.panel))
    if screening.successes < 231:
        return False
    again = _episodes(share, range(1_000_000, 1_000_256), ("nominal",), chance)
    row = _result(plan, path, "confirmation", f"{panel_id}-fresh", again, wall_s + 2.6, declaration.panel)
    journal.append(row)
    return row.confirms


def _episodes(share: float, seeds: range, cells: tuple[str, ...], chance: random.Random) -> Outcomes:
    """Return outcomes in which some seeds are harder than others, and each cell a bit harder than the one before."""
    cell = [name for name in cells for _ in seeds]
    every = [seed for _ in cells for seed in seeds]
    hardness = [
        0.6 * math.sin(0.37 * seed) ** 8 + 0.07 * cells.index(name) for name, seed in zip(cell, every, strict=True)
    ]
    won = [chance.random() < max(0.0, min(1.0, share * (1.02 - hard * (1.3 - share)))) for hard in hardness]
    ends = [
        "horizon" if ok else chance.choices(("horizon", "cart_out_of_bounds", "pole_fell"), (3, 2, 1))[0] for ok in won
    ]
    return Outcomes(
        cell=cell,
        seed=every,
        success=won,
        success_any=won,
        steps=[300 if end == "horizon" else chance.randint(20, 280) for end in ends],
        episode_return=[4.6 if ok else chance.uniform(-3, 2) for ok in won],
        ended_by=ends,
        fingerprint=[f"{index:016x}" for index in range(len(won))],
    )


def _robust(chance: random.Random) -> Outcomes:
    """Return outcomes on a panel of several cells."""
    return _episodes(0.97, range(64), ROBUST_CELLS, chance)


def _result(
    plan: Plan,
    path: str,
    purpose: str,
    panel_id: str,
    outcomes: Outcomes,
    wall_s: float,
    panel: str = "cartpole_robust_v1",
) -> PanelResult:
    """Return a score."""
    return PanelResult(
        run_id=plan.run_id,
        checkpoint=path,
        checkpoint_sha256="00",
        panel=panel,
        panel_id=panel_id,
        purpose=purpose,  # type: ignore[arg-type]
        confirmation=None if purpose == "evaluation" else 1,
        needed={"screening": 231, "confirmation": 241, "evaluation": None}[purpose],
        exactness="statistical",
        device="cuda:0",
        wall_ns=round(wall_s * SECOND),
        invalid=None,
        outcomes=outcomes,
    )


def _figures(plan: Plan, iteration: int, chance: random.Random) -> dict[str, float]:
    """Return figures of the training in one iteration."""
    progress = 1 / (1 + math.exp(-(iteration - 0.8 * plan.skill) / 4))
    return {
        "mean_return": -4 + 9 * progress + chance.gauss(0, 0.25),
        "mean_episode_steps": 40 + 250 * progress + chance.gauss(0, 4),
        "value_loss": 2.5 * math.exp(-iteration / 15) + abs(chance.gauss(0, 0.03)),
        "entropy": 1.4 - 0.8 * progress,
        "kl": abs(chance.gauss(0.01, 0.002)),
    }


def _window(
    iteration: int | None,
    env_steps: int,
    seconds: dict[str, float],
    wall_s: float,
    figures: dict[str, float] | None = None,
) -> PhaseWindow:
    """Return a window from seconds."""
    return PhaseWindow(
        iteration=iteration,
        env_steps=env_steps,
        phase_ns={phase: round(s * SECOND) for phase, s in seconds.items()},
        wall_ns=round(wall_s * SECOND),
        figures=figures or {},
        non_finite=[],
    )


def _supervise(run_dir: Path, plan: Plan, wall_s: float, startup_s: float, chance: random.Random) -> None:
    """Write what a supervisor writes: telemetry each second, the end, the shutdown."""
    with Journal(run_dir / "journal-1-supervisor.jsonl") as journal:
        journal.append(
            SupervisionStarted(run_id=plan.run_id, attempt=1, pid=2**22 + 2, host="demo", wall_ns=SECOND // 10)
        )
        energy_mj = 3_000_000
        for second in range(1, int(wall_s) + 1):
            busy = second > startup_s
            power_w = chance.gauss(390, 15) if busy else chance.gauss(95, 4)
            energy_mj += round(1000 * power_w)
            journal.append(
                Telemetry(
                    wall_ns=second * SECOND,
                    host=HostSample(
                        cpu_s=chance.uniform(1.2, 1.9) if busy else chance.uniform(0.8, 1.1),
                        busiest_thread=chance.uniform(0.85, 1.0),
                        memory_bytes=round(2.4e9 + 4e6 * second),
                        available_bytes=round(110e9 - 4e6 * second),
                    ),
                    devices=[
                        DeviceSample(
                            uuid="GPU-5b1f7c1e-demo",
                            utilization=chance.uniform(0.78, 0.97) if busy else 0.02,
                            memory_used_bytes=round((6.1e9 if busy else 1.2e9) + chance.uniform(0, 5e7)),
                            power_w=power_w,
                            energy_mj=energy_mj,
                            temperature_c=min(61.0, 34 + 0.8 * second),
                            sm_clock_mhz=chance.choice((1965, 1980, 1980)),
                        )
                    ],
                )
            )
        if plan.status is not None:
            journal.append(_ended(plan, wall_s))
            journal.append(
                ShutdownEnded(wall_ns=round((wall_s + 1.1) * SECOND), exit_code=0, signal=None, overdue=False)
            )


def _ended(plan: Plan, wall_s: float) -> AttemptEnded:
    """Return the end of a run."""
    assert plan.status is not None
    return AttemptEnded(
        status=plan.status,
        reason=plan.reason,
        wall_ns=round(wall_s * SECOND),
        peak_host_memory_bytes=2_900_000_000,
        peak_gpu_memory_bytes=6_150_000_000 if plan.telemetry else None,
    )
