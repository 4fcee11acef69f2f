"""Resolves and checks a request to ``scripts/evaluate.py`` before a simulation starts."""

from __future__ import annotations

import copy
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ledger_lab.errors import UserError
from ledger_lab.ledger import RunDeclared
from ledger_lab.panels import Panel, PanelIdentity, few_differences, is_panel_file
from ledger_lab.panels.checks import require_takeable, task_panel
from ledger_lab.panels.ground import Ground, declared_ground
from ledger_lab.panels.physics import NATIVE, physics_name
from ledger_lab.panels.predicate import resolve_success
from ledger_lab.tasks.registry import default_panel, require_task
from ledger_lab.training.checkpoints.candidate import Candidate, declared_configs, resolve_candidate
from ledger_lab.training.checkpoints.film import recording_args
from ledger_lab.training.checkpoints.find import FoundCheckpoint, best_checkpoint, find_checkpoints
from ledger_lab.training.evaluation.request import EvaluateRequest
from ledger_lab.training.evaluation.score import Simulation
from ledger_lab.training.runners.configs import resolve_configs
from ledger_lab.training.runners.description import describe_simulation, scoring_code
from ledger_lab.training.runners.physics_engine import changed_overrides, require_memory
from ledger_lab.training.runners.session import held_out_config, require_runtime, resolve_device

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnvCfg

_GROUNDS: dict[str, Ground] = {"ground=held_out": "held_out", "ground=trained": "trained"}
"""Words of ``--sim`` that choose the ground of the episodes."""
_SIMULATED = ("physics", "time_step", "environment_sha256", "order", "env_spacing_m", "ground")
"""Fields of a panel's identity that describe the simulation of a run."""


@dataclass(frozen=True, kw_only=True)
class EvaluationPlan:
    """A checked evaluation."""

    panel: Panel
    """The panel with its own seeds; to compare two candidates, with fresh seeds."""
    candidates: list[Candidate]
    versus: bool
    """Whether the first of two candidates is compared with the second."""
    simulations: list[Simulation]
    """The simulation that the runs declared, then those of ``--sim``."""
    videos: int
    """Number of worst episodes to record."""
    device: str
    launcher_args: dict[str, Any]
    """Isaac Lab's launcher flags, for scoring."""
    recording_args: dict[str, Any]
    """Isaac Lab's launcher flags, for recording."""

    @property
    def recorded(self) -> int:
        """Index of the recorded candidate: the last checkpoint in RUN_OR_CHECKPOINT."""
        return 0 if self.versus else len(self.candidates) - 1


def plan_evaluation(request: EvaluateRequest) -> EvaluationPlan:
    """Resolve and check a request. Nothing is written.

    Args:
        request: What is asked for.

    Returns:
        The plan.

    Raises:
        UserError: If the request can't be carried out.
    """
    device = resolve_device(request.device)
    found = _named(request)
    runs = {checkpoint.run_id: checkpoint.run for checkpoint in found}
    declared = [run.declared for run in runs.values()]
    first = declared[0]
    for run in declared:
        require_task(run.task, run.rl_library, run.agent)
        _require_same_episodes(first, run)
    panel = _panel(request, declared)
    flags = request.launcher_args(device)

    configs = {run_id: declared_configs(run, trust_run=request.trust_run) for run_id, run in runs.items()}
    # A copy, because candidates are compared with the configuration as declared.
    env_cfg, ground = copy.deepcopy(configs[first.run_id][0]), declared_ground(first.panel_fields)
    simulations = [_simulation(first, "", env_cfg, ground, panel, flags, request)]
    for run in declared:
        _require_declared_panel(run, panel, simulations[0].identity)
    for name in request.sim:
        ground, asked = _simulation_overrides(name, simulations[0].ground)
        overrides = changed_overrides(first.overrides, asked)
        env_cfg, _ = resolve_configs(first.task, first.rl_library, overrides, first.agent)
        other = _simulation(first, name, env_cfg, ground, panel, flags, request)
        same = next((each for each in simulations if each.identity.id == other.identity.id), None)
        if same is not None:
            known = f"--sim {same.name!r}" if same.name else f"the one that run {first.run_id} declared"
            raise UserError(
                f"--sim {name!r} changes nothing about an episode: leave it out, because it is the same simulation as "
                f"{known}"
            )
        simulations.append(other)

    candidates = _candidates(found, configs, device, panel, simulations[0].code, request)
    if request.versus is not None:
        panel = panel.comparison(*(checkpoint.saved.sha256 for checkpoint in found))
        simulations = [replace(each, identity=each.identity.with_fresh_seeds(panel.seeds)) for each in simulations]
    return EvaluationPlan(
        panel=panel,
        candidates=candidates,
        versus=request.versus is not None,
        simulations=simulations,
        videos=request.video or 0,
        device=device,
        launcher_args={**flags, "visualizer": None} if request.video else flags,
        recording_args=recording_args(flags) if request.video else flags,
    )


def _named(request: EvaluateRequest) -> list[FoundCheckpoint]:
    """Find the named checkpoints; with ``--versus``, the two to compare."""
    names = request.sources()
    if request.versus is None:
        return find_checkpoints(names, request.log_root)
    if len(names) != 1:
        raise UserError(f"--versus compares two checkpoints, but {len(names)} are named before it: name one")
    one, other = (best_checkpoint(name, request.log_root) for name in (names[0], request.versus))
    if one.saved.sha256 == other.saved.sha256:
        raise UserError(
            f"--versus {request.versus}: {other.saved.path} is the same checkpoint: name another checkpoint"
        )
    return [one, other]


