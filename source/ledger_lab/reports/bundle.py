"""Runs in the schema of Isaac Lab's own benchmark: ``training.json`` bundles, version 1.4.

The bundle is built from plain values, so it does not need Isaac Lab; a test builds Isaac Lab's own classes from it. If
the ledger lacks a figure that the schema asks for, the value is null. Isaac Lab's own producer writes 0.0 there, which
looks like a measurement.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from ledger_lab.errors import UserError
from ledger_lab.files import whole_file
from ledger_lab.ledger import Attempt, AttemptStarted, PhaseWindow, Run, StateRestored, Status, SupervisionStarted
from ledger_lab.ledger.meters.phases import TRAINING_PHASES, Phase
from ledger_lab.names import names_a_folder
from ledger_lab.reports.summary import RunSummary
from ledger_lab.units import in_gigabytes

SCHEMA_VERSION = "1.4"

FRAMEWORKS = {"stable_baselines3": "sb3", **{name: name for name in ("rsl_rl", "rl_games", "skrl", "sb3")}}
"""Libraries that the schema knows, by the names that a run declares."""

PHYSICS = ("newton/mjwarp", "newton/kamino", "ovphysx", "physx")
"""Physics engines that the schema knows, by the names that a run declares; the schema writes ``_`` for ``/``."""

PHYSICS_OUTSIDE = ("newton/mujoco",)
"""Physics engines of LedgerLab itself. The schema has no name for them, and Isaac Lab's classes accept any text, so a
bundle has LedgerLab's name, and ``extra`` names the field."""

_STATUS = {
    Status.COMPLETED: "completed",
    Status.TARGET_REACHED: "completed",
    Status.INTERRUPTED: "interrupted",
    Status.PREEMPTED: "interrupted",
    Status.STOPPED: "interrupted",
    Status.LIMIT_REACHED: "interrupted",
}
"""The schema has three end states; a status missing here maps to ``crashed``. ``extra`` holds the ledger's own
status."""

_VERSIONS = {
    "isaaclab": "isaaclab",
    "newton": "newton",
    "warp": "warp-lang",
    "mjwarp": "mujoco-warp",
    "torch": "torch",
    "rsl_rl": "rsl-rl-lib",
    "rl_games": "rl-games",
    "skrl": "skrl",
    "sb3": "stable-baselines3",
    "numpy": "numpy",
    "ovphysx": "ovphysx",
    "mujoco": "mujoco",
}
"""Packages whose versions the schema and the ledger both record."""

_EXTRA = (
    "status",
    "panel_id",
    "target_reached",
    "heldout_successes",
    "heldout_episodes",
    "wall_to_target_s",
    "billable_usd",
    "evaluation_afterwards_s",
    "evaluation_afterwards_usd",
    "env_steps_per_s",
    "env_steps_per_wall_s",
    "updates_per_min",
    "updates_per_wall_min",
    "world_size",
)
"""Figures of a run that the schema has no field for."""

_EMA_ALPHA = 0.3
"""Smoothing factor of the learning curves' last value; also stored in the bundle."""

_COLLECTING = frozenset({Phase.SIMULATE, Phase.MANAGE, Phase.INFER})


def why_not(run: Run, summary: RunSummary) -> str | None:
    """Return why a run does not fit the schema; ``None`` if it does.

    Args:
        run: The run.
        summary: Its figures.
    """
    if not names_a_folder(run.declared.run_id):
        return "its id cannot be the name of a folder"
    if run.declared.rl_library not in FRAMEWORKS:
        return f"the schema doesn't know the library {run.declared.rl_library!r}"
    if run.declared.physics not in PHYSICS + PHYSICS_OUTSIDE:
        return f"the schema doesn't know the physics {run.declared.physics!r}"
    if not run.attempts:
        return "it was declared, but never started"
    if summary.status == Status.RUNNING:
        return "it is still running"
    done = [window.iteration or 0 for window in _iterations(run)]
    if any(after - before > 1 for before, after in pairwise([0, *done])):
        return "it is an excerpt, which has no single iterations"
    return None


