"""``scripts/list_envs.py``: lists the tasks with their physics, their panels, and the record on each panel."""

from __future__ import annotations

from collections.abc import Sequence

import gymnasium as gym
from rich.console import Group, RenderableType
from rich.table import Table

from ledger_lab.cli.request import ListRequest
from ledger_lab.errors import UserError
from ledger_lab.ledger.find import find_run
from ledger_lab.ledger.libraries import LIBRARIES
from ledger_lab.panels import Panel, PanelIdentity, find_panels, load_panel
from ledger_lab.panels.physics import physics_name
from ledger_lab.reports import RunSummary, summarize_run
from ledger_lab.reports.terminal.console import Terminal
from ledger_lab.tasks.pretrained import ROOT, shipped_contract, shipped_tasks
from ledger_lab.tasks.registry import STOCK_TASKS, registered_tasks, task_package
from ledger_lab.training.runners.configs import resolve_configs
from ledger_lab.training.runners.description import describe_simulation, scoring_code
from ledger_lab.training.runners.physics_engine import physics_choices, with_default_physics
from ledger_lab.training.runners.session import held_out_config, resolve_device
from ledger_lab.units import MISSING, duration, target_share

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
        known, broken = find_panels(), list[str]()
        panels = [load_panel(name) for name in known]
        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in _COLUMNS:
            table.add_column(name, no_wrap=name not in ("physics", "libraries"))
        for task in tasks:
            if request.keyword.lower() not in task.lower() or (task_package(task) == STOCK_TASKS and not request.all):
                continue
            kwargs = gym.spec(task).kwargs
            libraries = [name for name in LIBRARIES if f"{name}_cfg_entry_point" in kwargs]
            own = [panel for panel in panels if panel.task == task]
            cells: list[RenderableType] = [MISSING] * (len(_COLUMNS) - 3)
            try:
                default = kwargs.get("default_panel")
                if default is not None and default not in known and libraries:
                    own.append(load_panel(default))
                if own:
                    own.sort(key=lambda panel: default not in (panel.name, panel.source))
                    cells = _cells(task, libraries[0], device, own)
            except UserError as error:
                broken.append(str(error))
            table.add_row(task, ", ".join(libraries) or MISSING, ", ".join(physics_choices(task)) or MISSING, *cells)
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


def _cells(task: str, library: str, device: str, panels: Sequence[Panel]) -> list[RenderableType]:
    """Return the cells of a task from its sizes to the records on its panels, with a line per panel.

    Args:
        task: Gymnasium id.
        library: A library that the task has a configuration for.
        device: Device of a new run.
        panels: Panels of the task.

    Raises:
        UserError: If a panel's success function can't be imported.
    """
    env_cfg, _ = resolve_configs(task, library, with_default_physics(task, (), device))
    description = describe_simulation(held_out_config(env_cfg, 1))
    sizes, shipped = [MISSING, MISSING], None
    if task in shipped_tasks():
        files = shipped_contract(task)["files"]
        sizes = [str(files[end]["shape"][1]) for end in ("input", "output")]
        shipped = summarize_run(find_run(str(ROOT / task), ROOT))
    lines = []
    for panel in panels:
        identity = PanelIdentity.of(panel, {**description, "code": scoring_code(panel, env_cfg)}).id
        record = MISSING
        if shipped is not None and (shipped.panel, shipped.target_success) == (panel.name, panel.target_success):
            record = _record(shipped)
            if shipped.panel_id != identity:
                same_engine = shipped.physics == physics_name(env_cfg)
                record += f" as {shipped.panel_id[:11]}…" if same_engine else f" with {shipped.physics}"
        episodes = str(len(panel.episodes))
        lines.append((panel.name, f"{identity[:11]}…", episodes, target_share(panel.target_success), record))
    return [*sizes, str(env_cfg.scene.num_envs), *(Group(*column) for column in zip(*lines, strict=True))]


def _record(summary: RunSummary) -> str:
    """Return the score of a run's best checkpoint; if it proved its target, also the time, with earlier trainings."""
    if (best := summary.best) is None:
        return MISSING
    if best.proven:
        took = duration(summary.wall_to_target_s)
        before = f" + {duration(summary.began_from['wall_s'])}" if summary.began_from else ""
        return f"{best.proof_successes}/{best.proof_episodes} in {took}{before}"
    return f"{best.heldout_successes}/{best.heldout_episodes}, short of it"
