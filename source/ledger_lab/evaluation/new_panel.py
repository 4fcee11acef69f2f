"""``scripts/new_panel.py``: writes a panel file for a registered task, filled from its configuration."""

from __future__ import annotations

import json
import re
import shlex
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isaaclab.assets import ArticulationCfg, RigidObjectCfg
from isaaclab.managers import (
    CommandTermCfg,
    EventTermCfg,
    ObservationGroupCfg,
    ObservationTermCfg,
    TerminationTermCfg,
)
from isaaclab.sensors import SensorBaseCfg
from pxr import Usd, UsdPhysics

from ledger_lab.errors import UserError
from ledger_lab.evaluation.request import NewPanelRequest
from ledger_lab.panels import Panel
from ledger_lab.panels.checks import Prospects, require_judgeable
from ledger_lab.panels.predicate import resolve_success
from ledger_lab.runners.configs import resolve_configs
from ledger_lab.tasks.registry import require_task, require_task_default
from ledger_lab.terminal.console import Terminal

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnvCfg


def new_panel(argv: Sequence[str]) -> int:
    """Write a panel file, and print what is left to do.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If the task can't have a panel, the episodes are too few to prove the target, or the file exists.
    """
    request = NewPanelRequest.parse(argv)
    terminal = Terminal()
    try:
        file = request.output or Path(re.sub(r"\W+", "_", request.task).lower() + ".toml")
        panel, env_cfg = _propose(file, request)
        _write(file, render_panel(panel, env_cfg))
        terminal.console.print(*_next_steps(panel, file), sep="\n", soft_wrap=True)
    finally:
        terminal.restore()
    return 0


def _propose(file: Path, request: NewPanelRequest) -> tuple[Panel, ManagerBasedRLEnvCfg]:
    """Return a valid panel for the task, and the configuration of the task."""
    task = request.task
    library = require_task_default(task)
    require_task(task, library)
    env_cfg, _ = resolve_configs(task, library, [])
    panel = Panel(
        name=file.stem,
        source=str(file.resolve()),
        task=task,
        description="Say in one sentence what a policy must do.",
        seeds=tuple(range(request.seeds)),
        episode_length_s=float(env_cfg.episode_length_s),
        target_success=request.target,
        success_function=request.success or _success_to_write(env_cfg),
        success_version=1,
    )
    require_judgeable(panel, env_cfg)
    return panel, env_cfg


def _success_to_write(env_cfg: ManagerBasedRLEnvCfg) -> str:
    """Return a name for a success function in the task's own package, or in one of the user's."""
    package, _, _ = type(env_cfg).__module__.rpartition(".")
    return f"{'my_package' if package.partition('.')[0] in ('', 'isaaclab_tasks') else package}.success:succeeded"


def _write(file: Path, text: str) -> None:
    """Write a new file; refuse to replace an old one."""
    try:
        with file.open("x", encoding="utf-8") as output:
            output.write(text)
    except FileExistsError as error:
        raise UserError(f"{file} exists already: name another file with --output") from error
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror}") from error


def _next_steps(panel: Panel, file: Path) -> list[str]:
    """Return lines that say what was written, and what is left to do."""
    prospects = Prospects.of(panel.target_success, len(panel.episodes))
    lines = [
        f"wrote {file}: {len(panel.seeds)} episodes of {panel.episode_length_s:g} s of {panel.task}",
        str(prospects),
        *([] if prospects.warning is None else [prospects.warning]),
    ]
    try:
        resolve_success(panel)
    except UserError as error:
        lines.append(f"left to do: {error}")
    lines.append(f"then: ./isaaclab.sh -p scripts/train.py --task {panel.task} --panel {shlex.quote(str(file))}")
    return lines


