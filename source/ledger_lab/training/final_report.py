"""The report that ``train.py`` ends with. It is made from the ledger, and neither torch nor Isaac Lab is imported."""

from __future__ import annotations

import shlex
import time
from pathlib import Path

from rich.console import Console

from ledger_lab.errors import UserError
from ledger_lab.ledger import Run, ShutdownEnded, read_ledger
from ledger_lab.names import as_started
from ledger_lab.reports import render_report, summarize_run
from ledger_lab.reports.terminal.console import make_lossy_console, tell_error
from ledger_lab.units import duration

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
    """Print a run's table, and the checkpoint that reached the target.

    Args:
        run: The run, without the other runs of its cohort.
        console: Where to print.
    """
    summary = summarize_run(run)
    console.print(render_report([summary], [], console.width))  # the other runs of its cohort were not read
    first = summary.proven
    if first is not None:
        console.print(
            f"target reached: {first.path} after {first.iteration} iterations, proven at "
            f"{duration(summary.wall_to_target_s)} by {summary.heldout_successes} of {summary.heldout_episodes} fresh "
            "episodes",
            as_started(
                f"watch it: ./isaaclab.sh -p scripts/play.py {shlex.quote(str(run.directory / first.path))} --video "
                "--viz newton_gl"
            ),
            sep="\n",
            style="green",
            soft_wrap=True,
        )
