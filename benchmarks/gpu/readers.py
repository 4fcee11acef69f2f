"""Reads figures from what the parts of the GPU kit leave behind."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from benchmarks.gpu.part import OUTPUT, Figures, read_figures
from benchmarks.timing import measure
from ledger_lab.ledger import read_ledger
from ledger_lab.reports import summarize_run

_OF_A_RUN = (
    *("task", "rl_library", "num_envs", "device", "physics", "timing", "status", "reason"),
    *("env_steps", "env_steps_per_s", "env_steps_per_wall_s", "wall_s", "wall_to_target_s", "evaluation_share"),
    *("target_reached", "heldout_successes", "heldout_episodes", "peak_gpu_memory_gb", "peak_host_memory_gb"),
    *("energy_kwh", "energy_source", "energy_undefined_reason", "mean_gpu_utilization", "phases"),
)
"""Fields of a run's summary that the kit reports."""


def read_training(folder: Path) -> Figures:
    """Return the figures of the only training below a folder, and of its GPU by NVML.

    Args:
        folder: Root of a ledger.

    Raises:
        ValueError: If there is not exactly one run.
    """
    (run,) = read_ledger(folder).runs
    summary = summarize_run(run)
    return {name: getattr(summary, name) for name in _OF_A_RUN} | {
        "versions": dict(run.declared.versions),
        "gpus": [asdict(each) for each in summary.devices],
    }


def read_speed(folder: Path, skip: int) -> Figures:
    """Return the figures of a training, and its speed after the first iterations.

    Args:
        folder: Root of a ledger with one run.
        skip: Iterations to leave out.

    Returns:
        Besides the figures of :func:`read_training`: seconds per iteration, environment steps per second over the whole
        iteration, and in its parts that step the environments.
    """
    found = read_training(folder)
    (run,) = read_ledger(folder).runs
    per_iteration = run.declared.horizon * run.declared.num_envs * run.declared.world_size
    (journal,) = folder.rglob("journal-1-0.jsonl")
    with journal.open(encoding="utf-8") as rows:
        measured = measure(run.declared.timing, rows, skip)
    step_s = sum(measured.phases_s.get(phase, 0.0) for phase in ("simulate", "manage"))
    return found | {
        "iterations": measured.iterations,
        "iteration_s": measured.wall_s,
        "steps_per_s": per_iteration / measured.wall_s,
        "steps_per_s_of_environment": per_iteration / step_s if step_s else None,
        "iteration_phases_s": measured.phases_s,
        "device_bound_s": measured.device_bound_s,
    }


def read_output(folder: Path) -> Figures:
    """Return the JSON object that a program printed.

    Args:
        folder: Folder of the part.
    """
    text = (folder / OUTPUT).read_text(encoding="utf-8")
    found: Figures = json.loads(text[text.index("{") :])
    return found


def read_without_cuda(folder: Path) -> Figures:
    """Return the figures of a training on the CPU.

    Args:
        folder: Folder of the part.

    Raises:
        ValueError: If torch used CUDA in it.
    """
    found = read_figures(folder)
    if found["torch_uses_cuda"]:
        raise ValueError("torch used CUDA, although the training was on the CPU")
    return found
