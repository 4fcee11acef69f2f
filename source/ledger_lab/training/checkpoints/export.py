"""``scripts/export_policy.py``: exports a policy for a robot, with the contract needed to run it."""

from __future__ import annotations

import copy
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from rich.console import Console

from ledger_lab.errors import UserError
from ledger_lab.files import make_folder, whole_file
from ledger_lab.ledger.meters.host import package_versions, recorded_packages
from ledger_lab.panels.policy import Acting
from ledger_lab.reports.terminal.console import Terminal
from ledger_lab.reports.terminal.progress import Progress
from ledger_lab.tasks.exported import CONTRACT
from ledger_lab.training.checkpoints.candidate import Candidate, open_candidate, require_same_task
from ledger_lab.training.checkpoints.contract import (
    describe_articulations,
    describe_interface,
    without_startup_events,
)
from ledger_lab.training.checkpoints.deployed import Measured, Measurements, flat_observations, misplaced_terms
from ledger_lab.training.checkpoints.files import (
    INPUT,
    MEMORY,
    NEXT_MEMORY,
    OPSET,
    OUTPUT,
    FlatPolicy,
    PolicyFile,
    largest_error,
    live_actions,
    policy_files,
)
from ledger_lab.training.checkpoints.request import ExportRequest
from ledger_lab.training.runners.checkpoint_file import ActingModule
from ledger_lab.training.runners.session import environment, require_runtime, resolve_device, simulation_app

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

CONTRACT_VERSION = 1
"""Raised whenever a field of the contract changes its meaning."""
NUM_ENVS, STEPS = 32, 32
"""Environments and steps whose observations are used to test parity."""
EXAMPLE_EVERY = 256
"""One in this many observations goes into the contract with the policy's actions, as a test for the target machine."""
EXAMPLES = 4
"""If the policy has a memory, these are the first steps of an episode, at most so many, in order."""


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
    request = ExportRequest.parse(argv)
    terminal = Terminal(quiet_libraries=request.quiet_libraries)
    try:
        _export(request, terminal.console)
    finally:
        terminal.restore()
    return 0


def _export(request: ExportRequest, console: Console) -> None:
    """Record observations in the task's own simulation, then make, test and write the files."""
    device = resolve_device(request.device)
    flags = request.launcher_args(device)
    candidate, env_cfg = open_candidate(request, device)
    declared, saved = candidate.run.declared, candidate.saved
    env_cfg.sim.device, env_cfg.seed = device, declared.seed
    require_runtime(env_cfg, flags, request.cpu_threads)
    require_same_task(candidate.run, env_cfg, ("scene", "commands"), "the contract would be wrong")
    without_startup_events(env_cfg)
    env_cfg.scene.num_envs = NUM_ENVS
    if (folder := request.to) is None:
        folder = candidate.folder("exported")
    else:
        make_folder(folder)
    console.print(
        f"exporting {saved.path} of run {declared.run_id}, after {saved.iteration} iterations",
        markup=False,
        soft_wrap=True,
    )
    candidate.print_notes(console)
    with simulation_app(env_cfg, flags), environment(declared.task, env_cfg) as env, torch.no_grad():
        articulations = describe_articulations(env)  # before a reset randomizes them
        policy, recorded, measured = _record(env, candidate, console)
        flat = FlatPolicy(policy, recorded[0])
        seen = [flat.flatten(groups).cpu() for groups in recorded]
        begins = [step.begins for step in measured]
        observations, actions = torch.cat(seen), live_actions(policy, recorded, begins)
        memory = flat.memory(1)
        # With a memory, the steps of one episode, in order.
        shown = slice(0, len(seen) * NUM_ENVS, EXAMPLE_EVERY)
        if memory:
            again = (each for each in range(1, EXAMPLES) if bool(begins[each][0]))
            shown = slice(0, next(again, EXAMPLES) * NUM_ENVS, NUM_ENVS)
        contract = {
            **_about(candidate),
            **describe_interface(env, flat.groups),
            "articulations": articulations,
            "files": {
                "input": {"name": INPUT, "dtype": "float32", "shape": ["batch", observations.shape[1]]},
                "output": {"name": OUTPUT, "dtype": "float32", "shape": ["batch", actions.shape[2]]},
                "memory": [
                    {
                        "input": MEMORY.format(n),
                        "output": NEXT_MEMORY.format(n),
                        "dtype": "float32",
                        "shape": [part.shape[0], "batch", part.shape[2]],
                        "initial": 0.0,
                    }
                    for n, part in enumerate(memory)
                ],
                "onnx_opset": OPSET,
            },
            "examples": [
                {INPUT: seen.tolist(), OUTPUT: done.tolist()}
                for seen, done in zip(observations[shown], actions.flatten(0, 1)[shown], strict=True)
            ],
        }
        files = policy_files(flat, observations[:2].to(device), _text(contract))
        parity = check_parity(files, json.loads(_text(contract)), measured, seen, actions, request.tolerance, console)
        if parity is None:
            sys.exit(1)  # inside the context: Isaac Sim ends the process itself, with this status
        contract["files"] |= {file.name: {"sha256": hashlib.sha256(file.content).hexdigest()} for file in files}
        contract["parity"] = {**parity, "device": device}
        # The contract comes last, because it holds the hashes of the others.
        _write(folder, {**{file.name: file.content for file in files}, CONTRACT: _text(contract).encode()}, console)


