"""Searches whose trainings take no time: a run is written with the time that a formula gives its recipe.

A training progresses steadily from 0 to 1, where it reaches the target. One that begins with a checkpoint begins with
its progress, and an iteration takes a second.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import secrets
import socket
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ledger_lab.ledger import (
    STATE_FILE,
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    Journal,
    Row,
    StateSaved,
    Status,
)
from ledger_lab.ledger.costs.prices import load_prices, resolve_price
from ledger_lab.studies.commands import search as program
from ledger_lab.studies.commands import study
from ledger_lab.studies.commands.search import run_search
from ledger_lab.studies.search import search as starter
from ledger_lab.tasks.recipes.recipe_file import check_recipe
from ledger_lab.training.launch.world import read_job
from tests.conftest import ROOT
from tests.fakes.ledgers import SECOND, declared, outcomes, result, sha256_of, window

type Trainer = Callable[[Sequence[str], float | None], int]
"""Carries out the command of a training, with its limit [s], and returns the exit status."""

_CHECKPOINT, _PROGRESS = "model_1.pt", "progress"

_EPISODES, _TARGET = 32, 0.8
"""Episodes of a score, and the target: enough episodes to prove it."""
STOCK_S, BEST_S = 60.0, 20.0
"""Times to the target of the stock recipe, and of the best one [s]."""

FILE = """
version = 1
about = "made for tests"
task = "LedgerLab-Cartpole"
arguments = {arguments}
budget_h = {budget_h}
search_seeds = {search_seeds}
sealed_seeds = [11, 12, 13, 14, 15, 16, 17, 18, 19, 20]
{more}
[space.learning_rate]
type = "float"
low = 1e-5
high = 1e-1
log = true
[space.schedule]
type = "choice"
choices = ["fixed", "adaptive"]
"""


_TRAINER = """
import sys, time
sys.path.insert(0, {root!r})
from ledger_lab.ledger import Status
from tests.fakes.searches import train
if "--resume" in sys.argv:
    sys.exit(1)
time.sleep({sleep_s})
if not {resumes}:
    sys.exit(train([sys.executable, *sys.argv], interrupted_after_s=1.0))
