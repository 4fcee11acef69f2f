"""Runs in the schema of Isaac Lab's own benchmark: ``training.json`` bundles, version 1.4.

The bundle is built from plain values, so it does not need Isaac Lab; a test builds Isaac Lab's own classes from it. If
the ledger lacks a figure that the schema asks for, the value is null and ``extra`` names its path. Isaac Lab's own
producer writes 0.0 there, which looks like a measurement. If a value is not among those that the schema lists,
``extra`` names its path, too.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from ledger_lab.errors import UserError
from ledger_lab.files import whole_file
from ledger_lab.ledger import Attempt, AttemptStarted, PhaseWindow, Run, StateRestored, Status, SupervisionStarted
from ledger_lab.ledger.meters import TRAINING_PHASES, Phase
from ledger_lab.names import names_a_folder
from ledger_lab.reports.clock import sampled
from ledger_lab.reports.summary import RunSummary
from ledger_lab.units import in_gigabytes

SCHEMA_VERSION = "1.4"

FRAMEWORKS = {
    "rsl_rl": "rsl_rl",
    "rl_games": "rl_games",
    "skrl": "skrl",
    "sb3": "sb3",
    "stable_baselines3": "sb3",
}
"""Libraries that the schema knows, by the names that a run declares."""

PHYSICS = {
    "newton/mjwarp": "newton_mjwarp",
    "newton/kamino": "newton_kamino",
    "ovphysx": "ovphysx",
    "physx": "physx",
}
"""Physics engines that the schema knows, by the names that a run declares."""

PHYSICS_OUTSIDE = {"newton/mujoco": "newton_mujoco"}
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

_NO_VERSIONS = (
    "isaacsim",
    "kit",
    "isaaclab_newton",
    "isaaclab_physx",
    "isaaclab_ov",
    "isaaclab_tasks",
    "isaaclab_rl",
    "ovrtx",
    "cuda_bindings",
    "usd_core",
    "usd_exchange",
    "isaaclab_release",
)
"""Packages that only the schema records; they may be missing."""

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
    if run.declared.physics not in PHYSICS | PHYSICS_OUTSIDE:
        return f"the schema doesn't know the physics {run.declared.physics!r}"
    if not run.attempts:
        return "it was declared, but never started"
    if summary.status == Status.RUNNING:
        return "it is still running"
    return None


def training_bundle(run: Run, summary: RunSummary) -> dict[str, Any]:
    """Return a run as a training bundle of plain JSON values.

    Args:
        run: A run for which :func:`why_not` returns ``None``.
        summary: Its figures.
    """
    declared = run.declared
    steps = _iterations(run)
    last = run.attempts[-1]
    bundle: dict[str, Any] = {
        "run": {
            "run_id": declared.run_id,
            "framework": FRAMEWORKS[declared.rl_library],
            "config": {
                "physics_backend": (PHYSICS | PHYSICS_OUTSIDE)[declared.physics],
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
        "runtime": _runtime(run, steps),
        "resources": _resources(run),
        "learning": {
            "ema_alpha": _EMA_ALPHA,
            "reward": _curve(steps, "mean_return"),
            "ep_length": _curve(steps, "mean_episode_steps"),
            "success_rate": None,  # a training metric per iteration in this schema; held-out success is in extra
        },
        "success_rate": summary.heldout_success,
        "checkpoint_path": str(run.directory / run.checkpoints[-1].path) if run.checkpoints else None,
        "video_path": None,
    }
    extra = {
        "ledger_lab/status": summary.status,
        "ledger_lab/panel_id": summary.panel_id,
        "ledger_lab/target_reached": summary.target_reached,
        "ledger_lab/heldout_successes": summary.heldout_successes,
        "ledger_lab/heldout_episodes": summary.heldout_episodes,
        "ledger_lab/wall_to_target_s": summary.wall_to_target_s,
        "ledger_lab/billable_usd": summary.billable_usd,
        "ledger_lab/evaluation_afterwards_s": summary.evaluation_afterwards_s,
        "ledger_lab/evaluation_afterwards_usd": summary.evaluation_afterwards_usd,
        "ledger_lab/env_steps_per_s": summary.env_steps_per_s,
        "ledger_lab/env_steps_per_wall_s": summary.env_steps_per_wall_s,
        "ledger_lab/updates_per_min": summary.updates_per_min,
        "ledger_lab/updates_per_wall_min": summary.updates_per_wall_min,
        "ledger_lab/attempts": len(run.attempts),
        "ledger_lab/world_size": declared.world_size,
        "ledger_lab/accelerator": declared.hardware.get("accelerator"),
        "ledger_lab/not_measured": " ".join(_unknown(bundle)) or None,
        "ledger_lab/not_in_schema": "run.config.physics_backend" if declared.physics in PHYSICS_OUTSIDE else None,
    }
    known = {key: value for key, value in extra.items() if value is not None}
    return {**bundle, "extra": known, "schema_version": SCHEMA_VERSION}


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
        **dict.fromkeys(_NO_VERSIONS),
        "git_commit": git.get("commit"),
        "git_branch": None,
        "git_dirty": None if git.get("commit") is None else git.get("changes_sha256") is not None,
    }


@dataclass(frozen=True)
class _Iterations:
    """A phase window, and how many iterations it covers: several in the excerpt of a run that comes with a task."""

    window: PhaseWindow
    count: int


def _iterations(run: Run) -> list[_Iterations]:
    """Return the iterations of a run.

    If an attempt was interrupted, its last row repeats the number of the iteration before. That row is left out.
    """
    found: list[_Iterations] = []
    done: dict[int, int] = {}
    for attempt, window in run.windows:
        if window.iteration is None:
            continue
        if attempt.number not in done:
            done[attempt.number] = next((row.iteration for row in attempt.of(StateRestored)), 0)
        before = done[attempt.number]
        if window.iteration > before:
            found.append(_Iterations(window, window.iteration - before))
            done[attempt.number] = window.iteration
    return found


def _runtime(run: Run, windows: Sequence[_Iterations]) -> dict[str, Any]:
    """Return how fast a run was, over its iterations."""
    declared = run.declared
    steps = declared.env_steps_per_iteration
    return {
        # The ledger records only the whole start-up time, as a phase.
        "startup_time_s": dict.fromkeys(["app_launch", "env_creation", "first_step", "python_imports", "task_config"]),
        "iterations_completed": max((each.window.iteration or 0 for each in windows), default=0),
        "total_wall_time_s": sum(attempt.wall_ns for attempt in run.attempts) / 1e9,
        "steps_per_iteration": steps,
        # Over the training phases, as in a training without held-out slots; extra has the figures of the whole loop.
        "iteration_time_s": _times(windows),
        "collection_fps": _rates(windows, steps, _COLLECTING),
        "total_fps": _rates(windows, steps, TRAINING_PHASES),
        "iterations_per_s": _rates(windows, 1, TRAINING_PHASES),
        "environment_step_timing": None,
    }


def _times(windows: Sequence[_Iterations]) -> dict[str, float | None]:
    """Return the times of the iterations [s]; of iterations that were recorded together, only the mean is known."""
    spent_s = [_spent_s(each.window, TRAINING_PHASES) for each in windows]
    if all(each.count == 1 for each in windows):
        return _mean_std(spent_s, peak=True)
    return {"mean": sum(spent_s) / sum(each.count for each in windows), "std": None, "peak": None}


def _rates(windows: Sequence[_Iterations], amount: int, phases: frozenset[Phase]) -> dict[str, float | None]:
    """Return an amount per iteration divided by the time of some phases [1/s]; as :func:`_times`."""
    timed = [(each.count, spent_s) for each in windows if (spent_s := _spent_s(each.window, phases)) > 0]
    if all(count == 1 for count, _ in timed):
        return _mean_std([amount / spent_s for _, spent_s in timed], peak=True)
    whole_s = sum(spent_s for _, spent_s in timed)
    return {"mean": amount * sum(count for count, _ in timed) / whole_s, "std": None, "peak": None}


def _resources(run: Run) -> dict[str, Any]:
    """Return a run's use of its host and its accelerators, from its telemetry."""
    used: dict[str, tuple[list[float], list[float]]] = {}
    cores: list[float] = []
    memory: list[float] = []
    for attempt in run.attempts:
        for row, passed_s in sampled(attempt):
            for device in row.devices:
                shares, gigabytes = used.setdefault(device.uuid, ([], []))
                if device.utilization is not None:
                    shares.append(100 * device.utilization)
                if device.memory_used_bytes is not None:
                    gigabytes.append(device.memory_used_bytes / 1e9)
            if row.host is not None:
                memory.append(row.host.memory_bytes / 1e9)
                count = run.declared.hardware.get("cpu_quota") or run.declared.hardware.get("cpu_cores")
                if count and passed_s:
                    cores.append(100 * row.host.cpu_s / passed_s / count)
    devices = [
        {"util_pct": _mean_std(shares, peak=False), "mem_gb": _mean_std(gigabytes, peak=True)}
        for shares, gigabytes in used.values()
    ]
    own = devices[0] if devices else {"util_pct": _mean_std([], peak=False), "mem_gb": _mean_std([], peak=True)}
    return {
        "gpu_util_pct": own["util_pct"],
        "gpu_mem_gb": own["mem_gb"],
        "cpu_util_pct": _mean_std(cores, peak=False),
        "ram_gb": _mean_std(memory, peak=True),
        "devices": {str(index): device for index, device in enumerate(devices)},
    }


