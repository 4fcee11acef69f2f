"""``scripts/export_policy.py``: exports a policy for a robot, with the contract needed to run it."""

from __future__ import annotations

import copy
import hashlib
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from rich.console import Console

from ledger_lab.errors import UserError
from ledger_lab.files import make_folder, whole_file
from ledger_lab.ledger.meters import package_versions
from ledger_lab.ledger.meters.host import recorded_packages
from ledger_lab.reports.terminal.console import Terminal
from ledger_lab.reports.terminal.progress import Progress
from ledger_lab.tasks.exported import CONTRACT
from ledger_lab.tasks.registry import require_task
from ledger_lab.training.checkpoints.candidate import (
    Candidate,
    declared_configs,
    print_changed_code,
    require_same_task,
    resolve_candidate,
)
from ledger_lab.training.checkpoints.contract import (
    describe_articulations,
    describe_interface,
    without_startup_events,
)
from ledger_lab.training.checkpoints.deployed import Measured, Measurements, flat_observations, misplaced_terms
from ledger_lab.training.checkpoints.files import (
    INPUT,
    OPSET,
    OUTPUT,
    FlatPolicy,
    largest_error,
    live_actions,
    load_policy_file,
    policy_files,
)
from ledger_lab.training.checkpoints.find import FoundCheckpoint, best_checkpoint
from ledger_lab.training.checkpoints.request import ExportRequest
from ledger_lab.training.checkpoints.shipped import print_shipped_result
from ledger_lab.training.runners.acting_module import ActingModule
from ledger_lab.training.runners.command_line import parse
from ledger_lab.training.runners.session import environment, require_runtime, resolve_device, simulation_app

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv, ManagerBasedRLEnvCfg

CONTRACT_VERSION = 1
"""Raised whenever a field of the contract changes its meaning."""
NUM_ENVS, STEPS = 32, 32
"""Environments and steps whose observations are used to test parity."""
EXAMPLE_EVERY = 256
"""One in this many observations goes into the contract with the policy's actions, as a test for the target machine."""


@dataclass(frozen=True, kw_only=True)
class ExportPlan:
    """A checked export."""

    found: FoundCheckpoint
    candidate: Candidate
    env_cfg: ManagerBasedRLEnvCfg
    """The simulation in which observations are recorded."""
    launcher_args: dict[str, Any]
    folder: Path
    """Folder of the files."""
    tolerance: float


def export_policy(argv: Sequence[str]) -> int:
    """Write the policy of a checkpoint as TorchScript and ONNX, with its contract.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        SystemExit: With status 1 if a file differs from the live policy by more than the tolerance; nothing is written.
        UserError: If the request can't be carried out.
    """
    request = parse(ExportRequest, argv)
    terminal = Terminal(quiet_libraries=request.quiet_libraries)
    try:
        _carry_out(plan_export(request), terminal.console)
    finally:
        terminal.restore()
    return 0


def plan_export(request: ExportRequest) -> ExportPlan:
    """Resolve and check a request; create the folder, and write nothing else.

    Args:
        request: What is asked for.

    Raises:
        UserError: If the request can't be carried out.
    """
    device = resolve_device(request.device)
    flags = request.launcher_args(device)
    found = best_checkpoint(request.source(), request.log_root)
    declared = found.run.declared
    require_task(declared.task, declared.rl_library, declared.agent)
    env_cfg, _ = configs = declared_configs(found.run, trust_run=request.trust_run)
    candidate = resolve_candidate(
        found,
        configs,
        device,
        request.log_root,
        allow_changed_code=request.allow_changed_code,
    )
    env_cfg.sim.device, env_cfg.seed = device, declared.seed
    require_runtime(env_cfg, flags, request.cpu_threads)
    require_same_task(found.run, env_cfg, ("scene", "commands"), "the contract would be wrong")
    without_startup_events(env_cfg)
    env_cfg.scene.num_envs = NUM_ENVS
    folder = request.to or candidate.run_dir / "exported"
    make_folder(folder, root=None if request.to else candidate.run_dir)
    return ExportPlan(
        found=found,
        candidate=candidate,
        env_cfg=env_cfg,
        launcher_args=flags,
        folder=folder,
        tolerance=request.tolerance,
    )


