"""``scripts/list_envs.py --long`` and ``--all``: the tasks that are registered with Isaac Lab."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import gymnasium as gym
from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from ledger_lab.cli.list_tasks import ListRequest, print_table
from ledger_lab.errors import UserError
from ledger_lab.ledger.find import find_run
from ledger_lab.ledger.libraries import LIBRARIES
from ledger_lab.panels import Panel, PanelIdentity, find_panels, load_panel
from ledger_lab.reports import summarize_run
from ledger_lab.reports.terminal.console import Terminal
from ledger_lab.tasks.pretrained import ROOT, shipped_contract, shipped_tasks
from ledger_lab.tasks.registry import STOCK_TASKS, default_panel, registered_tasks, task_package
from ledger_lab.training.runners.configs import resolve_configs
from ledger_lab.training.runners.description import describe_simulation, scoring_code
from ledger_lab.training.runners.physics_engine import physics_choices, with_default_physics
from ledger_lab.training.runners.session import held_out_config, resolve_device
from ledger_lab.units import target_share


def list_registered(argv: Sequence[str]) -> int:
    """Print one row per registered task, or with ``--long`` a paragraph.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If there is no such task.
    """
    request = ListRequest.parse(argv)
    device = resolve_device(None)
    registered = registered_tasks()  # before output is redirected, because it prints warnings about packages
    tasks = [task for task in registered if request.all or task_package(task) != STOCK_TASKS]
    terminal = Terminal()
    try:
        if not request.long:
            print_table({task: default_panel(task) for task in tasks}, request, terminal.console)
            return 0
        tasks = [task for task in tasks if request.keyword.lower() in task.lower()]
        request.require_some(len(tasks))
        for task in tasks:
            _print_details(task, device, terminal.console)
    finally:
        terminal.restore()
    return 0


def _print_details(task: str, device: str, console: Console) -> None:
    """Print what a task has, with a line per panel.

    Args:
        task: Gymnasium id.
        device: Device of a new run.
        console: Where to print.
    """
    kwargs = gym.spec(task).kwargs
    libraries = [name for name in LIBRARIES if f"{name}_cfg_entry_point" in kwargs]
    grid = Table.grid(padding=(0, 2))
    if libraries:
        grid.add_row("libraries", ", ".join(libraries))
    if physics := physics_choices(task):
        grid.add_row("physics", ", ".join(physics))
    try:
        for row in _measured(task, libraries[0], device) if libraries else ():
            grid.add_row(*row)
    except UserError as error:
        grid.add_row("warning", str(error))
    console.print(task, style="bold")
    if grid.row_count:
        console.print(Padding(grid, (0, 0, 0, 2), expand=False))


def _measured(task: str, library: str, device: str) -> Iterator[tuple[str, str]]:
    """Yield rows with the sizes of a task, its pretrained policy and its panels.

    Args:
        task: Gymnasium id.
        library: A library that the task has a configuration for.
        device: Device of a new run.

    Raises:
        UserError: If a panel can't be read, or its success function can't be imported.
    """
    env_cfg, _ = resolve_configs(task, library, with_default_physics(task, (), device))
    yield "environments", str(env_cfg.scene.num_envs)
    if task in shipped_tasks():
        files = shipped_contract(task)["files"]
        for name, end in (("observations", "input"), ("actions", "output")):
            yield name, str(files[end]["shape"][1])
        policy = summarize_run(find_run(str(ROOT / task), ROOT))
        if (best := policy.proven) is not None:
            proof = f"{best.proof_successes} of {best.proof_episodes} fresh episodes"
            yield "pretrained", f"{best.path}: {proof} with {policy.physics}"
    description = describe_simulation(held_out_config(env_cfg, 1))
    for panel in _panels(task):
        identity = PanelIdentity.of(panel, {**description, "code": scoring_code(panel, env_cfg)}).id
        yield "panel", f"{panel.name}: {target_share(panel.target_success)} of {len(panel.episodes)}, {identity[:11]}…"


def _panels(task: str) -> list[Panel]:
    """Return the panels of a task, the default one first."""
    default, known = default_panel(task), find_panels()
    own = [panel for name in known if (panel := load_panel(name)).task == task]
    if default is not None and default not in known:
        own.append(load_panel(default))
    return sorted(own, key=lambda panel: default not in (panel.name, panel.source))
