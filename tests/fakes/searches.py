"""Searches whose trainings take no time: a run is written with the time that a formula gives its recipe."""

from __future__ import annotations

import argparse
import datetime
import math
import secrets
import socket
import tomllib
from collections.abc import Sequence
from pathlib import Path

from ledger_lab.costs import load_prices, resolve_price
from ledger_lab.ledger import STATE_FILE, AttemptEnded, AttemptStarted, Journal, StateSaved, Status
from ledger_lab.recipes.recipe_file import check_recipe
from tests.fakes.ledgers import SECOND, declared, window

STOCK_S, BEST_S = 60.0, 20.0
"""Times to the target of the stock recipe, and of the best one [s]."""

FILE = """
version = 1
about = "made for tests"
task = "LedgerLab-Cartpole"
arguments = {arguments}
budget_h = {budget_h}
search_seeds = [1, 2]
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


def search_file(folder: Path, *, budget_h: float = 0.15, arguments: str = "[]", more: str = "") -> Path:
    """Write a search of two parameters, and return its path."""
    path = folder / "s.toml"
    path.write_text(FILE.format(budget_h=budget_h, arguments=arguments, more=more))
    return path


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
    for flag in ("--seed", "--num_envs"):
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
    time_s = time_of(values, asked.seed) if time_s is None else time_s
    usd_per_hour = None if asked.usd_per_hour is None else float(asked.usd_per_hour)
    price = resolve_price(None, usd_per_hour, load_prices(), today=datetime.date(2026, 1, 1))
    run_id = secrets.token_hex(4)
    run_dir = root / "rsl_rl" / "e" / run_id
    run_dir.mkdir(parents=True)
    limit_s = math.inf if asked.limit_s is None else asked.limit_s
    ended_s = min(time_s, limit_s, math.inf if interrupted_after_s is None else interrupted_after_s)
    if status is None:
        status = Status.TARGET_REACHED if ended_s == time_s else Status.LIMIT_REACHED
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
                request={"limit_s": asked.limit_s},
            )
        )
        journal.append(
            AttemptStarted(run_id=run_id, attempt=1, rank=0, pid=2**22 + 1, host=socket.gethostname(), wall_ns=1)
        )
        journal.append(window(1, 40, {"simulate": SECOND}, SECOND))
        if status is Status.PREEMPTED and state:
            (run_dir / STATE_FILE).write_text(str(time_s))
            journal.append(_saved(1, ended_s))
        journal.append(_end(status, ended_s))
    return 0 if status is Status.TARGET_REACHED else 124


def _resume(root: Path, run: str, interrupted_after_s: float | None) -> int:
    """Write the next attempt of a run, which takes half of its time unless it is interrupted."""
    (run_dir,) = root.rglob(run)
    number = len([*run_dir.glob("journal-*")]) + 1
    ended_s = interrupted_after_s or float((run_dir / STATE_FILE).read_text()) / 2
    with Journal(run_dir / f"journal-{number}-0.jsonl") as journal:
        journal.append(
            AttemptStarted(run_id=run, attempt=number, rank=0, pid=2**22 + 1, host=socket.gethostname(), wall_ns=1)
        )
        if interrupted_after_s is not None:
            journal.append(_saved(number, ended_s))
        journal.append(_end(Status.TARGET_REACHED if interrupted_after_s is None else Status.PREEMPTED, ended_s))
    return 0


def _saved(iteration: int, wall_s: float) -> StateSaved:
    """Return the row of a state."""
    return StateSaved(
        sha256="0" * 64,
        size_bytes=1,
        iteration=iteration,
        env_steps=40 * iteration,
        exactness="bitwise",
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
