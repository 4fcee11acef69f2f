"""What a user asks of ``scripts/list_envs.py``."""

from __future__ import annotations

from dataclasses import dataclass

from ledger_lab.reports.terminal.request import Program, Request, flag


@dataclass(frozen=True, kw_only=True)
class ListRequest(Request):
    """What a user asks of ``scripts/list_envs.py``: each field is a flag of the same name."""

    program = Program(
        name="list_envs.py",
        description="List the tasks of LedgerLab and of all other installed packages, with their sizes, physics "
        "engines and panels. Each panel id is valid for the default physics engine of the task. The column record "
        "shows how well the pretrained policy of the task did: successful episodes out of all episodes on fresh seeds, "
        "and the training time until the policy was proven. If the training started from an earlier policy, the "
        "time after the + is the time of the earlier trainings. If the policy did not reach its target, the column "
        "shows its best score. If it was scored with another physics engine, or on a panel with another id, the column "
        "names it.",
        examples=("list_envs.py", "list_envs.py --all --keyword Velocity"),
    )

    all: bool = flag(False, "Also list the tasks that come with Isaac Lab.")
    keyword: str = flag("", "List only tasks whose id contains this text (default: list all).")
