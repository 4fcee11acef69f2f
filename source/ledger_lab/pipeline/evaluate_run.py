"""``scripts/evaluate.py``: any number of checkpoints on all episodes of a panel, in one simulation pass."""

from __future__ import annotations

import os
import secrets
import socket
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from rich.console import Console
from rich.table import Table

from ledger_lab.errors import UserError
from ledger_lab.ledger import EvaluationEnded, EvaluationStarted, Journal, PanelResult, Row, RunDeclared
from ledger_lab.meters import Phase, PhaseClock, package_versions
from ledger_lab.meters.compilation import metered_compilation
from ledger_lab.panels import Panel, PanelIdentity, differing_fields, reaches_target, wilson_interval
from ledger_lab.pipeline.attempt import attempt_life
from ledger_lab.pipeline.console import Terminal, tell_error
from ledger_lab.pipeline.find import FoundCheckpoint, find_checkpoints
from ledger_lab.pipeline.preflight import hash_configs, task_panel
from ledger_lab.pipeline.request import evaluate_parser, launcher_args, parse_plain
from ledger_lab.pipeline.score import Candidate, require_unchanged, score_checkpoints
from ledger_lab.reports.format import percent
from ledger_lab.runners import load_adapter
from ledger_lab.runners.configs import resolve_configs
from ledger_lab.runners.description import describe_simulation
from ledger_lab.runners.session import (
    held_out_config,
    peak_gpu_memory_bytes,
    require_runtime,
    require_task,
    resolve_device,
    simulation_app,
)

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnvCfg


def evaluate_run(argv: Sequence[str], started_ns: int) -> NoReturn:
    """Score checkpoints and write the results beside their runs' journals.

    Args:
        argv: Command line without the program's name.
        started_ns: When the process began, on the clock of :func:`time.perf_counter_ns`.

    Raises:
        SystemExit: In the end; with status 0 only if every checkpoint was scored on every episode.
        UserError: If the request can't be carried out; no row was written.
    """
    args = parse_plain(evaluate_parser(), argv)
    terminal = Terminal(quiet_libraries=not (args.verbose or args.info))
    try:
        _carry_out(_plan(args), terminal, PhaseClock(started_ns))
    finally:
        terminal.restore()


@dataclass(frozen=True, kw_only=True)
class _EvaluationPlan:
    """An evaluation that nothing speaks against."""

    task: str
    env_cfg: ManagerBasedRLEnvCfg
    panel: Panel
    identity: PanelIdentity
    candidates: list[Candidate]
    launcher_args: dict[str, object]
    device: str


def _plan(args: Namespace) -> _EvaluationPlan:
    """Find the checkpoints, and check that they can be scored together."""
    device = resolve_device(args.device)
    found = find_checkpoints(args.checkpoints, args.log_root)
    declared = found[0].run.declared
    _require_one_environment(found)
    require_task(declared.task, declared.rl_library)
    panel = task_panel(declared.task, args.panel or _common_panel(found))
    env_cfg, _ = resolve_configs(declared.task, declared.rl_library, declared.overrides)
    env_cfg.sim.device, env_cfg.seed = device, declared.seed
    flags = launcher_args(args, device)
    require_runtime(env_cfg, flags)
    identity = PanelIdentity.of(panel, describe_simulation(held_out_config(env_cfg, panel, 1)))
    for run in {checkpoint.run.declared.run_id: checkpoint.run.declared for checkpoint in found}.values():
        _require_same_panel(run, panel, identity)
    candidates = [_candidate(checkpoint, device) for checkpoint in found]
    for candidate in candidates:
        require_unchanged(candidate)
    return _EvaluationPlan(
        task=declared.task,
        env_cfg=env_cfg,
        panel=panel,
        identity=identity,
        candidates=candidates,
        launcher_args=flags,
        device=device,
    )


def _carry_out(plan: _EvaluationPlan, terminal: Terminal, clock: PhaseClock) -> NoReturn:
    """Open the journals, score, and show the scores."""
    name = f"journal-evaluation-{secrets.token_hex(4)}-0"
    console = terminal.console
    with ExitStack() as shutdown:
        try:
            journals = {
                run_dir: shutdown.enter_context(Journal(run_dir / f"{name}.jsonl"))
                for run_dir in {candidate.run_dir: None for candidate in plan.candidates}
            }
        except OSError as error:
            raise UserError(f"cannot write beside the run's journal: {error.filename}: {error.strerror}") from error
        terminal.keep_log(next(iter(journals)) / f"{name}.log")

        def append_everywhere(row: Row) -> None:
            for journal in journals.values():
                journal.append(row)

        for run_dir, journal in journals.items():
            journal.append(_started(plan, run_dir, clock))
        shutdown.enter_context(metered_compilation(clock))
        results: list[PanelResult] = []
        peak = lambda: peak_gpu_memory_bytes(plan.device)  # noqa: E731 - asked once, in the end
        with attempt_life(append_everywhere, clock, peak, EvaluationEnded) as attempt:
            shutdown.enter_context(simulation_app(plan.env_cfg, plan.launcher_args))
            clock.set_base(Phase.EVALUATE)
            results = score_checkpoints(
                plan.candidates,
                task=plan.task,
                env_cfg=plan.env_cfg,
                panel=plan.panel,
                identity=plan.identity,
                console=console,
            )
            for candidate, result in zip(plan.candidates, results, strict=True):
                journals[candidate.run_dir].append(result)
        if attempt.error is not None:
            tell_error(attempt.error, console, terminal.log)
        else:
            _show(plan, results, console)
        sys.exit(attempt.exit_status)


