"""What a user asks of ``scripts/list_envs.py``."""

from __future__ import annotations

from dataclasses import dataclass

from ledger_lab.terminal.flags import Program
from ledger_lab.terminal.request import Request, flag


@dataclass(frozen=True, kw_only=True)
class ListRequest(Request):
    """What a user asks of ``scripts/list_envs.py``: each field is a flag of the same name."""

    program = Program(
        name="list_envs.py",
        description="List the tasks of LedgerLab and of all other installed packages, with their sizes, physics "
        "engines and panels. A panel id is a hash of everything that can change a score. The list shows "
        "the ids for the task's default physics and the installed packages. The column record is about the policy "
        "that comes with the package: its success on fresh episodes, and the time to its confirmed target. If that "
        "training started from another policy, the figure after the + is the time of the earlier trainings. If the "
        "policy did not reach its target, the record is its best score.",
        examples=("list_envs.py", "list_envs.py --all --keyword Velocity"),
    )

    all: bool = flag(False, "Also list the tasks that come with Isaac Lab.")
    keyword: str = flag("", "List only tasks whose id contains this word.")
