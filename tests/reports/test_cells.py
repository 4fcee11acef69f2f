"""Why a completed run is short of its target, in the words of its cell."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from ledger_lab.ledger import Journal, PanelResult, Run, Status, read_ledger
from ledger_lab.reports import render_report, summarize_cohorts, summarize_run
from ledger_lab.reports.checkpoints import BestTry
from ledger_lab.reports.summary import shortfall, status_cell
from tests.fakes.ledgers import result, write_run

MORE_EPISODES = "or score more episodes: a larger panel can prove a rate closer to the target"


def only_run(root: Path) -> Run:
    """Return the only run of a ledger."""
    (run,) = read_ledger(root).runs
    return run


def test_without_a_confirmation_the_best_screening_is_named(tmp_path: Path) -> None:
    write_run(tmp_path, "aa", scores=(8, 5))
    summary = summarize_run(only_run(tmp_path))
    assert summary.best_try == BestTry(checkpoint="model_1.pt", purpose="screening", successes=8, episodes=10, needed=9)
    assert shortfall(summary) == (
        "no checkpoint passed a screening; at best, model_1.pt succeeded in 8 of 10 (80.0 %), and 9 were needed → "
        "train longer (--max_iterations), or continue from this checkpoint (--checkpoint)"
    )


def test_a_confirmation_above_the_target_that_proved_nothing_names_what_it_needed(tmp_path: Path) -> None:
    write_run(tmp_path, "aa", scores=(5, 9), confirmation=8, target_success=0.7)
    summary = summarize_run(only_run(tmp_path))
    assert shortfall(summary) == (
        "in the best confirmation, model_2.pt succeeded in 8 of 10 fresh episodes (80.0 %), and 9 were needed to prove "
        f"70 % → continue from this checkpoint (--checkpoint), {MORE_EPISODES}"
    )


def confirmation(successes: int, needed: int, extension: int, number: int = 1, checkpoint: int = 2) -> PanelResult:
    """Return one panel of a confirmation on seeds of its own."""
    row = result("aa", f"model_{checkpoint}.pt", successes, f"p1-{number}-{extension}", purpose="confirmation")
    seeds = [1000 * number + 100 * extension + seed for seed in row.outcomes.seed]
    return replace(
        row,
        confirmation=number,
        extension=extension,
        needed=needed,
        outcomes=replace(row.outcomes, seed=seeds),
    )


def test_the_panels_of_an_extended_confirmation_count_together(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, "aa", scores=(9, 9), status=None)
    rows = [confirmation(7, 9, 0, 1, 1), confirmation(8, 10, 0, 2), confirmation(9, 10, 1, 2)]
    with Journal(run_dir / "journal-more-0.jsonl") as journal:
        for row in rows:
            journal.append(row)
    found = summarize_run(only_run(tmp_path)).best_try
    assert found == BestTry(checkpoint="model_2.pt", purpose="confirmation", successes=17, episodes=20, needed=18)


@pytest.mark.parametrize("status", [Status.CRASHED, Status.INTERRUPTED, Status.TARGET_REACHED, Status.INVALID])
def test_other_ends_have_their_own_words(tmp_path: Path, status: Status) -> None:
    write_run(tmp_path, "aa", scores=(8, 5), status=status)
    assert shortfall(summarize_run(only_run(tmp_path))) is None


def test_a_proven_run_is_not_short(tmp_path: Path) -> None:
    write_run(tmp_path, "aa", scores=(5, 9), confirmation=9, stop_at_target=False)
    summary = summarize_run(only_run(tmp_path))
    assert (summary.target_reached, summary.best_try, shortfall(summary)) == (True, None, None)


def test_a_run_that_scored_nothing_says_so(tmp_path: Path) -> None:
    write_run(tmp_path, "aa", scores=())
    assert shortfall(summarize_run(only_run(tmp_path))) == (
        "no policy was scored during the training, so 90 % is not proven → score policies while training"
    )


def test_a_screening_that_passed_is_no_proof(tmp_path: Path) -> None:
    write_run(tmp_path, "aa", scores=(5, 9))
    assert shortfall(summarize_run(only_run(tmp_path))) == (
        "model_2.pt succeeded in 9 of 10 screened episodes (90.0 %), which proves nothing → confirm it on fresh seeds"
    )


def test_terminal_and_page_show_it(tmp_path: Path) -> None:
    write_run(tmp_path, "aa", scores=(8, 5))
    summary = summarize_run(only_run(tmp_path))
    out = StringIO()
    Console(file=out, width=400).print(render_report([summary], summarize_cohorts([summary]), 400))
    words = shortfall(summary)
    assert words is not None and f"\naa {words}\n" in out.getvalue()
    assert status_cell(summary).details == (words,)
