"""The report that ``train.py`` ends with: six lines in the terminal, and a page in the run's directory.

It is made from the ledger after the last row of the attempt, so it is not part of the run's time and cost. It imports
neither torch nor Isaac Lab.
"""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console

from ledger_lab.errors import UserError
from ledger_lab.files import whole_file
from ledger_lab.ledger import Ledger, Run, ShutdownEnded, read_ledger
from ledger_lab.reports import summarize_run
from ledger_lab.reports.answer import PAGE, answer_lines, notes
from ledger_lab.reports.page.document import finished_page
from ledger_lab.reports.selection import select_in
from ledger_lab.reports.terminal.console import make_lossy_console, tell_error

_OTHERS_S = 5.0
"""How long the report waits for the last rows of other ranks [s]: until then, the time that is billed still grows."""

_LOOK_AGAIN_S = 0.1


def print_final_report(run_dir: Path) -> None:
    """Read a run, write its page into its directory, and print its report on standard output, if this is possible.

    Call this when the supervisor of this process has written its last row.

    Args:
        run_dir: The run's directory.
    """
    console = make_lossy_console()
    try:
        ledger = _ended_run(run_dir)
        try:
            _write_page(ledger, run_dir / PAGE)
        except UserError as error:
            console.print(f"the page of the run is missing: {error}", soft_wrap=True)
        show_final_report(ledger.runs[0], console)
    except (OSError, UserError) as error:
        tell_error(error, console)
    finally:
        console.file.close()


def _write_page(ledger: Ledger, path: Path) -> None:
    """Write the page of a run. No link is followed: others may have put one into the run's directory."""
    page = finished_page(select_in(ledger))
    try:
        with whole_file(path, root=path.parent) as unfinished:
            unfinished.write_bytes(page)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error


def _ended_run(run_dir: Path) -> Ledger:
    """Read a run when all supervisors of its last attempt have written their last rows, but do not wait long."""
    until_s = time.monotonic() + _OTHERS_S
    while True:
        ledger = read_ledger(run_dir)
        (run,) = ledger.runs
        ended = all(journal.of(ShutdownEnded) for journal in run.attempts[-1].supervisions)
        if ended or time.monotonic() > until_s:
            return ledger
        time.sleep(_LOOK_AGAIN_S)


def show_final_report(run: Run, console: Console) -> None:
    """Print what must be known about a run, and its answer in six lines.

    Args:
        run: The run, without the other runs of its cohort.
        console: Where to print.
    """
    summary = summarize_run(run)
    console.print(*notes(summary), *answer_lines(run, summary, console.width), sep="\n", soft_wrap=True)
