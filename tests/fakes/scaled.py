"""Trainings of known laws: as points of scaling studies, and as rows of a ledger."""

from __future__ import annotations

import socket
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ledger_lab.ledger import AttemptEnded, AttemptStarted, CheckpointSaved, Journal, Run, RunDeclared, Status
from ledger_lab.ledger.costs.prices import Price
from ledger_lab.reports import RunSummary, summarize_run
from ledger_lab.studies.scaling.points import Identity, ScaledRun
from tests.fakes.ledgers import SECOND, declared, result, sha256_of, window

HORIZON = 16

PRICE = Price(
    instance="made-up", market="custom", accelerators=1, billing_granularity_s=1e-3, billing_minimum_s=0.0,
    usd_per_hour=3.6, source="a test", date="2026-01-01",
)  # fmt: skip
"""A tenth of a cent for each second."""


def scaled(
    processes: int = 1, num_envs: int = 64, *, rate: float = 1000.0, steps: int = 4096, reached: bool = True,
    scoring_s: float = 1.0, machines: int | None = 1, cost_to_target_usd: float | None = -1.0,
    repeated_usd: float = 0.0, **changes: Any,
) -> ScaledRun:  # fmt: skip
    """Return a run with 2 s of start-up.

    Args:
        processes: Its processes.
        num_envs: Environments of each.
        rate: Steps per second of training.
        steps: Steps until the target, or until its end.
        reached: Whether it reached the target.
        scoring_s: Time of scoring [s].
        machines: Its machines.
        cost_to_target_usd: What the time to the target costs [USD]; a tenth of a cent for each second if negative.
        repeated_usd: What the runs cost that it stands for [USD].
        changes: Fields of the declaration and of the summary.
    """
    training_s = steps / rate
    time_s = 2.0 + training_s + scoring_s
    batch = num_envs * processes * HORIZON
    declarable = {each.name for each in fields(RunDeclared)}
    written = {"horizon": HORIZON, "price": PRICE.to_dict(), "machines": machines, "max_iterations": 2 * steps // batch}
    written |= {"num_envs": num_envs, "world_size": processes, "versions": {}, "code_sha256": None}
    written |= {name: value for name, value in changes.items() if name in declarable}
    run_id = changes.get("run_id", f"{processes}x{num_envs}")
    declaration = declared(**{"run_id": run_id, **written})
    summary = summarize_run(Run(Path(), declaration, datetime.now(UTC), (), (), ()))
    figures = {
        "wall_s": time_s, "env_steps": steps, "env_steps_per_s": rate, "phases": {"learn": time_s}, "unfinished": False,
        "status": "target_reached" if reached else "completed", "wall_to_target_s": time_s if reached else None,
        "billable_usd": time_s / 1000,
    }  # fmt: skip
    of_summary = {each.name for each in fields(RunSummary)}
    figures |= {name: value for name, value in changes.items() if name in of_summary}
    if unknown := changes.keys() - declarable - of_summary:
        raise TypeError(f"neither a declaration nor a summary has {unknown}")
    cost = time_s / 1000 if cost_to_target_usd is not None and cost_to_target_usd < 0 else cost_to_target_usd
    return ScaledRun(
        declared=declaration,
        summary=replace(summary, **figures),
        identity=Identity(
            time_s=time_s, start_up_s=2.0, steps=steps, training_s=training_s, scoring_s=scoring_s,
            interruptions_s=0.0,
        ),
        cost_to_target_usd=cost if reached else None,
        repeated_usd=repeated_usd,
    )  # fmt: skip


def write_scaled(
    root: Path, run_id: str, processes: int, num_envs: int, *, rate: float, iterations: int, reached: bool = True,
    waits: tuple[float, ...] = (), ends: bool = True, **changes: object,
) -> Path:  # fmt: skip
    """Write a run: 2 s of start-up, training at a constant rate with a tenth of its time scoring beside it, the target.

    The row of the target comes 50 ms after the last iteration, of which 40 ms are scoring.

    Args:
        root: Root of the ledger.
        run_id: The run.
        processes: Its processes.
        num_envs: Environments of each.
        rate: Steps per second of the training phases.
        iterations: Iterations until the target, or until the end.
        reached: Whether a policy is proven.
        waits: Share of ``synchronize`` in the training of each process.
        ends: Whether a window and an end row follow.
        changes: Fields of the declaration.
    """
    run_dir = root / "rsl_rl" / "e" / run_id
    run_dir.mkdir(parents=True)
    steps = iterations * processes * num_envs * HORIZON
    training_ns = round(steps / rate * SECOND)
    start = {"run_id": run_id, "attempt": 1, "pid": 2**22 + 1, "host": socket.gethostname(), "wall_ns": SECOND}
    for rank in range(processes):
        share = waits[rank] if waits else 0.0
        waited_ns = round(share * training_ns)
        halves = {"simulate": (training_ns - waited_ns) // 2, "learn": (training_ns - waited_ns + 1) // 2}
        spent = {**halves, "synchronize": waited_ns, "evaluate": training_ns // 10}
        last_ns = 2 * SECOND + sum(spent.values())
        with Journal(run_dir / f"journal-1-{rank}.jsonl") as journal:
            if rank == 0:
                fields: dict[str, object] = {
                    "num_envs": num_envs, "world_size": processes, "horizon": HORIZON, "price": PRICE.to_dict(),
                    "max_iterations": 2 * iterations if reached else iterations, "machines": 1,
                }  # fmt: skip
                journal.append(declared(run_id, **{**fields, **changes}))
            journal.append(AttemptStarted(**start, rank=rank))  # type: ignore[arg-type]
            journal.append(window(None, 0, {"startup": 2 * SECOND}, 2 * SECOND))
            journal.append(window(iterations, steps, {k: v for k, v in spent.items() if v}, last_ns))
            if rank:
                continue
            if reached:
                sha256 = sha256_of(run_id, "model_1.pt")
                journal.append(
                    CheckpointSaved(
                        path="model_1.pt", sha256=sha256, size_bytes=1, iteration=1, env_steps=1, wall_ns=last_ns
                    )
                )  # fmt: skip
                proof = result(run_id, "model_1.pt", 9, "p1-fresh", purpose="proof")
                journal.append(replace(proof, wall_ns=last_ns + SECOND // 20))
            if ends:
                rest = {"evaluate": SECOND // 25, "log": SECOND // 20, "shutdown": SECOND}
                end_ns = last_ns + sum(rest.values())
                journal.append(window(None, steps, rest, end_ns))
                status = Status.TARGET_REACHED if reached else Status.COMPLETED
                journal.append(
                    AttemptEnded(
                        status=status, reason=None, wall_ns=end_ns, peak_host_memory_bytes=10**9,
                        peak_gpu_memory_bytes=None,
                    )
                )  # fmt: skip
    return run_dir
