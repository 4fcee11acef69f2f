"""``scripts/list_envs.py``: lists the tasks with their physics, their panels, and the record on each panel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium as gym
from rich.console import Group
from rich.table import Table

from ledger_lab.cli.request import ListRequest
from ledger_lab.errors import UserError
from ledger_lab.ledger.find import find_run
from ledger_lab.mujoco_cpu.choose import physics_choices
from ledger_lab.panels import Panel, PanelIdentity, find_panels, load_panel
from ledger_lab.panels.ground import Ground
from ledger_lab.panels.physics import physics_name
from ledger_lab.reports import RunSummary, summarize_run
from ledger_lab.reports.terminal.console import Terminal
from ledger_lab.tasks.pretrained import ROOT, shipped_contract, shipped_tasks
from ledger_lab.tasks.recipes.libraries import LIBRARIES
from ledger_lab.tasks.registry import STOCK_TASKS, registered_tasks, task_package
from ledger_lab.training.runners.code import scoring_code
from ledger_lab.training.runners.configs import resolve_configs
from ledger_lab.training.runners.description import describe_simulation
from ledger_lab.training.runners.physics_engine import with_default_physics
from ledger_lab.training.runners.session import held_out_config, resolve_device
from ledger_lab.units import MISSING, duration, target_share

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnvCfg

_COLUMNS = ("task", "libraries", "physics", "obs", "actions", "envs", "panel", "id", "episodes", "target", "record")


def list_tasks(argv: Sequence[str]) -> int:
    """Print one row per task, with a line per panel.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If there is no such task.
    """
    request = ListRequest.parse(argv)
    device = resolve_device(None)
    tasks = registered_tasks()  # before output is redirected, because it prints warnings about packages
    terminal = Terminal()
    try:
        known, broken = find_panels(), []
        panels = [load_panel(name) for name in known]
        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in _COLUMNS:
            table.add_column(name, no_wrap=name not in ("physics", "libraries"))
        for task in tasks:
            kwargs = gym.spec(task).kwargs
            if request.keyword.lower() not in task.lower() or (task_package(task) == STOCK_TASKS and not request.all):
                continue
            libraries = [name for name in LIBRARIES if f"{name}_cfg_entry_point" in kwargs]
            presets = physics_choices(task)
            shown = [task, ", ".join(libraries) or MISSING, ", ".join(presets) or MISSING]
            own = [panel for panel in panels if panel.task == task]
            default = kwargs.get("default_panel")
            simulations: list[_Simulation] = []
            if default is not None and default not in known and libraries:
                try:
                    own.append(load_panel(default))
                except UserError as error:
                    broken.append(str(error))
            if own:
                try:
                    simulations = _simulations(task, libraries[0], device)
                except UserError as error:
                    broken.append(str(error))
            own.sort(key=lambda panel: default not in (panel.name, panel.source))
            if not simulations:
                table.add_row(*shown, *[MISSING] * (len(_COLUMNS) - len(shown)))
                continue
            sizes, records = _shipped(task)
            shown += [*sizes, str(simulations[0].env_cfg.scene.num_envs)]
            judged = []
            for panel in own:
                try:
                    identity, record = simulations[0].identity(panel), _found(records, panel, simulations)
                except UserError as error:
                    broken.append(str(error))
                    continue
                target = target_share(panel.target_success)
                judged.append((panel.name, f"{identity.id[:11]}…", str(len(panel.episodes)), target, record))
            table.add_row(*shown, *(Group(*lines) for lines in zip(*judged, strict=True)))
        if not table.row_count:
            raise UserError(
                f"no task's id contains {request.keyword!r}" + ("" if request.all else " (--all lists more)")
            )
        terminal.console.print(table)
        for sentence in broken:
            terminal.console.print(f"warning: {sentence}", markup=False, soft_wrap=True)
    finally:
        terminal.restore()
    return 0


@dataclass(frozen=True)
class _Simulation:
    """A simulation that a panel of a task can run in."""

    difference: str
    """How it differs from the simulation of a new run, for the table; empty for that simulation."""
    env_cfg: ManagerBasedRLEnvCfg
    """Configuration of the environment, as a training has it."""
    description: dict[str, Any]
    """What enters the identity of a panel, except the code."""

    def identity(self, panel: Panel) -> PanelIdentity:
        """Return the identity of a panel in this simulation.

        Raises:
            UserError: If the panel's success function can't be imported.
        """
        return PanelIdentity.of(panel, {**self.description, "code": scoring_code(panel, self.env_cfg)})


def _simulations(task: str, library: str, device: str) -> list[_Simulation]:
    """Return the simulation of a new run, then those of older runs: other physics engine, or other ground.

    Args:
        task: Gymnasium id.
        library: A library that the task has a configuration for.
        device: Device of the new run.
    """
    choices = dict.fromkeys((with_default_physics(task, (), device), ()))
    found: list[_Simulation] = []
    for overrides in choices:
        env_cfg, _ = resolve_configs(task, library, overrides)
        engine = "" if not found else f" with {physics_name(env_cfg)}"
        grounds: tuple[tuple[Ground, str], ...] = (("held_out", ""), ("trained", " on trained ground"))
        for ground, name in grounds:
            description = describe_simulation(held_out_config(env_cfg, 1, ground=ground))
            found.append(_Simulation(engine + name, env_cfg, description))
    return found


def _found(records: Mapping[tuple[str, float], str], panel: Panel, simulations: Sequence[_Simulation]) -> str:
    """Return the record of a panel, from the first simulation that has one."""
    for each in simulations if records else ():
        if (record := records.get((each.identity(panel).id, panel.target_success))) is not None:
            return f"{record}{each.difference}"
    return MISSING


def _shipped(task: str) -> tuple[list[str], dict[tuple[str, float], str]]:
    """Return facts about a task from its pretrained policy.

    Args:
        task: Gymnasium id of the task.

    Returns:
        Sizes of observations and actions; and the record by panel id and target.
    """
    if task not in shipped_tasks():
        return [MISSING, MISSING], {}
    files = shipped_contract(task)["files"]
    summary = summarize_run(find_run(str(ROOT / task), ROOT))
    sizes = [str(files[end]["shape"][1]) for end in ("input", "output")]
    return sizes, {(summary.panel_id, summary.target_success): _record(summary)}


def _record(summary: RunSummary) -> str:
    """Return the score of a run's best checkpoint; if it proved its target, also the time, with earlier trainings."""
    if (best := summary.best) is None:
        return MISSING
    if best.confirmed:
        took = duration(summary.wall_to_target_s)
        before = f" + {duration(summary.began_from['wall_s'])}" if summary.began_from else ""
        return f"{best.confirmation_successes}/{best.confirmation_episodes} in {took}{before}"
    return f"{best.heldout_successes}/{best.heldout_episodes}, short of it"
