"""Why a completed run is short of its target, in the words of its cell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ledger_lab.ledger import Journal, PanelResult, Run, Status, read_ledger
from ledger_lab.reports import summarize_run
from ledger_lab.reports.checkpoints import BestTry
from ledger_lab.reports.summary import shortfall, status_cell
from tests.fakes.ledgers import result, write_run

MORE_EPISODES = "or score more episodes: a larger panel can prove a rate closer to the target"


def only_run(root: Path) -> Run:
    """Return the only run of a ledger."""
    (run,) = read_ledger(root).runs
    return run


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"scores": ()}, "no policy was scored, so 90 % is not proven → score while training"),
        (
            {"scores": (8, 5)},
            "at best, model_1.pt succeeded in 8 of 10 checked episodes (80.0 %), and none was proven → train "
            "longer (--max_iterations), or continue from this checkpoint (--checkpoint)",
        ),
        (
            {"scores": (5, 9), "proof": 8, "target_success": 0.7},
            "at best, model_2.pt succeeded in 8 of 10 fresh episodes (80.0 %), and 9 were needed → score a larger "
            "panel, or continue from this checkpoint (--checkpoint)",
        ),
        ({"scores": (8, 5), "status": Status.CRASHED}, None),
        ({"scores": (5, 9), "proof": 9, "stop_at_target": False}, None),
    ],
    ids=str,
)
def test_a_completed_run_says_why_it_is_short_of_its_target(
    tmp_path: Path, fields: dict[str, Any], said: str | None
) -> None:
    write_run(tmp_path, "aa", **fields)
    summary = summarize_run(only_run(tmp_path))
    assert shortfall(summary) == said
    if said is not None:
        assert status_cell(summary).details == (said,)


def proof(successes: int, needed: int, extension: int, number: int = 1, checkpoint: int = 2) -> PanelResult:
    """Return one panel of a proof on seeds of its own."""
    row = result("aa", f"model_{checkpoint}.pt", successes, f"p1-{number}-{extension}", purpose="proof")
    seeds = [1000 * number + 100 * extension + seed for seed in row.outcomes.seed]
    return replace(
        row,
        proof=number,
        extension=extension,
        needed=needed,
        outcomes=replace(row.outcomes, seed=seeds),
    )


def test_the_panels_of_an_extended_proof_count_together(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, "aa", scores=(9, 9), status=None)
    rows = [proof(7, 9, 0, 1, 1), proof(8, 10, 0, 2), proof(9, 10, 1, 2)]
    with Journal(run_dir / "journal-more-0.jsonl") as journal:
        for row in rows:
            journal.append(row)
    found = summarize_run(only_run(tmp_path)).best_try
    assert found == BestTry(checkpoint="model_2.pt", purpose="proof", successes=17, episodes=20, needed=18)