def _carry_out(plan: ExportPlan, console: Console) -> None:
    """Record observations in the task's own simulation, then make, test and write the files."""
    declared, saved, device = plan.found.run.declared, plan.found.saved, plan.env_cfg.sim.device
    console.print(
        f"exporting {saved.path} of run {declared.run_id}, after {saved.iteration} iterations",
        markup=False,
        soft_wrap=True,
    )
    print_shipped_result(plan.candidate.source, console)
    print_changed_code(plan.candidate, console)
    with (
        simulation_app(plan.env_cfg, plan.launcher_args),
        environment(declared.task, plan.env_cfg) as env,
        torch.no_grad(),
    ):
        articulations = describe_articulations(env)  # before a reset randomizes them
        policy, recorded, measured = _record(env, plan.candidate, console)
        flat = FlatPolicy(policy, recorded[0])
        seen = [flat.flatten(groups).cpu() for groups in recorded]
        observations = torch.cat(seen)
        actions = live_actions(policy, recorded)
        contract = {
            **_about(plan.found, plan.candidate.changed_code),
            **describe_interface(env, flat.groups),
            "articulations": articulations,
            "files": {
                "input": {"name": INPUT, "dtype": "float32", "shape": ["batch", observations.shape[1]]},
                "output": {"name": OUTPUT, "dtype": "float32", "shape": ["batch", actions.shape[1]]},
                "onnx_opset": OPSET,
            },
            "examples": [
                {INPUT: seen.tolist(), OUTPUT: done.tolist()}
                for seen, done in zip(observations[::EXAMPLE_EVERY], actions[::EXAMPLE_EVERY], strict=True)
            ],
        }
        files = policy_files(flat, observations[:2].to(device), _text(contract))
        errors = {file.name: largest_error(file, observations, actions) for file in files}
        if not tell_parity(errors, plan.tolerance, console):
            sys.exit(1)  # inside the context: Isaac Sim ends the process itself, with this status
        contract["files"] |= {file.name: {"sha256": hashlib.sha256(file.content).hexdigest()} for file in files}
        contract["parity"] = {
            "observations": len(observations),
            "largest_action": float(actions.abs().max()),
            "largest_error": errors,
            "tolerance": plan.tolerance,
            "device": device,
        }
        _write(plan, {file.name: file.content for file in files}, contract, Recorded(measured, seen, actions), console)


@dataclass(frozen=True)
class Recorded:
    """What the policy saw and did in the simulation, on the CPU."""

    measured: list[Measured]
    """Values of the observation terms at each step."""
    seen: list[torch.Tensor]
    """Flat observations of each step, shape (environments, observations)."""
    actions: torch.Tensor
    """Actions of all steps, shape (steps × environments, actions)."""


def _write(
    plan: ExportPlan, files: Mapping[str, bytes], contract: dict[str, Any], recorded: Recorded, console: Console
) -> None:
    """Write the files beside their place, run them as the contract says, and move them to their place.

    The contract comes last, because it holds the hashes of the others.
    """
    try:
        with tempfile.TemporaryDirectory(prefix=".unfinished-", dir=plan.folder) as unfinished:
            folder = Path(unfinished)
            for name, content in {**files, CONTRACT: _text(contract).encode()}.items():
                (folder / name).write_bytes(content)
            contract["parity"]["from_terms"] = run_as_described(folder, [*files], recorded, plan.tolerance)
            (folder / CONTRACT).write_text(_text(contract))
            for name in (*files, CONTRACT):
                with whole_file(plan.folder / name) as complete:
                    (folder / name).replace(complete)
    except OSError as error:
        raise UserError(f"cannot write to {plan.folder}: {error.strerror}") from error
    for name in (*files, CONTRACT):
        console.print(str(plan.folder / name), style="green", markup=False, soft_wrap=True)