def _curve(windows: Sequence[_Iterations], figure: str) -> dict[str, Any]:
    """Return a figure over the iterations in which it was measured, and its final exponential moving average.

    Of iterations that were recorded together, only the last value is known.
    """
    series = [each.window.figures[figure] for each in windows if figure in each.window.figures]
    if any(each.count > 1 for each in windows):
        return {"final_raw": series[-1] if series else None, "final_ema": None, "series_per_iter": None}
    average: float | None = None
    for value in series:
        average = value if average is None else _EMA_ALPHA * value + (1 - _EMA_ALPHA) * average
    return {
        "final_raw": series[-1] if series else None,
        "final_ema": average,
        "series_per_iter": series or None,
    }


def _mean_std(values: Sequence[float], *, peak: bool) -> dict[str, float | None]:
    """Return mean, sample standard deviation and largest value; ``None`` if not measured."""
    return {
        "mean": statistics.fmean(values) if values else None,
        "std": statistics.stdev(values) if len(values) > 1 else None,
        "peak": max(values) if values and peak else None,
    }


def _spent_s(window: PhaseWindow, phases: frozenset[Phase]) -> float:
    """Return the seconds of a window in some phases."""
    return sum(spent_ns for phase, spent_ns in window.phase_ns.items() if phase in phases) / 1e9


_MAY_BE_MISSING = {
    "peak",
    "python_imports",
    "task_config",
    "environment_step_timing",
    "series_per_iter",
    "success_rate",
    "checkpoint_path",
    "video_path",
    *_NO_VERSIONS,
    *(set(_VERSIONS) - {"isaaclab", "torch"}),
    "git_commit",
    "git_branch",
}
"""Fields that the schema lets be null."""


def _unknown(value: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the paths of fields that are null although the schema asks for them."""
    for key, each in value.items():
        if isinstance(each, dict):
            yield from _unknown(each, f"{prefix}{key}.")
        elif each is None and key not in _MAY_BE_MISSING:
            yield f"{prefix}{key}"