def _panel(request: EvaluateRequest, runs: Sequence[RunDeclared]) -> Panel:
    """Load the panel, with the target of the command line, else of the runs, else of the panel."""
    name = request.panel
    if name is None:
        names = sorted({run.panel for run in runs})
        if len(names) > 1:
            raise UserError(f"the runs declared different panels ({', '.join(names)}): choose one with --panel")
        name = names[0]
        if is_panel_file(name) and name != default_panel(runs[0].task) and not request.trust_run:
            raise UserError(
                f"run {runs[0].run_id} declared the panel file {name}, whose success function is Python code: if you "
                f"trust the file, use --panel {shlex.quote(name)} or --trust_run"
            )
    panel = task_panel(runs[0].task, name, request.target)
    resolve_success(panel)
    targets = sorted({run.target_success for run in runs if run.panel == panel.source})
    if request.target is not None or not targets:
        return panel
    if len(targets) > 1:
        asked = ", ".join(f"{target:g}" for target in targets)
        raise UserError(f"the runs declared different targets ({asked}): choose one with --target")
    return replace(panel, target_success=targets[0])


def _candidates(
    found: Sequence[FoundCheckpoint],
    configs: Mapping[str, tuple[ManagerBasedRLEnvCfg, Any]],
    device: str,
    panel: Panel,
    code: Mapping[str, str],
    request: EvaluateRequest,
) -> list[Candidate]:
    """Return the candidates. Configurations and code of a run are checked once for all its checkpoints."""
    checked: dict[str, Candidate] = {}
    candidates = []
    for checkpoint in found:
        run, run_id = checkpoint.run, checkpoint.run_id
        if run_id not in checked:
            checked[run_id] = resolve_candidate(
                checkpoint,
                configs[run_id],
                device,
                request.log_root,
                # A panel of one's own may need code that the run did not declare.
                scored=code if panel.source == run.declared.panel else None,
                allow_changed_code=request.allow_changed_code,
            )
        checkpoint.require_unchanged()
        agent_cfg = copy.deepcopy(checked[run_id].agent_cfg)  # a library may write into it
        # A pretrained policy's run may also be outside of the package.
        candidates.append(replace(checked[run_id], run=run, saved=checkpoint.saved, agent_cfg=agent_cfg))
    return candidates


def _simulation(
    run: RunDeclared,
    name: str,
    env_cfg: ManagerBasedRLEnvCfg,
    ground: Ground,
    panel: Panel,
    flags: dict[str, Any],
    request: EvaluateRequest,
) -> Simulation:
    """Return a simulation of a run: as declared, or as a ``--sim`` changes it."""
    env_cfg.sim.device, env_cfg.seed = flags["device"], run.seed
    native = physics_name(env_cfg) == NATIVE
    require_runtime(env_cfg, flags, request.cpu_threads if native or not request.sim else None)
    require_takeable(panel, env_cfg)
    require_memory(run.task, held_out_config(env_cfg, len(panel.episodes), ground=ground))
    described = describe_simulation(held_out_config(env_cfg, 1, ground=ground))
    code = scoring_code(panel, env_cfg)
    identity = PanelIdentity.of(panel, {**described, "code": code})
    return Simulation(name=name, task=run.task, env_cfg=env_cfg, ground=ground, identity=identity, code=code)


def _simulation_overrides(name: str, ground: Ground) -> tuple[Ground, list[str]]:
    """Return the ground and the overrides of one ``--sim``.

    Args:
        name: The value of the flag.
        ground: The ground, unless the flag chooses one.
    """
    try:
        overrides = shlex.split(name)
    except ValueError as error:
        raise UserError(f"--sim {name!r}: {error}") from error
    others = []
    for override in overrides:
        if override in _GROUNDS:
            ground = _GROUNDS[override]
        elif override.startswith(("physics=", "env.")):
            others.append(override)
        else:
            raise UserError(
                f"--sim {override!r}: only physics=NAME, env.PATH=VALUE, {' and '.join(_GROUNDS)} are allowed, because "
                "the policy stays as it was trained"
            )
    return ground, others


def _require_declared_panel(run: RunDeclared, panel: Panel, identity: PanelIdentity) -> None:
    """Refuse a panel that has changed since the run declared it. Its code is checked with that of the policies."""
    differences = few_differences({**identity.fields, "code": None}, {**run.panel_fields, "code": None})
    if differences and panel.source == run.panel:
        raise UserError(
            f"panel {panel.name} has changed since run {run.run_id} declared it, so scores could not be compared: "
            f"{differences} (now != then). Restore the panel, train a new run, or score on a copy of the panel: "
            "--panel FILE.toml"
        )


def _require_same_episodes(first: RunDeclared, other: RunDeclared) -> None:
    """Refuse runs of different tasks or simulations, because their held-out episodes differ."""
    ours, theirs = (
        {"task": run.task} | {name: run.panel_fields.get(name) for name in _SIMULATED} for run in (first, other)
    )
    if differences := few_differences(ours, theirs):
        raise UserError(
            f"runs {first.run_id} and {other.run_id} were trained on different tasks or in different simulations, so "
            f"the panel is not the same for both: {differences}. Score the runs one by one"
        )