def run_as_described(folder: Path, names: Sequence[str], recorded: Recorded, tolerance: float) -> dict[str, Any]:
    """Run written policies on observations that are computed from single terms as the written contract says.

    Args:
        folder: Folder of the files.
        names: Names of the policy files.
        recorded: What the policy saw and did.
        tolerance: Largest allowed error.

    Returns:
        For the contract: the largest error of each file, and the terms that could not be computed from the contract.

    Raises:
        UserError: If observations or actions differ.
    """
    described = json.loads((folder / CONTRACT).read_text())["observations"]
    found, taken = flat_observations(described, recorded.measured, recorded.seen)
    if wrong := misplaced_terms(described, found, torch.cat(recorded.seen), tolerance):
        raise UserError(
            f"the contract does not give the observations of the policy for {', '.join(wrong)}: nothing is written. "
            "Report this, and name the task"
        )
    errors = {}
    for name in names:
        file = load_policy_file(name, (folder / name).read_bytes())
        errors[name] = largest_error(file, found, recorded.actions)
        if not errors[name] <= tolerance:  # NaN, too
            raise UserError(
                f"{name}, run as the contract says, differs from the policy by {errors[name]:.1e}, more than the "
                f"tolerance of {tolerance:.0e}: nothing is written. Report this, and name the task"
            )
    return {"largest_error": errors, "terms_taken_from_simulation": taken}


def _record(
    env: ManagerBasedRLEnv, candidate: Candidate, console: Console
) -> tuple[ActingModule, list[dict[str, torch.Tensor]], list[Measured]]:
    """Run the policy, and record its observations.

    Returns:
        The policy; observations of each step, shape (environments, ...) per group; values of the terms at each step.
    """
    measurements = Measurements(env)
    observations, _ = env.reset()
    policy = candidate.adapter.load_policy(candidate.path, env, candidate.agent_cfg)
    recorded, measured = [], []
    with Progress(console, "recording observations", STEPS) as progress:
        for step in range(STEPS):
            recorded.append({name: copy.deepcopy(seen) for name, seen in observations.items()})
            measured.append(measurements.take())
            observations, *_ = env.step(policy(observations))
            progress.advance(step + 1)
    return policy, recorded, measured


def _about(found: FoundCheckpoint, changed_code: dict[str, str]) -> dict[str, Any]:
    """Return the contract's fields from the ledger. Scores are left out if the code has changed since."""
    declared, saved = found.run.declared, found.saved
    return {
        "contract_version": CONTRACT_VERSION,
        "policy": {
            "task": declared.task,
            "run": declared.run_id,
            "rl_library": declared.rl_library,
            "seed": declared.seed,
            "checkpoint": saved.path,
            "checkpoint_sha256": saved.sha256,
            "iterations": saved.iteration,
            "env_steps": saved.env_steps,
            **({"began_from": declared.began_from} if declared.began_from else {}),
            **({"changed_code": changed_code} if changed_code else {}),
        },
        "scores": [
            {
                "panel": result.panel,
                "panel_id": result.panel_id,
                "purpose": result.purpose,
                "successes": result.outcomes.successes,
                "episodes": result.outcomes.episodes,
                "proves_target": declared.target_success if result.confirms else None,
            }
            for result in found.run.results
            if result.checkpoint_sha256 == saved.sha256 and result.invalid is None and not changed_code
        ],
        "versions": {"trained": declared.versions, "exported": package_versions((*recorded_packages(), "onnx"))},
        "git": declared.git,
    }


def tell_parity(errors: Mapping[str, float], tolerance: float, console: Console) -> bool:
    """Print how well files reproduce the live policy.

    Args:
        errors: Largest error of each file.
        tolerance: Largest allowed error.
        console: Where to print.

    Returns:
        Whether all errors are within the tolerance.
    """
    fine = True
    for name, error in errors.items():
        near = error <= tolerance  # False for NaN
        fine = fine and near
        limit = "within" if near else "above, so nothing is written:"
        console.print(
            f"{name}: largest error {error:.1e} on {NUM_ENVS * STEPS} recorded observations, {limit} the tolerance of "
            f"{tolerance:.0e}",
            style=None if near else "red",
            markup=False,
            soft_wrap=True,
        )
    return fine


def _text(contract: dict[str, Any]) -> str:
    """Return the text of a contract file."""
    return json.dumps(contract, indent=2, allow_nan=False) + "\n"
