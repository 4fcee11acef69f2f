"""The report that ``train.py`` ends with. It is made from the ledger, and neither torch nor Isaac Lab is imported."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console

from ledger_lab.errors import UserError
from ledger_lab.ledger import Run, ShutdownEnded, read_ledger
from ledger_lab.reports import summarize_run
from ledger_lab.reports.answer import answer_lines, notes
from ledger_lab.reports.terminal.console import make_lossy_console, tell_error

_OTHERS_S = 5.0
"""How long the report waits for the last rows of other ranks [s]: until then, the time that is billed still grows."""

_LOOK_AGAIN_S = 0.1


def print_final_report(run_dir: Path) -> None:
    """Read a run from its directory, and print its report on standard output, as far as this is still possible.

    Call this when the supervisor of this process has written its last row.

    Args:
        run_dir: The run's directory.
    """
    console = make_lossy_console()
    try:
        show_final_report(_ended_run(run_dir), console)
    except (OSError, UserError) as error:
        tell_error(error, console)
    finally:
        console.file.close()


def _ended_run(run_dir: Path) -> Run:
    """Read a run when all supervisors of its last attempt have written their last rows, but do not wait long."""
    until_s = time.monotonic() + _OTHERS_S
    while True:
        (run,) = read_ledger(run_dir).runs
        ended = all(journal.of(ShutdownEnded) for journal in run.attempts[-1].supervisions)
        if ended or time.monotonic() > until_s:
            return run
        time.sleep(_LOOK_AGAIN_S)


def show_final_report(run: Run, console: Console) -> None:
    """Print what must be known about a run, and its answer in six lines.

    Args:
        run: The run, without the other runs of its cohort.
        console: Where to print.
    """
    summary = summarize_run(run)
    console.print(*notes(summary), *answer_lines(run, summary, console.width), sep="\n", soft_wrap=True)
