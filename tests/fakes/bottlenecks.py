"""Runs with phases written by hand, and what reports advise about them."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

from ledger_lab.ledger import (
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    DeviceSample,
    HostSample,
    Journal,
    Status,
    SupervisionStarted,
    Telemetry,
    read_ledger,
)
from ledger_lab.reports import summarize_run
from ledger_lab.reports.bottleneck import Advice, Bottleneck, find_bottlenecks
from tests.fakes.ledgers import declared, result, sha256_of, window, write_further_rank

MS = 1_000_000
GPU = {
    "device": "cuda:0",
    "timing": "events",
    "hardware": {"accelerator": "G", "accelerator_memory_bytes": 100_000_000_000},
}


def write_phases(
    root: Path,
    run_id: str,
    phases_ms: dict[str, int],
    *,
    iterations: int = 10,
    startup_ms: int = 1000,
    checkpoints: int = 0,
    judged: int = 0,
    status: Status = Status.TARGET_REACHED,
    telemetry: tuple[float | None, float | None, int] | None = None,
    device_bound_ns: dict[str, int] | None = None,
    **changes: object,
) -> None:
    """Write a run whose every iteration takes the same phases [ms], with the first checkpoints judged.

    Args:
        root: Root of the ledger.
        run_id: The run.
        phases_ms: Phases of an iteration.
        iterations: Iterations.
        startup_ms: Start-up.
        checkpoints: Checkpoints, one per iteration.
        judged: How many of them were checked.
        status: How it ended.
        telemetry: Utilization, busiest thread and memory used in each sample; none by default.
        device_bound_ns: Part of an iteration's phases that the device determined [ns].
        changes: Fields of the declaration.
    """
    run_dir = root / run_id
    run_dir.mkdir(parents=True)
    declaration = declared(run_id, **{"held_out_slots": 0, **changes})
    each_ms = sum(phases_ms.values())
    end_ns = (startup_ms + iterations * each_ms) * MS
    started = {"run_id": run_id, "attempt": 1, "pid": 2**22 + 1, "host": socket.gethostname(), "wall_ns": MS}
    with Journal(run_dir / "journal-1-0.jsonl") as journal:
        journal.append(declaration)
        journal.append(AttemptStarted(rank=0, **started))
        journal.append(window(None, 0, {"startup": startup_ms * MS}, startup_ms * MS))
        for done in range(1, iterations + 1):
            wall_ns = (startup_ms + done * each_ms) * MS
            phase_ns = {phase: ms * MS for phase, ms in phases_ms.items()}
            row = window(done, done * declaration.env_steps_per_iteration, phase_ns, wall_ns)
            journal.append(replace(row, device_bound_ns=device_bound_ns))
            if done <= checkpoints:
                name = f"model_{done}.pt"
                journal.append(
                    CheckpointSaved(
                        path=name,
                        sha256=sha256_of(run_id, name),
                        size_bytes=1,
                        iteration=done,
                        env_steps=0,
                        wall_ns=wall_ns,
                    )
                )
                if done <= judged:
                    journal.append(replace(result(run_id, name, 5, purpose="check"), wall_ns=wall_ns))
        journal.append(
            AttemptEnded(
                status=status,
                reason=None,
                wall_ns=end_ns,
                peak_host_memory_bytes=declaration.num_envs * 10_000_000,
                peak_gpu_memory_bytes=None if declaration.device == "cpu" else declaration.num_envs * 10_000_000,
            )
        )
    if declaration.world_size == 2:
        write_further_rank(run_dir)
    if telemetry is not None:
        utilization, thread, memory = telemetry
        with Journal(run_dir / "journal-1-supervisor.jsonl") as journal:
            journal.append(SupervisionStarted(**started))
            idle = device_sample(0.0, 1)
            journal.append(Telemetry(wall_ns=2 * MS, host=None, devices=[idle]))  # while it starts up
            for second in range(3):
                at_ns = (startup_ms + each_ms) * MS + second
                host = HostSample(cpu_s=1.0, busiest_thread=thread, memory_bytes=1, available_bytes=1)
                devices = [device_sample(utilization, memory)]
                journal.append(Telemetry(wall_ns=at_ns, host=host, devices=devices))


def device_sample(utilization: float | None, memory_bytes: int) -> DeviceSample:
    return DeviceSample(
        uuid="u",
        utilization=utilization,
        memory_used_bytes=memory_bytes,
        power_w=None,
        energy_mj=None,
        temperature_c=None,
        sm_clock_mhz=None,
    )


def bottlenecks(root: Path) -> dict[str, Bottleneck]:
    runs = read_ledger(root).runs
    return find_bottlenecks(runs, [summarize_run(run) for run in runs])


def advised(bottleneck: Bottleneck, word: str) -> Advice | None:
    return next((advice for advice in bottleneck.advice if word in advice.action), None)


def step_ms(slots: int) -> int:
    """Milliseconds of an iteration's four steps: 40 of any size, and 0.1 per slot on top."""
    return round(4 * (10 + 0.025 * slots))
