"""``scripts/report.py page``: the page of a ledger, written once or again and again while trainings run."""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import NoReturn
from urllib.parse import quote

from ledger_lab.cli.watch import Plans, known_plans
from ledger_lab.errors import UserError, first_line
from ledger_lab.ledger import Run, read_ledger
from ledger_lab.ledger.cores import no_collection
from ledger_lab.ledger.costs.prices import Price
from ledger_lab.ledger.endings import Terminated
from ledger_lab.ledger.find import require_ledger
from ledger_lab.ledger.reader import OnProgress
from ledger_lab.reports.page.document import LivePage, finished_page
from ledger_lab.reports.page.live import Address, LivePart, run_links
from ledger_lab.reports.page.model import build_model
from ledger_lab.reports.selection import SHOWN_RUNS, PricedRequest, runs_flag, select, select_in
from ledger_lab.reports.terminal.console import make_console, write_output
from ledger_lab.reports.terminal.durations import parse_period
from ledger_lab.reports.terminal.progress import ReadingProgress
from ledger_lab.reports.terminal.request import Program, flag
from ledger_lab.reports.watch.view import watch_ledger

_SHARE = 0.2
"""Largest share of a core that readings take on average: after a slow one, the next one waits."""

_ASK_EVERY_S = 30.0
"""Time between two questions to the engines of clusters, whose schedulers many people ask [s]."""

_LATE_S = 60.0
"""Time that a reading and writing may take, before readers of the page are told that it is late [s]."""


@dataclass(frozen=True, kw_only=True)
class PageRequest(PricedRequest):
    """What a user asks of ``scripts/report.py page``: each field is an argument or a flag of the same name."""

    program = Program(
        name="report.py page",
        description=(
            "Write an HTML page with tables and plots, which works without a network. The page shows at most "
            f"{SHOWN_RUNS} runs, the newest ones. To show others, name runs or cohorts."
        ),
        examples=(
            "report.py page page.html",
            "report.py page page.html COHORT",
            "report.py page page.html --follow 15",
        ),
    )

    file: Path = flag(MISSING, "The HTML file to write.", metavar="FILE", positional=True)
    runs: tuple[str, ...] = runs_flag()
    follow: float | None = flag(
        None,
        "Keep running, and read the ledger and rewrite the page after each of these periods. A browser that shows the "
        "file loads it again by itself. Ctrl-C ends. No server is needed, so the page can lie on shared storage [s].",
        metavar="SECONDS",
        parse=parse_period,
    )


@no_collection()
def draw_page(argv: Sequence[str]) -> int:
    """Write the page, once or with ``--follow`` again and again.

    Args:
        argv: Command line without the program's name.

    Returns:
        0, or 1 if damaged runs were left out.

    Raises:
        UserError: If there is no such ledger or run, or the file can't be written.
    """
    request = PageRequest.parse(argv)
    if request.follow is not None:
        _follow(request, request.follow)
    found = select(request, request.runs, most=SHOWN_RUNS)
    with ReadingProgress(make_console(sys.stderr), "drawing runs", unit=1) as progress:
        write_output(str(request.file.absolute()), finished_page(found, progress.show))
    count = len(found.contents.runs)
    make_console().print(f"wrote {request.file}: {count} run{'' if count == 1 else 's'}", soft_wrap=True)
    return found.status


