"""Why a completed run is short of its target, in the words of its cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ledger_lab.ledger import Run, Status, read_ledger
from ledger_lab.reports import summarize_run
from ledger_lab.reports.summary import shortfall, status_cell
from tests.fakes.ledgers import write_run


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
            "the best check is 80.0 % of 10 episodes by model_1.pt → train longer (--max_iterations), or continue from "
            "this checkpoint (--checkpoint)",
        ),
        (
            {"scores": (5, 9), "proof": 8, "target_success": 0.7},
            "the best proof is 80.0 % of 10 episodes by model_2.pt → score a larger panel, or continue from this "
            "checkpoint (--checkpoint)",
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
