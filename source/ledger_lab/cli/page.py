"""``scripts/report.py --html``: the page as a file."""

from __future__ import annotations

import sys
from pathlib import Path

from ledger_lab.cli.report_request import ReportRequest
from ledger_lab.ledger import Ledger
from ledger_lab.ledger.costs import Price
from ledger_lab.reports.contents import Contents
from ledger_lab.reports.page import write_page
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.progress import ReadingProgress


def draw_page(request: ReportRequest, file: Path, ledger: Ledger, contents: Contents, price: Price | None) -> None:
    """Write the page.

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
