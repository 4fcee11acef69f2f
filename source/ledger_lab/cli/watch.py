"""``scripts/watch.py``: shows live runs, what they will cost, and alerts about what wastes money."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

from rich.console import Console

from ledger_lab.errors import UserError
from ledger_lab.ledger import Ledger, read_ledger
from ledger_lab.ledger.cores import no_collection
from ledger_lab.ledger.find import require_ledger, tell_damage
from ledger_lab.reports.terminal.console import make_console, tell_error, write_output
from ledger_lab.reports.terminal.durations import parse_period
from ledger_lab.reports.terminal.progress import ReadingProgress
from ledger_lab.reports.terminal.request import Program, Request, flag, log_root_flag
from ledger_lab.reports.watch.model import AlertKind, PlannedStudy, QueuedTraining, Watch
from ledger_lab.reports.watch.view import watch_ledger
from ledger_lab.reports.watch.words import alert_lines, render_watch
from ledger_lab.wings import required_part, wing_part

EXIT_ALERTS = 3
"""Exit status if there is an alert that is more than a notice."""

type Plans = tuple[list[PlannedStudy], list[QueuedTraining], list[str]]
"""Known studies, trainings that wait or run by their schedulers, and in words, what could not be found out."""


@dataclass(frozen=True, kw_only=True)
class WatchRequest(Request):
    """What a user asks of ``scripts/watch.py``: each field is a flag of the same name."""

    program = Program(
        name="watch.py",
        description=(
            "Show the runs that are running or waiting, with their progress, and a forecast of time and cost. "
            "Alerts name what wastes money: runs without a sign of life, studies that can't finish in their budgets, "
            "idle machines, and queues that do not move. The exit status is 0 if there is no alert, "
            f"{EXIT_ALERTS} if there is one, 2 if the request is wrong, and 1 if there is no alert, but a damaged "
            "journal was left out. Notices do not count: they may have a harmless cause that the ledger does not show."
        ),
        examples=(
            "watch.py",
            "watch.py --follow 30",
            "watch.py --log_root /shared/ledger --quiet",
            "watch.py --json - --kind hung lost silent",
        ),
    )

    log_root: Path = log_root_flag()
    study: tuple[str, ...] = flag(
        (),
        "Also show this study: a name from config/studies, or your own .toml file. Studies in config/studies that go "
        "on are shown without this flag. Repeat the flag for several studies.",
        metavar="STUDY",
    )
    ask: bool = flag(
        True,
        "Read only the ledger. By default, schedulers such as Slurm are asked about submitted trainings.",
    )
    follow: float | None = flag(
        None, "Look again every SECONDS seconds, until Ctrl-C.", metavar="SECONDS", parse=parse_period
    )
    json: str | None = flag(
        None,
        "Write everything to a JSON file; - means standard output. With --follow, standard output gets one document "
        "per line.",
        metavar="FILE",
    )
    quiet: bool = flag(False, "Print only alerts, and nothing if there are none.")
    kind: tuple[AlertKind, ...] = flag(
        (),
        f"Print only these kinds of alerts: {', '.join(get_args(AlertKind))}. Others do not change the exit status.",
        metavar="KIND",
    )

    def __post_init__(self) -> None:
        """Refuse flags that contradict each other.

        Raises:
            UserError: If nothing but alerts is asked for, and a document in the same place.
        """
        if self.json == "-":
            self.require_at_most_one("quiet", "json")


def watch(argv: Sequence[str]) -> int:
    """Show live runs and alerts, once or with ``--follow`` repeatedly.

    Args:
        argv: Command line without the program's name.

    Returns:
        0 if there is no alert; 3 if there is one; 1 if there is none, but damaged runs were left out.

    Raises:
        UserError: If there is no such ledger, study or cluster.
    """
    request = WatchRequest.parse(argv)
    console = make_console()
    looked = False
    while True:
        try:
            ledger, found = _look(request)
            looked = True
            _tell(request, found, console)
        except UserError as error:
            if request.follow is None or not looked:
                raise
            tell_error(error)  # a share that is away for a moment must not end the watch
        if request.follow is None:
            break
        time.sleep(request.follow)
    if any(alert.severity != "notice" for alert in found.alerts):
        return EXIT_ALERTS
    return 1 if ledger.damage else 0


@no_collection()
def _look(request: WatchRequest) -> tuple[Ledger, Watch]:
    """Look once."""
    require_ledger(request.log_root)
    own = [required_part("planned study")(name) for name in request.study]
    studies, queues, notes = known_plans(request.log_root, ask=request.ask)
    with ReadingProgress(make_console(sys.stderr), "reading journals, MB") as progress:
        ledger = read_ledger(request.log_root, on_progress=progress.show, tolerate_damage=True)
    tell_damage(ledger.damage)
    names = {study.name for study in own}
    found = watch_ledger(
        ledger,
        now=datetime.now(UTC),
        studies=[*own, *(study for study in studies if study.name not in names)],
        asked=names,
        queues=queues,
        notes=[*notes, *(f"a run was left out: {damage}" for damage in ledger.damage)],
    )
    if request.kind:
        found = replace(found, alerts=tuple(alert for alert in found.alerts if alert.kind in request.kind))
    return ledger, found


def known_plans(log_root: Path, *, ask: bool = True) -> Plans:
    """Return the studies in ``config/studies``, and the trainings that wait or run according to their schedulers.

    Args:
        log_root: Root of the ledger.
        ask: Whether to ask the schedulers.

    Returns:
        The studies, the trainings, and in words, what could not be found out.
    """
    find_studies, ask_queues = wing_part("known studies"), wing_part("queues") if ask else None
    studies, unread = ([], []) if find_studies is None else find_studies()
    queues, unasked = ([], []) if ask_queues is None else ask_queues(log_root)
    return studies, queues, [*unread, *unasked]


def _tell(request: WatchRequest, found: Watch, console: Console) -> None:
    """Print what was found, or write it to a file."""
    if request.json is not None:
        indent = None if request.follow is not None and request.json == "-" else 2
        write_output(request.json, json.dumps(found.to_json(), indent=indent, allow_nan=False) + "\n")
        sys.stdout.flush()
        if request.json == "-":
            return
    if request.quiet:
        for line in alert_lines(found.alerts):
            console.print(line, soft_wrap=True)
        return
    if request.follow is not None and console.is_terminal:
        console.clear()
    console.print(render_watch(found), soft_wrap=True)
