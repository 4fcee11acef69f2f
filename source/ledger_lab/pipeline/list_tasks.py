"""``scripts/list_envs.py``: the tasks, the physics they run on, and the panels that judge them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
from isaaclab_tasks.utils.preset_cli import enumerate_task_presets
from isaaclab_tasks.utils.preset_target import PresetTarget
from rich.table import Table

from ledger_lab.errors import UserError
from ledger_lab.panels import PanelIdentity, find_panels, load_panel
from ledger_lab.pipeline.console import Terminal
from ledger_lab.reports.format import target_share
from ledger_lab.runners.adapter import LIBRARIES
from ledger_lab.runners.configs import resolve_configs
from ledger_lab.runners.description import describe_simulation
from ledger_lab.runners.session import held_out_config, registered_tasks


def list_tasks(argv: Sequence[str]) -> int:
    """Print one row per task and panel.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If there is no such task.
    """
    parser = argparse.ArgumentParser(
        prog="list_envs.py",
        description="List the tasks of LedgerLab and of every other package installed, with their physics engines and "
        "the panels that come with them. The id of a panel is the one it has on the task's default physics, here, with "
        "the packages installed now.",
    )
    parser.add_argument("--all", action="store_true", help="List the tasks that come with Isaac Lab, too.")
    parser.add_argument("--keyword", default="", help="List only tasks whose id contains this.")
    args = parser.parse_args(argv)
    terminal = Terminal()
    try:
        known = find_panels()
        panels = [load_panel(name) for name in known]
        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in ("task", "libraries", "physics", "panel", "id", "episodes", "target"):
            table.add_column(name, no_wrap=name not in ("physics", "libraries"))
        for task in registered_tasks():
            kwargs = gym.spec(task).kwargs
            if args.keyword.lower() not in task.lower() or (_is_stock(kwargs) and not args.all):
                continue
            libraries = [name for name in LIBRARIES if f"{name}_cfg_entry_point" in kwargs]
            presets = (enumerate_task_presets(task) or {}).get(PresetTarget.PHYSICS, [])
            shown = [task, ", ".join(libraries) or "–", ", ".join(presets) or "–"]
            own = [panel for panel in panels if panel.task == task]
            default = kwargs.get("default_panel")
            if default is not None and default not in known and libraries:
                own.append(load_panel(default))
            own.sort(key=lambda panel: default not in (panel.name, panel.source))
            if not own:
                table.add_row(*shown, "–", "–", "–", "–")
                continue
            env_cfg, _ = resolve_configs(task, libraries[0], [])
            simulation = describe_simulation(held_out_config(env_cfg, 1))
            for panel in own:
                table.add_row(
                    *shown,
                    panel.name,
                    f"{PanelIdentity.of(panel, simulation).id[:11]}…",
                    str(len(panel.episodes)),
                    target_share(panel.target_success),
                )
                shown = ["", "", ""]
        if not table.row_count:
            raise UserError(f"no task's id contains {args.keyword!r}" + ("" if args.all else " (--all lists more)"))
        terminal.console.print(table)
    finally:
        terminal.restore()
    return 0


def _is_stock(kwargs: Mapping[str, Any]) -> bool:
    """Tell whether a task comes with Isaac Lab.

    Args:
        kwargs: What the task is registered with.
    """
    entry = kwargs["env_cfg_entry_point"]
    module: str = entry if isinstance(entry, str) else entry.__module__
    return module.startswith("isaaclab_tasks.")