def training_bundle(run: Run, summary: RunSummary) -> dict[str, Any]:
    """Return a run as a training bundle of plain JSON values.

    Args:
        run: A run for which :func:`why_not` returns ``None``.
        summary: Its figures.
    """
    declared = run.declared
    windows = _iterations(run)
    last = run.attempts[-1]
    extra = {name: getattr(summary, name) for name in _EXTRA} | {
        "attempts": len(run.attempts),
        "accelerator": declared.hardware.get("accelerator"),
        "not_in_schema": "run.config.physics_backend" if declared.physics in PHYSICS_OUTSIDE else None,
    }
    return {
        "run": {
            "run_id": declared.run_id,
            "framework": FRAMEWORKS[declared.rl_library],
            "config": {
                "physics_backend": declared.physics.replace("/", "_"),
                "rendering_backend": "none",
                "presets": [],
            },
            "task": declared.task,
            "seed": declared.seed,
            "start_time_utc": _began(run.attempts[0]).isoformat(),
            # Not start plus duration: a run may wait for days between two attempts.
            "end_time_utc": (_began(last) + timedelta(microseconds=last.wall_ns / 1000)).isoformat(),
            "duration_s": summary.wall_s,
            "status": _STATUS.get(Status(summary.status), "crashed"),
            "num_envs": declared.num_envs,
            "max_iterations": declared.max_iterations,
        },
        "versions": _versions(run),
        "hardware": {
            "hostname": next((row.host for attempt in run.attempts for row in attempt.of(AttemptStarted)), None),
            "gpu_devices": [],  # the ledger records an accelerator's name only, see extra
            "cpu_name": declared.hardware.get("cpu"),
            "cpu_count": declared.hardware.get("cpu_cores"),
            "ram_gb": in_gigabytes(declared.hardware.get("memory_bytes")),
        },
        "runtime": _runtime(run, windows),
        "resources": _resources(run, summary),
        "learning": {
            "ema_alpha": _EMA_ALPHA,
            "reward": _curve(windows, "mean_return"),
            "ep_length": _curve(windows, "mean_episode_steps"),
            "success_rate": None,  # a training metric per iteration in this schema; held-out success is in extra
        },
        "success_rate": summary.heldout_success,
        "checkpoint_path": str(run.directory / run.checkpoints[-1].path) if run.checkpoints else None,
        "video_path": None,
        "extra": {f"ledger_lab/{name}": value for name, value in extra.items() if value is not None},
        "schema_version": SCHEMA_VERSION,
    }


def write_bundles(
    runs: Sequence[Run], summaries: Sequence[RunSummary], folder: Path
) -> tuple[list[Path], dict[str, str]]:
    """Write a bundle per run: ``<run id>/training.json``. A file appears under its name only when it is complete.

    Args:
        runs: The runs.
        summaries: Their figures.
        folder: Folder to write to; created if missing.

    Returns:
        The files; and by run id, the reason why a run has no file.

    Raises:
        UserError: If the folder can't be written.
    """
    paths: list[Path] = []
    left_out: dict[str, str] = {}
    for run, summary in zip(runs, summaries, strict=True):
        run_id = run.declared.run_id
        if (reason := why_not(run, summary)) is not None:
            left_out[run_id] = reason
            continue
        path = folder / run_id / "training.json"
        text = json.dumps(training_bundle(run, summary), indent=2, allow_nan=False) + "\n"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(path, shared=True) as unfinished:
                unfinished.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UserError(f"cannot write {error.filename or path}: {error.strerror}") from error
        paths.append(path)
    return paths, left_out


def _began(attempt: Attempt) -> datetime:
    """Return when an attempt began: the time of its first row minus its age then."""
    starts: list[tuple[AttemptStarted | SupervisionStarted, datetime]] = []
    for journal in attempt.journals:
        starts += journal.timed(AttemptStarted)
        starts += journal.timed(SupervisionStarted)
    return min(time - timedelta(microseconds=row.wall_ns / 1000) for row, time in starts)