def render_panel(panel: Panel, env_cfg: ManagerBasedRLEnvCfg) -> str:
    """Return the text of a panel file, with the task's terms, joints and bodies in comments.

    Args:
        panel: The panel, with seeds that start at 0 and without perturbations.
        env_cfg: Resolved configuration of the task.
    """
    assets = list(_assets(env_cfg))
    lines = [
        *_comment(
            "A panel: the held-out episodes that a policy is scored on, and the success function. Comments name what "
            "the task's configuration offers. Scores are comparable only if this file, the task and the physics are "
            "the same."
        ),
        f"task = {_toml(panel.task)}",
        f"description = {_toml(panel.description)}",
        f"episode_length_s = {panel.episode_length_s}  # the task's own; the panel's may be shorter",
        f"target_success = {panel.target_success}",
        "",
        "[seeds]",
        "first = 0",
        f"count = {len(panel.seeds)}",
        "",
        *_comment(*_success_notes(env_cfg, assets)),
        "[success]",
        f"function = {_toml(panel.success_function)}",
        f"version = {panel.success_version}  # raise it whenever the meaning of the function changes",
        f"hold_s = {panel.hold_s}",
        "",
        "[success.params]",
        "# limit = 0.1",
        "",
        *_comment(
            "Cells are conditions. Every seed runs once in each cell, and the target holds for all episodes together. "
            "Amounts are drawn per seed from [low, high], or are a single number; bodies and joints are regular "
            "expressions."
        ),
        "[[cells]]",
        'name = "nominal"',
    ]
    for kind, params in _example_cells(env_cfg, assets).items():
        lines += ["", "# [[cells]]", f"# name = {_toml(kind)}", f"# {kind} = {_toml(params)}"]
    return "\n".join(lines) + "\n"


def _success_notes(env_cfg: ManagerBasedRLEnvCfg, assets: Sequence[_Asset]) -> Iterator[str]:
    """Explain what a success is, and list the data that the function can read."""
    yield (
        "An episode succeeds if it lasts to its horizon and the function is true at every step of its last hold_s "
        "seconds; with 0, only the last step counts."
    )
    ends = _terms(env_cfg.terminations, TerminationTermCfg)
    failing = ", ".join(name for name, term in ends.items() if not term.time_out)
    if failing:
        yield (
            f"An episode fails if one of these terminations ends it: {failing}. If a termination means success, switch "
            "it off: env.terminations.NAME=null."
        )
    yield "The function is called like a termination term, must treat each environment by itself, and can read:"
    for asset in assets:
        parts = {"joints": asset.joints, "bodies": asset.bodies}
        known = "; ".join(f"{part} {', '.join(names)}" for part, names in parts.items() if names)
        yield f'  env.scene["{asset.name}"].data  {known}'.rstrip()
    for name in _terms(env_cfg.scene, SensorBaseCfg):
        yield f'  env.scene["{name}"].data'
    for name in _terms(env_cfg.commands, CommandTermCfg):
        yield f'  env.command_manager.get_command("{name}")'
    yield "  env.action_manager.action"
    if assets:
        asset = assets[0]
        state = "joint_vel" if asset.joints else "root_lin_vel_w"
        yield "For example:"
        yield "  def succeeded(env: ManagerBasedRLEnv, limit: float) -> torch.Tensor:"
        yield '      """Return which environments are at rest; boolean tensor of shape (num_envs,)."""'
        yield f'      return env.scene["{asset.name}"].data.{state}.torch.abs().amax(dim=1) <= limit'


def _example_cells(env_cfg: ManagerBasedRLEnvCfg, assets: Sequence[_Asset]) -> dict[str, dict[str, Any]]:
    """Return example perturbations that fit the task, by kind."""
    cells: dict[str, dict[str, Any]] = {}
    if any(event.mode == "reset" for event in _terms(env_cfg.events, EventTermCfg).values()):
        cells["initial_state"] = {"scale": [1.0, 1.5]}
    for asset in assets[:1]:
        bodies = {"asset": asset.name, "bodies": ".*"}
        joints = {"asset": asset.name, "joints": ".*"}
        cells["mass"] = {**bodies, "scale": [0.8, 1.2]}
        cells["center_of_mass"] = {**bodies, "offset_m": [-0.02, 0.02]}
        if asset.touches:
            cells["friction"] = {**bodies, "scale": [0.5, 1.0]}
        if asset.joints:
            cells["joint_friction"] = {**joints, "add": [0.0, 0.1]}
            cells["actuator_strength"] = {**joints, "scale": [0.7, 1.0]}
            cells["actuator_damping"] = {**joints, "scale": [0.5, 1.5]}
        pushed = {"asset": asset.name} if asset.floats else joints
        cells["push"] = {**pushed, "velocity": [-0.5, 0.5], "interval_s": [1.0, 2.0]}
    cells["action_delay"] = {"steps": [0, 2]}
    if env_cfg.decimation > 1:
        cells["control_latency"] = {"physics_steps": [0, env_cfg.decimation - 1]}
    sensed = _sensed(env_cfg)
    if sensed:
        cells["observation_noise"] = {"std": dict.fromkeys(sensed, 0.01)}
        cells["observation_bias"] = {"range": dict.fromkeys(sensed, 0.01)}
    cells["gravity_tilt"] = {"angle_rad": [0.0, 0.05]}
    return cells


