"""``scripts/report.py --html``: the page of a ledger, written once or again and again while trainings run."""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import NoReturn
from urllib.parse import quote

from ledger_lab.cli.report import newest_runs, selected_runs, summarize_selected
from ledger_lab.cli.report_request import ReportRequest
from ledger_lab.cli.watch import Plans, known_plans
from ledger_lab.errors import UserError, first_line
from ledger_lab.ledger import Ledger, Run, read_ledger
from ledger_lab.ledger.costs import Price
from ledger_lab.ledger.directories import OnProgress
from ledger_lab.ledger.endings import Terminated
from ledger_lab.ledger.find import require_ledger
from ledger_lab.reports.cohort_summary import Contents
from ledger_lab.reports.page import (
    Address,
    LivePage,
    LivePart,
    Mode,
    PageModel,
    build_model,
    run_links,
    save_page,
    write_page,
)
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.progress import ReadingProgress
from ledger_lab.reports.watch import watch_ledger

_SHARE = 0.2
"""Largest share of a core that readings take on average: after a slow one, the next one waits."""

_ASK_EVERY_S = 30.0
"""Time between two questions to the engines of clusters, whose schedulers many people ask [s]."""

_LATE_S = 60.0
"""Time that a reading and writing may take, before readers of the page are told that it is late [s]."""


def draw_page(request: ReportRequest, file: Path, ledger: Ledger, contents: Contents, price: Price | None) -> None:
    """Write the page once.

    Args:
        request: What the user asked for.
        file: The HTML file.
        ledger: The whole ledger.
        contents: The selected runs.
        price: Price that replaces the declared prices.

    Raises:
        UserError: If the file can't be written.
    """
    with ReadingProgress(make_console(sys.stderr), "drawing runs", unit=2) as progress:
        write_page(
            file,
            contents.runs,
            contents.summaries,
            contents.cohorts,
            source=str(request.log_root),
            asked=price,
            absent=[] if request.runs else [cohort for cohort in ledger.cohorts if not cohort.run_ids],
            left_out_runs=len(ledger.runs) - len(contents.runs),
            on_progress=progress.show,
        )
    count = len(contents.runs)
    make_console().print(f"wrote {file}: {count} run{'' if count == 1 else 's'}", soft_wrap=True)


class PageReader:
    """Reads a ledger repeatedly, and makes its page anew each time."""

    def __init__(
        self,
        log_root: Path,
        *,
        mode: Mode,
        every_s: float,
        address: Address,
        runs: Sequence[str] = (),
        price: Price | None = None,
    ) -> None:
        """Read nothing yet.

        Args:
            log_root: Root of the ledger.
            mode: How the page lives.
            every_s: Time between two readings [s].
            address: Returns the addresses of files of runs.
            runs: Run ids, their beginnings, or names of cohorts; empty for all runs.
            price: Price that replaces the declared prices.
        """
        self._log_root, self._mode, self._every_s, self._address = log_root, mode, every_s, address
        self._asked, self._price = runs, price
        self._plans: Plans = ([], [], [])
        self._plans_s = float("-inf")
        self.pause_s = every_s
        """Time until the next reading [s]."""

    def read(self, on_progress: OnProgress | None = None) -> LivePage:
        """Read the ledger, and return its page.

        Args:
            on_progress: Called with the bytes of journals that were read, and the bytes to read in all.

        Raises:
            UserError: If there is no ledger, a requested run does not exist, or a journal can't be read.
        """
        began_s = time.thread_time()
        require_ledger(self._log_root)
        ledger = read_ledger(self._log_root, on_progress=on_progress, tolerate_damage=True)
        page = LivePage(self._model(ledger), self._live(ledger), self._mode)
        self.pause_s = max(self._every_s, (time.thread_time() - began_s) * (1 / _SHARE - 1))
        return page

    def _model(self, ledger: Ledger) -> PageModel:
        """Return the page without its live part."""
        runs = newest_runs(selected_runs(ledger.runs, self._asked, self._log_root)) if ledger.runs else []
        summaries, cohorts = summarize_selected(ledger, runs, self._price)
        return build_model(
            runs,
            summaries,
            cohorts,
            source=str(self._log_root),
            asked=self._price,
            absent=[] if self._asked else [cohort for cohort in ledger.cohorts if not cohort.run_ids],
            left_out_runs=len(ledger.runs) - len(runs),
            links=lambda run: run_links(run, self._address),
        )

    def _live(self, ledger: Ledger) -> LivePart:
        """Return the live part."""
        if time.monotonic() - self._plans_s >= _ASK_EVERY_S:
            self._plans, self._plans_s = known_plans(self._log_root), time.monotonic()
        studies, queues, notes = self._plans
        watch = watch_ledger(
            ledger,
            now=datetime.now(UTC),
            studies=studies,
            queues=queues,
            price=self._price,
            notes=[*notes, *(f"left out: {damage}" for damage in ledger.damage)],
        )
        return LivePart(
            watch=watch,
            runs={run.run_id: run for run in ledger.runs},
            address=self._address,
            written_at=round(time.time(), 1),
            every_s=self._every_s,
            due_s=_LATE_S + 2 * self.pause_s,
        )


def follow_page(request: ReportRequest, file: Path, every_s: float) -> NoReturn:
    """Write the page again and again, until a signal asks to end. The last page says that it ended.

    Args:
        request: What the user asked for.
        file: The HTML file.
        every_s: Time between two writings [s].

    Raises:
        KeyboardInterrupt: At Ctrl-C.
        Terminated: At SIGTERM.
        UserError: If there is no ledger, or the first page can't be written.
    """
    signal.signal(signal.SIGTERM, _terminate)
    errors = make_console(sys.stderr)
    folder = file.absolute().parent

    def address(run: Run, kind: str, path: str) -> str:
        # Relative to the page, so that both can be moved together. A name may be bytes that are not text, or look like
        # the scheme of an address: both are percent-encoded.
        return quote(os.fsencode(os.path.relpath(run.directory.absolute() / path, folder)))

    reader = PageReader(
        request.log_root, mode="file", every_s=every_s, address=address, runs=request.runs, price=request.price()
    )
    with ReadingProgress(errors, "reading journals, MB") as progress:
        page = reader.read(progress.show)
    _write(file, page)
    make_console().print(f"wrote {file}; it follows the ledger until Ctrl-C", soft_wrap=True)
    sys.stdout.flush()
    trouble = ""
    try:
        while True:
            time.sleep(reader.pause_s)
            try:
                page = reader.read()
                _write(file, page)
                trouble = ""
            except (UserError, OSError) as error:  # a journal was moved, a disk is full, or a server does not answer
                if trouble != (trouble := first_line(error)):
                    errors.print(f"{trouble}; the page stays as it is", soft_wrap=True)
    finally:
        with suppress(UserError):  # a page that does not say that it ended, tells its age
            _write(file, dataclasses.replace(page, live=dataclasses.replace(page.live, ended=True)))


def _write(file: Path, page: LivePage) -> None:
    """Write a page into its file."""
    try:
        save_page(file, page.whole)
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror}") from error


def _terminate(signum: int, _: FrameType | None) -> NoReturn:
    """Turn SIGTERM into an exception."""
    raise Terminated(signal.Signals(signum).name)
