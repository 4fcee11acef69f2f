"""The runs that a user asks a command about: read from the ledger, selected by name, and summarized at a price."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ledger_lab.errors import UserError, nearest
from ledger_lab.ledger import Ledger, LedgerDamageError, Run, read_ledger
from ledger_lab.ledger.comparability import settings
from ledger_lab.ledger.cores import map_on_cores
from ledger_lab.ledger.costs.prices import Price, load_price_book, resolve_price
from ledger_lab.ledger.find import require_ledger, tell_damage, telling_damage
from ledger_lab.reports.cohort_summary import (
    Contents,
    EarlierRuns,
    summarize_cohorts,
)
from ledger_lab.reports.summary import RunSummary, summarize_run
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.progress import ReadingProgress
from ledger_lab.reports.terminal.request import Request, flag, log_root_flag

SHOWN_RUNS = 1000
"""Largest number of runs in the table or on a page. More runs take minutes to draw, and a browser long to show."""

_BATCH, _PARALLEL_FROM = 32, 256
"""Runs per batch of one process, and smallest number of runs that are summarized on several cores."""


@dataclass(frozen=True, kw_only=True)
class PricedRequest(Request):
    """What a user asks about runs of a ledger, and the price to compute costs with."""

    log_root: Path = log_root_flag()
    instance: str | None = flag(
        None,
        "Compute all costs with the price of this entry of the price file (default: the price that each run "
        "recorded). The report names the recorded and the new price.",
    )
    usd_per_hour: float | None = flag(
        None,
        "Price to compute all costs with [USD/h]. With --instance, it is the price of that machine, and replaces the "
        "price in the price file. Without --instance, it is the price of one GPU, or of the whole machine if the "
        "training ran on its CPU.",
    )
    prices: Path | None = flag(
        None,
        "Your own price file, in addition to config/prices.toml. If both files have an entry of the same name, your "
        "entry is used.",
        metavar="FILE",
    )

    def __post_init__(self) -> None:
        """Refuse a price file without an entry to use.

        Raises:
            UserError: If there is one.
        """
        if self.prices is not None and self.instance is None and self.usd_per_hour is None:
            raise UserError(f"--prices {self.prices}: also name an entry of the file with --instance")

    def price(self) -> Price | None:
        """Return the price that replaces the declared prices, if there is one.

        Raises:
            UserError: If there is no such price.
        """
        if self.instance is None and self.usd_per_hour is None:
            return None
        prices = load_price_book(self.prices)
        return resolve_price(self.instance, self.usd_per_hour, prices, today=datetime.date.today())


def runs_flag() -> Any:
    """Declare the names of runs, of type ``tuple[str, ...]``."""
    return flag(
        (),
        "Run id or name of a cohort (default: all runs). The first characters of an id are enough.",
        metavar="RUN",
        positional=True,
    )


def json_flag() -> Any:
    """Declare ``--json``, of type ``str | None``."""
    return flag(None, "Write all results to a JSON file; - means standard output.", metavar="FILE")


@dataclass(frozen=True)
class Selection:
    """A ledger, the runs of it that a user asked about, and their figures."""

    ledger: Ledger
    names: Sequence[str]
    """Run ids, their beginnings, or names of cohorts; empty for all runs."""
    contents: Contents
    price: Price | None
    """Price that replaces the declared prices."""

    @property
    def asked_price(self) -> dict[str, Any] | None:
        """That price as plain JSON values."""
        return None if self.price is None else self.price.to_dict()

    @property
    def status(self) -> int:
        """Exit status of a command: 1 if damaged runs were left out, else 0."""
        return 1 if self.ledger.damage else 0


def select(request: PricedRequest, names: Sequence[str], most: int | None = None) -> Selection:
    """Read a ledger that has at least one run, and summarize the runs that a user asks about.

    Args:
        request: Which ledger, at which price.
        names: Run ids, their beginnings, or names of cohorts; empty for all runs.
        most: Largest number of runs; if there are more, the newest, and standard error says so.

    Raises:
        UserError: If there is no such ledger, run or price, or every run is damaged.
    """
    ledger = whole_ledger(request.log_root)
    found = select_in(ledger, names, request.price(), most)
    tell_damage(found.ledger.damage[len(ledger.damage) :])
    shown, there = len(found.contents.runs), len(selected_runs(found.ledger.runs, names))
    if shown < there:
        make_console(sys.stderr).print(
            f"a report shows {shown} runs, so the {there - shown} oldest of {there} are left out; to show others, "
            "name runs or cohorts: report.py COHORT; --json writes all of them",
            soft_wrap=True,
        )
    return found


def select_in(
    ledger: Ledger, names: Sequence[str] = (), price: Price | None = None, most: int | None = None
) -> Selection:
    """Summarize some runs of a ledger. Those that were removed or changed since it was read count as damaged.

    Args:
        ledger: The ledger.
        names: Run ids, their beginnings, or names of cohorts; empty for all runs.
        price: Price that replaces the declared prices.
        most: Largest number of runs; if there are more, the newest.

    Raises:
        UserError: If there is no such run, or none of them is left.
    """
    runs = selected_runs(ledger.runs, names)[-(most or 0) :]
    chosen, cohorts = {run.run_id for run in runs}, {run.cohort for run in runs} - {None}
    together = [run for run in ledger.runs if run.run_id in chosen or run.cohort in cohorts]
    known: dict[str, RunSummary] = {}
    declared: dict[str, Mapping[str, str]] = {}
    lost: dict[str, LedgerDamageError] = {}
    for run, found in zip(together, summarize_runs(together, price), strict=True):
        if isinstance(found, LedgerDamageError):
            lost[run.run_id] = found
        else:
            known[run.run_id], declared[run.run_id] = found
    if lost and not chosen & known.keys():
        raise next(iter(lost.values()))
    ledger = _without(ledger, lost)
    runs = [run for run in runs if run.run_id in known]
    earlier = EarlierRuns({run.run_id: run for run in ledger.runs}, price)
    together_summarized = summarize_cohorts([*known.values()], ledger.cohorts, earlier, declared)
    ledger = _without(ledger, earlier.damaged)
    return Selection(ledger, names, Contents(runs, [known[run.run_id] for run in runs], together_summarized), price)


def _without(ledger: Ledger, lost: Mapping[str, LedgerDamageError]) -> Ledger:
    """Return a ledger in which runs count as damaged, and not as runs of their cohorts."""
    sound = tuple(run for run in ledger.runs if run.run_id not in lost)
    kept = (tuple(run_id for run_id in cohort.run_ids if run_id not in lost) for cohort in ledger.cohorts)
    cohorts = tuple(replace(cohort, run_ids=ids) for cohort, ids in zip(ledger.cohorts, kept, strict=True))
    return replace(ledger, runs=sound, cohorts=cohorts, damage=(*ledger.damage, *lost.values()))


def whole_ledger(log_root: Path) -> Ledger:
    """Read a ledger that has at least one run.

    Args:
        log_root: Its root.

    Raises:
        UserError: If there is no run, or every run is damaged.
    """
    require_ledger(log_root)
    with telling_damage(), ReadingProgress(make_console(sys.stderr), "reading journals, MB") as progress:
        ledger = read_ledger(log_root, on_progress=progress.show, tolerate_damage=True, listed=True)
        if ledger.damage and not ledger.runs:
            raise ledger.damage[0]
    tell_damage(ledger.damage)
    if not ledger.runs:
        raise UserError(f"no runs under {log_root}: train first, or name another root with --log_root")
    return ledger


def selected_runs(runs: Sequence[Run], names: Sequence[str]) -> list[Run]:
    """Return the runs that a user names.

    Args:
        runs: All runs of a ledger.
        names: Run ids, their beginnings, or names of cohorts; empty for all runs.

    Raises:
        UserError: If a name matches nothing.
    """
    cohorts = {run.cohort for run in runs if run.cohort is not None}
    for name in names:
        if not name:
            raise UserError("'' names no run or cohort: leave it out to show all runs")
        if name not in cohorts and not any(run.run_id.startswith(name) for run in runs):
            raise UserError(f"no run or cohort {name!r}: {nearest(name, {run.run_id for run in runs} | cohorts)}")
    begun = tuple(names) or ("",)
    return [run for run in runs if run.run_id.startswith(begun) or run.cohort in begun]


Summarized = tuple[RunSummary, Mapping[str, str]]
"""Every figure of a run, and the settings that it declared, see :func:`~ledger_lab.ledger.comparability.settings`."""


def summarize_runs(runs: Sequence[Run], price: Price | None = None) -> list[Summarized | LedgerDamageError]:
    """Compute every figure of each run, or tell its damage; many runs are distributed over all cores.

    Args:
        runs: The runs.
        price: Price that replaces the declared prices.
    """
    batches = [runs[start : start + _BATCH] for start in range(0, len(runs), _BATCH)]
    many = len(runs) >= _PARALLEL_FROM
    summarized = map_on_cores(partial(_summarize_batch, price, many), batches, parallel=many)
    return [summary for batch in summarized for summary in batch]


def _summarize_batch(price: Price | None, many: bool, runs: Sequence[Run]) -> list[Summarized | LedgerDamageError]:
    """Compute every figure of a batch of runs, which are read again: they may have changed. Of many, no row is kept."""
    found: list[Summarized | LedgerDamageError] = []
    for each in runs:
        run = copy(each) if many else each
        try:
            found.append((summarize_run(run, price), settings(run.declared)))
        except LedgerDamageError as error:
            found.append(error.with_traceback(None))
    return found
