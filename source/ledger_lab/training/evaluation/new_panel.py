"""``scripts/new_panel.py``: writes a panel file for a registered task, filled from its configuration."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Sequence
from importlib.resources import files
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

from ledger_lab.documents import toml_value
from ledger_lab.errors import UserError
from ledger_lab.names import as_started
from ledger_lab.panels import Panel
from ledger_lab.panels.checks import Prospects, require_judgeable
from ledger_lab.panels.direct import TERMINATED, WHOLE, is_direct
from ledger_lab.panels.predicate import resolve_success
from ledger_lab.reports.terminal.console import Terminal, write_output
from ledger_lab.tasks.registry import require_task, require_task_default
from ledger_lab.training.evaluation.request import NewPanelRequest
from ledger_lab.training.runners.configs import resolve_configs

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
        if file.exists():
            raise UserError(f"{file} exists already: name another file with --output")
        write_output(str(file), render_panel(panel, env_cfg))
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
    )
    require_judgeable(panel, env_cfg)
    return panel, env_cfg


def _success_to_write(env_cfg: ManagerBasedRLEnvCfg) -> str:
    """Return a name for a success function in the task's own package, or in one of the user's."""
    package, _, _ = type(env_cfg).__module__.rpartition(".")
    return f"{'my_package' if package.partition('.')[0] in ('', 'isaaclab_tasks') else package}.success:succeeded"


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
    command = f"./isaaclab.sh -p scripts/train.py --task {shlex.quote(panel.task)} --panel {shlex.quote(str(file))}"
    lines.append(as_started(f"then: {command}"))
    return lines


def render_panel(panel: Panel, env_cfg: ManagerBasedRLEnvCfg) -> str:
    """Return the text of a panel file, with the task's terms and joints in comments.

    Args:
        panel: The panel, with seeds that start at 0 and without perturbations.
        env_cfg: Resolved configuration of the task.
    """
    from jinja2 import Environment, StrictUndefined

    direct = is_direct(env_cfg)
    ends = _terms(getattr(env_cfg, "terminations", None), TerminationTermCfg)
    joints = {
        name: [pattern for group in robot.actuators.values() for pattern in group.joint_names_expr]
        for name, robot in _terms(env_cfg.scene, ArticulationCfg).items()
    }
    assets: dict[str, list[str]] = joints | {name: [] for name in _terms(env_cfg.scene, RigidObjectCfg)}
    templates = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    templates.filters |= {"comment": _comment, "toml": toml_value}
    template = (
        files("ledger_lab.training.evaluation").joinpath("template", "panel.toml.jinja").read_text(encoding="utf-8")
    )
    return templates.from_string(template).render(
        panel=panel,
        assets=assets,
        direct=direct,
        failing=[TERMINATED] if direct else [name for name, term in ends.items() if not term.time_out],
        sensors=_terms(env_cfg.scene, SensorBaseCfg),
        commands=_terms(getattr(env_cfg, "commands", None), CommandTermCfg),
        resets=direct or any(event.mode == "reset" for event in _terms(env_cfg.events, EventTermCfg).values()),
        decimation=env_cfg.decimation,
        sensed=dict.fromkeys(_sensed(env_cfg), 0.01),
    )


def _sensed(env_cfg: ManagerBasedRLEnvCfg) -> list[str]:
    """Return the observation terms that the task trains with noise; if there are none, all terms."""
    if is_direct(env_cfg):
        return [WHOLE]
    groups = _terms(getattr(env_cfg, "observations", None), ObservationGroupCfg).values()
    terms = {name: term for group in groups for name, term in _terms(group, ObservationTermCfg).items()}
    return [name for name, term in terms.items() if term.noise is not None] or list(terms)


def _terms(group: Any, kind: type) -> dict[str, Any]:
    """Return the settings of a group that are instances of a class."""
    if group is None:
        return {}
    settings = group if isinstance(group, dict) else getattr(group, "__dict__", {})
    return {name: value for name, value in settings.items() if isinstance(value, kind)}


def _comment(text: str) -> str:
    """Return paragraphs as comment lines; all lines of a paragraph have the same indent."""
    lines: list[str] = []
    for paragraph in filter(None, text.split("\n")):
        indent = " " * (len(paragraph) - len(paragraph.lstrip()))
        lines += textwrap.wrap(paragraph, 118, subsequent_indent=indent, break_on_hyphens=False)
    return "".join(f"# {line}\n" for line in lines)
