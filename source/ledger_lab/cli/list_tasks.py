"""``scripts/list_envs.py``: lists the tasks with their panels, and the recorded times to their targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points

from rich.console import Console
from rich.table import Table

from ledger_lab.documents import read_toml
from ledger_lab.errors import UserError
from ledger_lab.files import times_file
from ledger_lab.panels import load_panel
from ledger_lab.reports.terminal.console import PLAIN_WIDTH, make_console
from ledger_lab.reports.terminal.request import Program, Request, flag
from ledger_lab.reports.terminal.script import imported_later
from ledger_lab.tasks.pack import TASKS
from ledger_lab.training.supervision.start import run_watched
from ledger_lab.units import MISSING, target_share

_COLUMNS = ("task", "time to target", "panel", "target", "episodes")
_WIDTH = 96
"""Columns of a terminal that all columns of the table need, with the tasks of LedgerLab."""
_LEGEND = "time to target (min:s): median of 3 recorded trainings on 2 CPU cores · --long shows engines and ids"


@dataclass(frozen=True, kw_only=True)
class ListRequest(Request):
    """What a user asks of ``scripts/list_envs.py``: each field is a flag of the same name."""

    program = Program(
        name="list_envs.py",
        description="List the tasks with their panels. The time to target is the median of three recorded trainings "
        "with the default command on two CPU cores, from the start of Python to the proof. A time after a + "
        "is that of another task: the trainings started from its policy, with train.py --checkpoint. Target and "
        "episodes are those of a check on the panel.",
        examples=("list_envs.py", "list_envs.py --long --keyword Cartpole", "list_envs.py --all --keyword Velocity"),
    )

    long: bool = flag(
        False,
        "Show libraries, physics engines, numbers of environments, observations and actions, pretrained policy and all "
        "panels of each task. Panel ids depend on the physics engine; those of the default engine are shown. Tasks of "
        "other installed packages are listed, too. This takes seconds.",
    )
    all: bool = flag(False, "Also list the tasks of other installed packages and of Isaac Lab. This takes seconds.")
    keyword: str = flag("", "List only tasks whose id contains this text (default: list all).")

    def require_some(self, listed: int) -> None:
        """Refuse a keyword that no task's id contains.

        Args:
            listed: Number of tasks that were listed.

        Raises:
            UserError: If there is none.
        """
        if not listed:
            more = "" if self.all else " (--all lists more)"
            raise UserError(f"no task's id contains {self.keyword!r}{more}")


def list_tasks(argv: Sequence[str]) -> int:
    """Print one row per task; with ``--long`` or ``--all``, in a process that imports Isaac Lab.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If there is no such task.
    """
    request = ListRequest.parse(argv)
    if request.long or request.all:
        run_watched(imported_later("ledger_lab.cli.registered_tasks:list_registered"))
    console = make_console()
    print_table({task: own.panel for task, own in sorted(TASKS.items())}, request, console)
    found = entry_points(group="isaaclab.tasks")
    packages = {(each.dist and each.dist.metadata.get("Name")) or each.name for each in found}
    if others := sorted(packages - {"ledger_lab", "ledger-lab"}):
        console.print(f"--long also lists the tasks of {', '.join(others)}", soft_wrap=True)
    return 0


def print_table(tasks: Mapping[str, str | None], request: ListRequest, console: Console) -> None:
    """Print the tasks that a user asks for, and a warning for each panel that can't be read.

    Args:
        tasks: Default panels of the tasks, by Gymnasium id.
        request: What the user asks for.
        console: Where to print.

    Raises:
        UserError: If no task's id contains the keyword.
    """
    wide = console.width >= _WIDTH
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in _COLUMNS if wide else _COLUMNS[:3]:
        table.add_column(name, no_wrap=True)
    broken = list[str]()
    times = read_toml(times_file())
    for task, default in tasks.items():
        if request.keyword.lower() not in task.lower():
            continue
        cells = (MISSING, MISSING, MISSING)
        try:
            if default is not None:
                panel = load_panel(default)
                cells = (panel.name, target_share(panel.target_success), str(len(panel.episodes)))
        except UserError as error:
            broken.append(str(error))
        table.add_row(task, times.get(task, MISSING), *(cells if wide else cells[:1]))
    request.require_some(table.row_count)
    # A name is never cut: in a terminal that is narrower than three columns, lines are continued.
    table.width = console.measure(table, options=console.options.update(width=PLAIN_WIDTH)).maximum
    console.print(table, crop=False)
    console.print(_LEGEND, soft_wrap=True)
    for sentence in broken:
        console.print(f"warning: {sentence}", soft_wrap=True)