def _sensed(env_cfg: ManagerBasedRLEnvCfg) -> list[str]:
    """Return the observation terms that the task trains with noise; if there are none, all terms."""
    groups = _terms(env_cfg.observations, ObservationGroupCfg).values()
    terms = {name: term for group in groups for name, term in _terms(group, ObservationTermCfg).items()}
    return [name for name, term in terms.items() if term.noise is not None] or list(terms)


@dataclass(frozen=True)
class _Asset:
    """An articulation or a rigid object, as far as it is known without a simulation."""

    name: str
    joints: tuple[str, ...]
    """Names of joints, or regular expressions for them."""
    bodies: tuple[str, ...] = ()
    """Names of bodies; empty if unknown."""
    touches: bool = True
    """Whether it has collision shapes."""
    floats: bool = False
    """Whether it can move freely, as nothing fixes it to the world."""


def _assets(env_cfg: ManagerBasedRLEnvCfg) -> Iterator[_Asset]:
    """Yield the assets of the scene: first articulations, from their USD files if possible, then rigid objects."""
    for name, robot in _terms(env_cfg.scene, ArticulationCfg).items():
        path = getattr(robot.spawn, "usd_path", None)
        if isinstance(path, str) and Path(path).is_file():
            yield _look_into(name, path)
        else:
            patterns = (pattern for group in robot.actuators.values() for pattern in group.joint_names_expr)
            yield _Asset(name, joints=tuple(patterns))
    for name in _terms(env_cfg.scene, RigidObjectCfg):
        yield _Asset(name, joints=(), floats=True)


def _look_into(name: str, usd_path: str) -> _Asset:
    """Read the joints and bodies of an articulation from its USD file."""
    stage = Usd.Stage.Open(usd_path)  # must be kept: its prims live only as long as the stage
    prims = list(stage.Traverse(Usd.TraverseInstanceProxies()))
    joints = [UsdPhysics.Joint(prim) for prim in prims if prim.IsA(UsdPhysics.Joint)]
    return _Asset(
        name,
        joints=tuple(joint.GetPrim().GetName() for joint in joints if not joint.GetPrim().IsA(UsdPhysics.FixedJoint)),
        bodies=tuple(prim.GetName() for prim in prims if prim.HasAPI(UsdPhysics.RigidBodyAPI)),
        touches=any(prim.HasAPI(UsdPhysics.CollisionAPI) for prim in prims),
        floats=all(end.GetTargets() for joint in joints for end in (joint.GetBody0Rel(), joint.GetBody1Rel())),
    )


def _terms(group: Any, kind: type) -> dict[str, Any]:
    """Return the settings of a group that are instances of a class."""
    if group is None:
        return {}
    settings = group if isinstance(group, dict) else vars(group)
    return {name: value for name, value in settings.items() if isinstance(value, kind)}


def _comment(*paragraphs: str) -> Iterator[str]:
    """Yield paragraphs as comment lines; all lines of a paragraph have the same indent."""
    for paragraph in paragraphs:
        indent = " " * (len(paragraph) - len(paragraph.lstrip()))
        for line in textwrap.wrap(paragraph, 118, subsequent_indent=indent, break_on_hyphens=False):
            yield f"# {line}"


def _toml(value: Any) -> str:
    """Return a value in TOML."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(key)} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    # JSON and TOML have the same escapes, but only TOML requires one for the delete character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(key: str) -> str:
    """Return a TOML key, quoted if necessary."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml(key)
