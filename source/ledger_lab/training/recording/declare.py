"""Declares a run before it spends anything."""

from __future__ import annotations

import datetime
import hashlib
import re
import secrets
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ledger_lab.errors import UserError
from ledger_lab.ledger import RunDeclared, declare_cohort, require_cohort_name
from ledger_lab.ledger.costs import load_price_book, resolve_price
from ledger_lab.ledger.encoding import canonical_json
from ledger_lab.ledger.meters import PhaseClock, git_facts, hardware_facts, package_versions, python_started_ns
from ledger_lab.ledger.storage import require_file_size, require_storage
from ledger_lab.names import require_folder_name
from ledger_lab.panels import RULE_VERSION, VerdictRule
from ledger_lab.training.recording.panel import RecordedPanel
from ledger_lab.training.recording.run import RecordedRun


def record_run(
    *,
    task: str,
    library: str,
    panel: RecordedPanel,
    target_success: float,
    seed: int,
    device: str,
    num_envs: int,
    horizon: int,
    max_iterations: int,
    epochs: int = 1,
    minibatches: int = 1,
    physics: str = "unknown",
    experiment: str | None = None,
    cohort: str | None = None,
    cohort_size: int | None = None,
    instance: str | None = None,
    usd_per_hour: float | None = None,
    prices: Path | None = None,
    packages: Sequence[str] = (),
    config: Mapping[str, Any] | None = None,
    peak_gpu_memory_bytes: Callable[[], int | None] = lambda: None,
    log_root: Path = Path("logs"),
    since_process_start: bool = True,
) -> RecordedRun:
    """Declare a run of one process, and return the context manager that records it.

    Args:
        task: Name of the task.
        library: Name of the learning framework; also names a folder.
        panel: The panel of held-out episodes that policies are screened on.
        target_success: Success rate to prove, in (0, 1].
        seed: Training seed.
        device: Device to train on.
        num_envs: Environments in parallel.
        horizon: Environment steps per iteration and environment.
        max_iterations: Largest number of iterations.
        epochs: Passes over each batch.
        minibatches: Minibatches per pass.
        physics: Physics engine.
        experiment: Name of a folder; made from the task's name by default.
        cohort: Name of the cohort that the run is reported with.
        cohort_size: Number of runs that the cohort will have, so that a missing run shows.
        instance: Entry of the price book; ``local`` by default.
        usd_per_hour: Price to use in place of the entry's own [USD/h].
        prices: Price file whose entries take precedence over ``config/prices.toml``.
        packages: Distributions whose versions are recorded, besides LedgerLab's own list.
        config: Hyperparameters, as plain JSON values; their hash is recorded.
        peak_gpu_memory_bytes: Called at the end; returns the peak if an accelerator was used.
        log_root: Root of the ledger.
        since_process_start: Whether the time since Python started counts as the run's start-up. Pass ``False`` if the
            program did something else before, such as another run.

    Raises:
        UserError: If a name can't name a folder, the price is unknown, the panel has too few episodes to prove the
            target, the cohort was declared with another size, or the directory can't hold a ledger.
    """
    started_ns = python_started_ns() if since_process_start else time.perf_counter_ns()
    experiment = experiment or re.sub(r"[^\w.+-]+", "_", task).lower()
    require_folder_name("library", library)
    require_folder_name("experiment", experiment)
    try:
        rule = VerdictRule(target_success)
    except ValueError as error:
        raise UserError(f"target_success {target_success}: must be above 0 and at most 1") from error
    if not rule.is_decidable(len(panel.seeds)):
        raise UserError(
            f"panel {panel.name}: {len(panel.seeds)} episodes are too few to prove a success of {target_success:g}: "
            "give it more seeds, or a lower target"
        )
    if cohort is not None:
        require_cohort_name(cohort)
    elif cohort_size is not None:
        raise UserError(f"cohort_size {cohort_size}: name the cohort")
    price = resolve_price(instance, usd_per_hour, load_price_book(prices), today=datetime.date.today())
    if cohort is not None and cohort_size is not None:
        declare_cohort(log_root, cohort, cohort_size)
    program = Path(sys.argv[0]) if sys.argv and sys.argv[0] else Path()
    run_id = secrets.token_hex(8)
    declared = RunDeclared(
        run_id=run_id,
        cohort=cohort,
        task=task,
        rl_library=library,
        experiment=experiment,
        overrides=[],
        seed=seed,
        device=device,
        num_envs=num_envs,
        world_size=1,
        machines=1,
        max_iterations=max_iterations,
        horizon=horizon,
        epochs=epochs,
        minibatches=minibatches,
        panel=panel.name,
        panel_id=panel.id,
        panel_fields=panel.fields,
        target_success=target_success,
        held_out_slots=0,
        eval_every=None,
        stop_at_target=True,
        error_budget=rule.error_budget,
        verdict_rule=RULE_VERSION,
        stop_on=[],
        physics=physics,
        timing="host",
        price=price.to_dict(),
        config_sha256={} if config is None else {"agent": hashlib.sha256(canonical_json(dict(config))).hexdigest()},
        versions={**package_versions(), **package_versions(tuple(packages))},
        git=git_facts(program.resolve().parent if program.is_file() else Path.cwd()),
        hardware={**hardware_facts(), "accelerator": None},
        command=list(sys.argv),
    )
    require_file_size()
    stamp = datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    directory = log_root / library / experiment / f"{stamp}_{run_id}"
    try:
        directory.mkdir(parents=True)
    except OSError as error:
        raise UserError(f"cannot write to log_root {log_root}: {error.strerror}") from error
    require_storage(directory, f"log_root {log_root}")
    return RecordedRun(declared, panel, directory.resolve(), rule, PhaseClock(started_ns), peak_gpu_memory_bytes)