def _write(folder: Path, contents: Mapping[str, bytes], console: Console) -> None:
    """Write the files."""
    try:
        for name, content in contents.items():
            with whole_file(folder / name) as unfinished:
                unfinished.write_bytes(content)
    except OSError as error:
        raise UserError(f"cannot write to {folder}: {error.strerror}") from error
    for name in contents:
        console.print(str(folder / name), style="green", markup=False, soft_wrap=True)


def check_parity(
    files: Sequence[PolicyFile],
    contract: Mapping[str, Any],
    measured: Sequence[Measured],
    seen: Sequence[torch.Tensor],
    actions: torch.Tensor,
    tolerance: float,
    console: Console,
) -> dict[str, Any] | None:
    """Run policy files as the contract says, from the values of single terms, and print how far their actions differ.

    Args:
        files: The files.
        contract: The contract, as read from its text.
        measured: Values of the observation terms at each step.
        seen: Flat observations of the live policy at each step, shape (environments, observations) each.
        actions: Its actions, shape (steps, environments, actions).
        tolerance: Largest allowed difference.
        console: Where to print.

    Returns:
        For the contract: what was tested, the largest error of each file, and the terms that could not be computed from
        the contract. ``None`` if an error is above the tolerance.

    Raises:
        UserError: If the contract does not give the observations of the policy.
    """
    described = contract["observations"]
    found, taken = flat_observations(described, measured, seen)
    if wrong := misplaced_terms(described, found, torch.cat([*seen]), tolerance):
        raise UserError(
            f"the contract does not give the observations of the policy for {', '.join(wrong)}: nothing is written. "
            "Report this, and name the task"
        )
    stepwise = found.unflatten(0, actions.shape[:2])
    begins = torch.stack([step.begins.cpu() for step in measured])
    errors = {file.name: largest_error(file, stepwise, actions, begins) for file in files}
    for name, error in errors.items():
        near = error <= tolerance  # False for NaN
        limit = "within" if near else "above, so nothing is written:"
        console.print(
            f"{name}: largest error {error:.1e} on {len(found)} recorded observations, {limit} the tolerance of "
            f"{tolerance:.0e}",
            style=None if near else "red",
            markup=False,
            soft_wrap=True,
        )
    if not all(error <= tolerance for error in errors.values()):
        return None
    return {
        "observations": len(found),
        "largest_action": float(actions.abs().max()),
        "largest_error": errors,
        "tolerance": tolerance,
        "terms_taken_from_simulation": taken,
    }


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
    act, recorded, measured = Acting(policy), [], []
    with Progress(console, "recording observations", STEPS) as progress:
        for step in range(STEPS):
            recorded.append({name: copy.deepcopy(seen) for name, seen in observations.items()})
            measured.append(measurements.take())
            act.forget(measured[-1].begins)
            observations, *_ = env.step(act(observations))
            progress.advance(step + 1)
    return policy, recorded, measured


def _about(candidate: Candidate) -> dict[str, Any]:
    """Return the contract's fields from the ledger. Scores are left out if the code has changed since."""
    declared, saved, changed_code = candidate.run.declared, candidate.saved, candidate.changed_code
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
                "proves_target": declared.target_success if result.proves else None,
            }
            for result in candidate.run.results
            if result.checkpoint_sha256 == saved.sha256 and result.invalid is None and not changed_code
        ],
        "versions": {"trained": declared.versions, "exported": package_versions((*recorded_packages(), "onnx"))},
        "git": declared.git,
    }


def _text(contract: dict[str, Any]) -> str:
    """Return the text of a contract file."""
    return json.dumps(contract, indent=2, allow_nan=False) + "\n"
