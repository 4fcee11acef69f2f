"""Makes the page of a ledger again and again, from what is new in the ledger."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from ledger_lab.cli.live_page import Address, live_part, run_links
from ledger_lab.cli.report import newest_runs, selected_runs, summarize_runs, summarize_selected
from ledger_lab.cli.watch import known_plans
from ledger_lab.ledger import Ledger, Run
from ledger_lab.ledger.costs import Price
from ledger_lab.ledger.directories import OnProgress
from ledger_lab.ledger.find import require_ledger
from ledger_lab.ledger.follow import LedgerFollower
from ledger_lab.reports import RunSummary
from ledger_lab.reports.page import PageMemory, build_model
from ledger_lab.reports.page.content import PageContent, PageState
from ledger_lab.reports.page.document import Mode
from ledger_lab.reports.page.live import Link, LivePart
from ledger_lab.reports.watch import PlannedStudy, QueuedTraining, watch_ledger

UNCHANGED_S = 60.0
"""Longest time between two writings if nothing changes, so that readers see that the writer lives [s]."""

_SHARE = 0.2
"""Largest share of a core that readings take on average: after a slow one, the next one waits."""

_ASK_EVERY_S = 30.0
"""Time between two questions to the engines of clusters, whose schedulers many people ask [s]."""


class PageReading:
    """Reads a ledger repeatedly, and makes its page. What has not changed is not computed again."""

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
        self._follower = LedgerFollower(log_root)
        self._memory = PageMemory()
        self._summaries: dict[str, tuple[Run, str | None, RunSummary]] = {}
        self._links: dict[str, tuple[Run, tuple[Link, ...]]] = {}
        self._queues = _Queues(log_root)
        self._seen: object = None
        self._content: PageContent | None = None
        self._live: _Live | None = None
        self.pause_s = every_s
        """Time until the next reading [s]."""

    def read(self, on_progress: OnProgress | None = None) -> PageState:
        """Read what is new, and return the page.

        Args:
            on_progress: Called with the bytes of journals that were read, and the bytes to read in all.

        Raises:
            UserError: If there is no ledger, a requested run does not exist, or a journal can't be read.
        """
        began_s = time.thread_time()
        first = self._content is None
        require_ledger(self._log_root)
        ledger = self._follower.read(on_progress)
        content = self._read_content(ledger)
        live = self._read_live(ledger, content)
        if self._mode == "file":
            content.frame  # noqa: B018 - rendering counts, too, and is kept
        if not first:  # which reads everything
            self.pause_s = max(self._every_s, (time.thread_time() - began_s) * (1 / _SHARE - 1))
        return PageState(content, live, {run.run_id: run for run in ledger.runs})

    def _read_content(self, ledger: Ledger) -> PageContent:
        """Return the page without its live part; as long as nothing changes, the same."""
        statuses = tuple(run.attempts[-1].status if run.attempts else None for run in ledger.runs)
        seen = (self._follower.changes, statuses)
        if self._content is not None and seen == self._seen:
            return self._content
        runs = newest_runs(selected_runs(ledger.runs, self._asked, self._log_root)) if ledger.runs else []
        summaries, cohorts = summarize_selected(ledger, runs, self._price, self._summarize)
        model = build_model(
            runs,
            summaries,
            cohorts,
            source=str(self._log_root),
            created_at=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            asked=self._price,
            absent=[] if self._asked else [cohort for cohort in ledger.cohorts if not cohort.run_ids],
            left_out_runs=len(ledger.runs) - len(runs),
            memory=self._memory,
            links=self._run_links,
        )
        version = 1 if self._content is None else self._content.version + 1
        self._seen, self._content = seen, PageContent(model, self._mode, version)
        return self._content

    def _summarize(self, runs: Sequence[Run], price: Price | None) -> list[RunSummary]:
        """Return the figures of runs; those of a run that has not changed are kept."""
        stale = [run for run in runs if not self._is_summarized(run)]
        for run, summary in zip(stale, summarize_runs(stale, price), strict=True):
            self._summaries[run.run_id] = (run, _status(run), summary)
        return [self._summaries[run.run_id][2] for run in runs]

    def _is_summarized(self, run: Run) -> bool:
        """Tell whether the kept figures of a run are still those of the run."""
        kept = self._summaries.get(run.run_id)
        return kept is not None and kept[0] is run and kept[1] == _status(run)

    def _run_links(self, run: Run) -> tuple[Link, ...]:
        """Return the links of a run; those of a run that has not changed are kept."""
        kept = self._links.get(run.run_id)
        if kept is None or kept[0] is not run:
            kept = self._links[run.run_id] = (run, run_links(run, self._address))
        return kept[1]

    def _read_live(self, ledger: Ledger, content: PageContent) -> LivePart:
        """Return the live part. If nothing goes on and nothing has changed, it stays for a while."""
        before, now = self._live, round(time.time(), 1)
        queues, studies, notes = asked = self._queues.ask()
        if before is not None and before.shows(content, asked) and now - before.watched_at < UNCHANGED_S:
            return replace(before.part, written_at=now)
        watch = watch_ledger(
            ledger,
            now=datetime.now(UTC),
            studies=studies,
            queues=queues,
            price=self._price,
            notes=[*notes, *(f"left out: {damage}" for damage in ledger.damage)],
        )
        part = live_part(
            watch,
            {run.run_id: run for run in ledger.runs},
            written_at=now,
            every_s=self._every_s,
            due_s=UNCHANGED_S + 2 * self.pause_s,
            address=self._address,
        )
        self._live = _Live(part, content, asked, now)
        return part


_Asked = tuple[list[QueuedTraining], list[PlannedStudy], list[str]]
"""Trainings that wait or run, the known studies, and what could not be found out."""


@dataclass(frozen=True)
class _Live:
    """A live part, and what it was made from."""

    part: LivePart
    content: PageContent
    asked: _Asked
    watched_at: float

    def shows(self, content: PageContent, asked: _Asked) -> bool:
        """Tell whether it still holds: nothing has changed, and no training goes on, whose time passes."""
        return not self.part.goes_on and self.content is content and self.asked == asked


class _Queues:
    """What the engines of clusters say, asked only now and then."""

    def __init__(self, log_root: Path) -> None:
        """Ask nothing yet."""
        self._log_root = log_root
        self._asked_s = float("-inf")
        self._found: _Asked = ([], [], [])

    def ask(self) -> _Asked:
        """Return the trainings that wait or run, the known studies, and what could not be found out."""
        if time.monotonic() - self._asked_s >= _ASK_EVERY_S:
            studies, queues, notes = known_plans(self._log_root)
            self._found = (queues, studies, notes)
            self._asked_s = time.monotonic()
        return self._found


def _status(run: Run) -> str | None:
    """Return the status of the last attempt of a run."""
    return str(run.attempts[-1].status) if run.attempts else None