@dataclass(kw_only=True)
class PageReader:
    """Reads a ledger repeatedly, and makes its page anew each time."""

    log_root: Path
    every_s: float
    """Time between two readings [s]."""
    address: Address
    """Returns the addresses of files of runs."""
    runs: Sequence[str] = ()
    """Run ids, their beginnings, or names of cohorts; empty for all runs."""
    price: Price | None = None
    """Price that replaces the declared prices."""
    pause_s: float = 0.0
    """Time until the next reading [s]."""
    file: Path | None = None
    """The file that each page is written to; ``None`` for a page that a server sends."""
    _plans: Plans = ([], [], [])
    _plans_s: float = -math.inf
    _trouble: str = ""

    def read(self, on_progress: OnProgress | None = None) -> LivePage:
        """Read the ledger, and return its page; with a file, write it.

        Args:
            on_progress: Called with the bytes of journals that were read, and the bytes to read in all.

        Raises:
            UserError: If there is no ledger, a requested run does not exist, or a journal can't be read.
        """
        began_s = time.thread_time()
        require_ledger(self.log_root)
        ledger = read_ledger(self.log_root, on_progress=on_progress, tolerate_damage=True)
        found = select_in(ledger, self.runs if ledger.runs else (), self.price, SHOWN_RUNS)
        if time.monotonic() - self._plans_s >= _ASK_EVERY_S:
            self._plans, self._plans_s = known_plans(self.log_root), time.monotonic()
        studies, queues, notes = self._plans
        watch = watch_ledger(
            found.ledger,
            now=datetime.now(UTC),
            studies=studies,
            queues=queues,
            price=self.price,
            notes=[*notes, *(f"left out: {damage}" for damage in found.ledger.damage)],
        )
        model = build_model(found, links=lambda run: run_links(run, self.address))
        self.pause_s = max(self.every_s, (time.thread_time() - began_s) * (1 / _SHARE - 1))
        live = LivePart(
            watch=watch,
            runs={run.run_id: run for run in found.ledger.runs},
            address=self.address,
            written_at=round(time.time(), 1),
            every_s=self.every_s,
            due_s=_LATE_S + 2 * self.pause_s,
        )
        page = LivePage(model, live, "served" if self.file is None else "file")
        if self.file is not None:
            write_output(str(self.file.absolute()), page.whole)
        return page

    def again(self, page: LivePage) -> LivePage:
        """Read the ledger again, and return its page; if this fails, the page stays, and each trouble is told once.

        Args:
            page: The page before.
        """
        try:
            page, trouble = self.read(), ""
        except (UserError, OSError) as error:  # a journal was moved, a disk is full, or a server does not answer
            if (trouble := first_line(error)) != self._trouble:
                make_console(sys.stderr).print(f"{trouble}; the page stays as it is", soft_wrap=True)
        self._trouble = trouble
        return page


def _follow(request: PageRequest, every_s: float) -> NoReturn:
    """Write the page again and again, until a signal asks to end. The last page says that it ended.

    Raises:
        KeyboardInterrupt: At Ctrl-C.
        Terminated: At SIGTERM.
        UserError: If there is no ledger, or the first page can't be written.
    """
    signal.signal(signal.SIGTERM, _terminate)
    file = request.file
    folder = file.absolute().parent

    def address(run: Run, kind: str, path: str) -> str:
        # Relative to the page, so that both can be moved together. A name may be bytes that are not text, or look like
        # the scheme of an address: both are percent-encoded.
        return quote(os.fsencode(os.path.relpath(run.directory.absolute() / path, folder)))

    reader = PageReader(
        log_root=request.log_root,
        every_s=every_s,
        address=address,
        runs=request.runs,
        price=request.price(),
        file=file,
    )
    with ReadingProgress(make_console(sys.stderr), "reading journals, MB") as progress:
        page = reader.read(progress.show)
    make_console().print(f"wrote {file}; it follows the ledger until Ctrl-C", soft_wrap=True)
    sys.stdout.flush()
    try:
        while True:
            time.sleep(reader.pause_s)
            page = reader.again(page)
    finally:
        with suppress(UserError):  # a page that does not say that it ended, tells its age
            write_output(str(file.absolute()), replace(page, live=replace(page.live, ended=True)).whole)


def _terminate(signum: int, _: FrameType | None) -> NoReturn:
    """Turn SIGTERM into an exception."""
    raise Terminated(signal.Signals(signum).name)