status = Status.LIMIT_REACHED if "--recipe" in sys.argv else None
sys.exit(train([sys.executable, *sys.argv], status=status))
"""
"""A program in place of ``train.py`` that writes its run at once."""


def search_file(
    folder: Path, *, budget_h: float = 0.15, arguments: str = "[]", more: str = "", search_seeds: str = "[1, 2]"
) -> Path:
    """Write a search of two parameters, and return its path."""
    path = folder / "s.toml"
    path.write_text(FILE.format(budget_h=budget_h, arguments=arguments, more=more, search_seeds=search_seeds))
    return path


def population_file(folder: Path, *, budget_h: float = 0.15, iterations: int = 10) -> Path:
    """Write a search with a population of four members, and return its path."""
    more = f'strategy = "population"\n[population]\niterations = {iterations}'
    return search_file(folder, budget_h=budget_h, more=more, search_seeds="[1, 2, 3, 4]")


def time_of(values: dict[str, object], seed: int) -> float:
    """Return the time to the target of a recipe [s]; the stock recipe has no values."""
    if not values:
        return STOCK_S + seed % 3
    distance = math.log10(float(values["learning_rate"]) / 1e-3) ** 2  # type: ignore[arg-type]
    return (BEST_S + seed % 3) * math.exp(distance) * (1.2 if values["schedule"] == "fixed" else 1.0)


def train(
    command: Sequence[str],
    longest_s: float | None = None,
    *,
    interrupted_after_s: float | None = None,
    state: bool = True,
    status: Status | None = None,
    time_s: float | None = None,
) -> int:
    """Write the run of a training as ``train.py`` would, and return its exit status.

    Args:
        command: The command line.
        longest_s: Not used.
        interrupted_after_s: When it is preempted [s]; ``None`` for never.
        state: Whether a preempted training leaves a state.
        status: How it ends, whatever its recipe is; ``None`` for the formula.
        time_s: Its time to the target [s]; ``None`` for the formula.
    """
    parser = argparse.ArgumentParser()
    for flag in ("--cohort", "--log_root", "--recipe", "--resume", "--usd_per_hour", "--task", "--rl_library"):
        parser.add_argument(flag)
    parser.add_argument("--checkpoint")
    for flag in ("--seed", "--num_envs", "--max_iterations"):
        parser.add_argument(flag, type=int)
    parser.add_argument("--limit_s", type=float)
    asked, _ = parser.parse_known_args([*command][2:])
    root = Path(asked.log_root)
    if asked.resume:
        return _resume(root, asked.resume, interrupted_after_s)
    recipe = None
    if asked.recipe is not None:
        recipe = check_recipe(Path(asked.recipe), tomllib.loads(Path(asked.recipe).read_text())).to_data()
    values = {} if recipe is None else recipe["fields"]
    whole_s = time_of(values, asked.seed)
    began_from, begun = None, 0.0
    if asked.checkpoint is not None:
        (before,) = root.rglob(asked.checkpoint)
        begun = float((before / _PROGRESS).read_text())
        began_from = {"run_id": asked.checkpoint, "task": asked.task, "checkpoint": _CHECKPOINT, "sha256": "0" * 64}
        began_from |= {"env_steps": 0, "wall_s": 0.0, "usd": None}
    time_s = whole_s * (1 - begun) if time_s is None else time_s
    usd_per_hour = None if asked.usd_per_hour is None else float(asked.usd_per_hour)
    price = resolve_price(None, usd_per_hour, load_prices(), today=datetime.date(2026, 1, 1))
    run_id = secrets.token_hex(4)
    run_dir = root / "rsl_rl" / "e" / run_id
    run_dir.mkdir(parents=True)
    limit_s = math.inf if asked.limit_s is None else asked.limit_s
    longest_s = math.inf if asked.max_iterations is None else float(asked.max_iterations)
    ended_s = min(time_s, limit_s, longest_s, math.inf if interrupted_after_s is None else interrupted_after_s)
    progress = min(1.0, begun + ended_s / whole_s)
    (run_dir / _PROGRESS).write_text(str(progress))
    if status is None:
        status = Status.TARGET_REACHED if ended_s == time_s else Status.LIMIT_REACHED
        status = Status.COMPLETED if ended_s == longest_s != time_s else status
        status = Status.PREEMPTED if ended_s == interrupted_after_s else status
    with Journal(run_dir / "journal-1-0.jsonl") as journal:
        journal.append(
            declared(
                run_id,
                task=asked.task,
                cohort=asked.cohort,
                seed=asked.seed,
                recipe=recipe,
                price=price.to_dict(),
                rl_library=asked.rl_library or "rsl_rl",
                request=None if asked.limit_s is None else {"limit_s": asked.limit_s},
                target_success=_TARGET,
                began_from=began_from,
            )
        )
        journal.append(_started(run_id, 1))
        journal.append(window(1, 40, {"simulate": SECOND}, SECOND))
        if status is Status.PREEMPTED and state:
            (run_dir / STATE_FILE).write_text(str(time_s))
            journal.append(_saved(1, ended_s))
        for row in _judged(run_id, progress) if status in (Status.COMPLETED, Status.TARGET_REACHED) else ():
            journal.append(row)
        journal.append(_end(status, ended_s))
    return 124 if status is Status.LIMIT_REACHED else 0 if status in (Status.TARGET_REACHED, Status.COMPLETED) else 1


def _resume(root: Path, run: str, interrupted_after_s: float | None) -> int:
    """Write the next attempt of a run, which takes half of its time unless it is interrupted."""
    (run_dir,) = root.rglob(run)
    number = len([*run_dir.glob("journal-*")]) + 1
    ended_s = interrupted_after_s or float((run_dir / STATE_FILE).read_text()) / 2
    with Journal(run_dir / f"journal-{number}-0.jsonl") as journal:
        journal.append(_started(run, number))
        if interrupted_after_s is not None:
            journal.append(_saved(number, ended_s))
        journal.append(_end(Status.TARGET_REACHED if interrupted_after_s is None else Status.PREEMPTED, ended_s))
    return 0


def _started(run_id: str, number: int) -> AttemptStarted:
    """Return the first row of an attempt, in the job of this process if there is one."""
    host = socket.gethostname()
    job = read_job(os.environ)
    return AttemptStarted(run_id=run_id, attempt=number, rank=0, pid=2**22 + 1, host=host, wall_ns=1, job=job)


def _judged(run_id: str, progress: float) -> list[Row]:
    """Return the rows of the last policy, and of its check: the share of successes is the progress."""
    sha256 = sha256_of(run_id, _CHECKPOINT)
    saved = CheckpointSaved(path=_CHECKPOINT, sha256=sha256, size_bytes=1, iteration=1, env_steps=40, wall_ns=1)
    score = result(run_id, _CHECKPOINT, 0, purpose="check")
    return [saved, replace(score, outcomes=outcomes(int(progress * _EPISODES), _EPISODES))]


def _saved(iteration: int, wall_s: float) -> StateSaved:
    """Return the row of a state."""
    return StateSaved(
        sha256="0" * 64,
        size_bytes=1,
        iteration=iteration,
        env_steps=40 * iteration,
        wall_ns=round(wall_s * SECOND),
    )


def _end(status: Status, wall_s: float) -> AttemptEnded:
    """Return the last row of an attempt."""
    return AttemptEnded(
        status=status,
        reason=None,
        wall_ns=round(wall_s * SECOND),
        peak_host_memory_bytes=1,
        peak_gpu_memory_bytes=None,
    )


def replace_trainings(monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[Trainer]:
    """Replace the trainings of searches in this process, and return the list of the next ones.

    When the list is empty, trainings go as the formula says. The study at the end of a search is left out.
    """
    special: list[Trainer] = []

    def next_training(command: Sequence[str], longest_s: float | None = None, keeps: Sequence[int] = ()) -> int:
        return (special.pop(0) if special else train)(command, longest_s)

    monkeypatch.setattr(starter, "train_here", next_training)
    monkeypatch.setattr(study, "train_here", next_training)
    monkeypatch.setattr(program, "run_study", lambda argv: 0)
    monkeypatch.setattr(sys, "argv", [str(folder / "search.py")])
    return special


def searched(path: Path, log_root: Path, *more: str) -> int:
    """Run a search in this process, and return its exit status."""
    return run_search([str(path), "--log_root", str(log_root), *more])


def told(path: Path, log_root: Path) -> dict[str, Any]:
    """Return what ``--status --json`` says of a search."""
    target = log_root.parent / "told.json"
    searched(path, log_root, "--status", "--json", str(target))
    content: dict[str, Any] = json.loads(target.read_text())
    return content


def trainer(
    folder: Path,
    *,
    sleep_s: float = 0.0,
    resumes: bool = True,
) -> None:
    """Write the trainer.

    Args:
        folder: Folder of the cluster.
        sleep_s: How long a training takes before it writes its run [s].
        resumes: Whether trainings go to their end; if not, they are interrupted, and can't be resumed.
    """
    text = _TRAINER.format(
        root=str(ROOT),
        sleep_s=sleep_s,
        resumes=resumes,
    )
    (folder / "scripts" / "train.py").write_text(text)
