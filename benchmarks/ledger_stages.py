"""Processor time of the stages of a report, for ``python -m benchmarks ledger``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

from ledger_lab.ledger import read_ledger
from ledger_lab.ledger.cores import no_collection
from ledger_lab.reports import render_report
from ledger_lab.reports.selection import SHOWN_RUNS, select_in
from ledger_lab.reports.terminal.console import make_console

STAGES = ("read", "summarize", "render")
"""Stages of a report: read and verify all journals, and build the runs; compute the figures of the runs that are shown;
and draw them."""


def measure_stages(root: Path) -> dict[str, float]:
    """Measure a report in a fresh process.

    Args:
        root: Root of the ledger.

    Returns:
        Processor seconds of each of the :data:`STAGES`, child processes included [s].
    """
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(_measure, root).result()


@no_collection()
def _measure(root: Path) -> dict[str, float]:
    """Go through the stages of a report."""
    spent_s: dict[str, float] = {}

    @contextmanager
    def stage(name: str) -> Iterator[None]:
        began_s = _processor_s()
        yield
        spent_s[name] = _processor_s() - began_s

    with stage("read"):
        ledger = read_ledger(root, listed=True)
    with stage("summarize"):
        contents = select_in(ledger, most=SHOWN_RUNS).contents
    with stage("render"), Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        console = make_console(nowhere)
        console.print(render_report(contents.summaries, contents.cohorts, console.width))
    return spent_s


def _processor_s() -> float:
    """Return the processor time of this process and its ended children [s]."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