def _versions(run: Run) -> dict[str, Any]:
    """Return the software that a run recorded."""
    recorded, git = run.declared.versions, run.declared.git
    return {
        **{name: recorded.get(package) for name, package in _VERSIONS.items()},
        "isaacsim": None,
        "kit": None,
        "git_commit": git.get("commit"),
        "git_branch": None,
        "git_dirty": None if git.get("commit") is None else git.get("changes_sha256") is not None,
    }


def _iterations(run: Run) -> list[PhaseWindow]:
    """Return the windows that end an iteration.

    If an attempt was interrupted, its last row repeats the number of the iteration before. That row is left out.
    """
    found: list[PhaseWindow] = []
    done: dict[int, int] = {}
    for attempt, window in run.windows:
        if window.iteration is None:
            continue
        if attempt.number not in done:
            done[attempt.number] = next((row.iteration for row in attempt.of(StateRestored)), 0)
        if window.iteration > done[attempt.number]:
            found.append(window)
            done[attempt.number] = window.iteration
    return found


def _runtime(run: Run, windows: Sequence[PhaseWindow]) -> dict[str, Any]:
    """Return how fast a run was, over its iterations."""
    steps = run.declared.env_steps_per_iteration
    spent_s, collecting_s = (
        [sum(ns for phase, ns in window.phase_ns.items() if phase in phases) / 1e9 for window in windows]
        for phases in (TRAINING_PHASES, _COLLECTING)
    )
    return {
        # The ledger records only the whole start-up time, as a phase.
        "startup_time_s": dict.fromkeys(["app_launch", "env_creation", "first_step"]),
        "iterations_completed": max((window.iteration or 0 for window in windows), default=0),
        "total_wall_time_s": sum(attempt.wall_ns for attempt in run.attempts) / 1e9,
        "steps_per_iteration": steps,
        # Over the training phases, as in a training without held-out slots; extra has the figures of the whole loop.
        "iteration_time_s": _mean_std(spent_s),
        "collection_fps": _mean_std([steps / each_s for each_s in collecting_s if each_s > 0]),
        "total_fps": _mean_std([steps / each_s for each_s in spent_s if each_s > 0]),
        "iterations_per_s": _mean_std([1 / each_s for each_s in spent_s if each_s > 0]),
    }


def _resources(run: Run, summary: RunSummary) -> dict[str, Any]:
    """Return a run's use of its host and its accelerators."""

    def used(mean: float | None, peak: float | None = None) -> dict[str, float | None]:
        return {"mean": mean, "std": None, "peak": peak}

    devices = [
        {
            "util_pct": used(_percent(device.mean_utilization)),
            "mem_gb": used(device.mean_memory_gb, device.peak_memory_gb),
        }
        for device in summary.devices
    ]
    own = devices[0] if devices else {"util_pct": used(None), "mem_gb": used(None)}
    host, cores = summary.host, run.declared.hardware.get("cpu_quota") or run.declared.hardware.get("cpu_cores")
    return {
        "gpu_util_pct": own["util_pct"],
        "gpu_mem_gb": own["mem_gb"],
        "cpu_util_pct": used(_percent(host.cpu_s_per_s / cores) if host is not None and cores else None),
        "ram_gb": used(None, None if host is None else host.peak_memory_gb),
        "devices": {str(index): device for index, device in enumerate(devices)},
    }


def _percent(share: float | None) -> float | None:
    """Return a share in percent."""
    return None if share is None else 100 * share


def _curve(windows: Sequence[PhaseWindow], figure: str) -> dict[str, Any]:
    """Return a figure over the iterations in which it was measured, and its final exponential moving average."""
    series = [window.figures[figure] for window in windows if figure in window.figures]
    average: float | None = None
    for value in series:
        average = value if average is None else _EMA_ALPHA * value + (1 - _EMA_ALPHA) * average
    return {
        "final_raw": series[-1] if series else None,
        "final_ema": average,
        "series_per_iter": series or None,
    }


def _mean_std(values: Sequence[float]) -> dict[str, float | None]:
    """Return mean, sample standard deviation and largest value; ``None`` if not measured."""
    return {
        "mean": statistics.fmean(values) if values else None,
        "std": statistics.stdev(values) if len(values) > 1 else None,
        "peak": max(values) if values else None,
    }