def _require_one_environment(found: Sequence[FoundCheckpoint]) -> None:
    """Refuse runs that were not trained in the same environment."""
    first = found[0].run.declared
    for other in (checkpoint.run.declared for checkpoint in found):
        if _environment_of(other) != _environment_of(first):
            raise UserError(
                f"runs {first.run_id} and {other.run_id} were trained in different environments "
                f"({' '.join(_environment_of(first))} and {' '.join(_environment_of(other))}): score them one by one"
            )


def _environment_of(declared: RunDeclared) -> list[str]:
    """Return what decides a run's environment: its task and the overrides that are not the agent's."""
    return [declared.task, *(override for override in declared.overrides if not override.startswith("agent."))]


def _common_panel(found: Sequence[FoundCheckpoint]) -> str:
    """Return the panel that all runs declared."""
    panels = sorted({checkpoint.run.declared.panel for checkpoint in found})
    if len(panels) > 1:
        raise UserError(f"the runs declared different panels ({', '.join(panels)}): name one with --panel")
    return panels[0]


def _require_same_panel(declared: RunDeclared, panel: Panel, identity: PanelIdentity) -> None:
    """Refuse to score on a panel that has changed since the run declared it."""
    if panel.source != declared.panel:
        return
    differences = differing_fields(identity.fields, declared.panel_fields)
    if panel.target_success != declared.target_success:
        differences.append(f"target_success: {panel.target_success} != {declared.target_success}")
    if not differences:
        return
    raise UserError(
        f"panel {panel.name} is not the one that run {declared.run_id} declared, so scores could not be compared: "
        f"{'; '.join(differences[:4])} (now != then). Restore that, or train a new run"
    )


def _candidate(checkpoint: FoundCheckpoint, device: str) -> Candidate:
    """Resolve what a checkpoint's policy is made with."""
    declared = checkpoint.run.declared
    adapter = load_adapter(declared.rl_library)
    env_cfg, agent_cfg = resolve_configs(declared.task, declared.rl_library, declared.overrides)
    agent_cfg = adapter.prepare(agent_cfg, device)
    if hash_configs(env_cfg, agent_cfg)["agent"] != declared.config_sha256["agent"]:
        raise UserError(
            f"the agent of {declared.task} is configured otherwise than when run {declared.run_id} was trained, so its "
            f"checkpoints might become other policies: compare {checkpoint.run.directory / 'params' / 'agent.yaml'}"
        )
    return Candidate(
        run_id=declared.run_id,
        run_dir=checkpoint.run.directory,
        saved=checkpoint.saved,
        adapter=adapter,
        agent_cfg=agent_cfg,
    )


def _started(plan: _EvaluationPlan, run_dir: Path, clock: PhaseClock) -> EvaluationStarted:
    """Return the row that says what is going to be scored in one run's directory."""
    own = [candidate for candidate in plan.candidates if candidate.run_dir == run_dir]
    return EvaluationStarted(
        run_id=own[0].run_id,
        panel=plan.panel.source,
        panel_id=plan.identity.id,
        panel_fields=plan.identity.fields,
        checkpoints=[candidate.saved.path for candidate in own],
        device=plan.device,
        versions=package_versions(),
        host=socket.gethostname(),
        pid=os.getpid(),
        wall_ns=clock.wall_ns(),
    )


def _show(plan: _EvaluationPlan, results: Sequence[PanelResult], console: Console) -> None:
    """Print one row per checkpoint."""
    target = plan.panel.target_success
    console.print(f"panel {plan.panel.name} ({plan.identity.id[:11]}…) · target {percent(target, 0)}", markup=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("run", "checkpoint", "iteration", "success (95 %)", "episodes ended by", "exactness", ""):
        table.add_column(name, justify="right" if name == "iteration" else "left", no_wrap=True)
    for candidate, result in zip(plan.candidates, results, strict=True):
        outcomes = result.outcomes
        low, high = wilson_interval(outcomes.successes, outcomes.episodes)
        ends = " · ".join(f"{name} {count}" for name, count in Counter(outcomes.ended_by).most_common())
        reached = reaches_target(outcomes.successes, outcomes.episodes, target)
        table.add_row(
            result.run_id,
            result.checkpoint,
            str(candidate.saved.iteration),
            f"{outcomes.successes}/{outcomes.episodes} [{100 * low:.1f}, {100 * high:.1f}] %",
            ends,
            result.exactness,
            "target reached" if reached else "",
            style="green" if reached else None,
        )
    console.print(table)
