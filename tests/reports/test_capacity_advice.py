"""Capacities that are much larger than needed are advised against, with a predicted gain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ledger_lab.ledger import AttemptStarted, CapacityUsed, Journal, Status, read_ledger
from ledger_lab.reports import Advice, find_bottlenecks, summarize_run
from ledger_lab.reports.capacity_advice import enough_rows
from ledger_lab.reports.load import RoomSummary
from tests.fakes.ledgers import SECOND, write_run


def advised(root: Path, needed: int = 2, capacity: int = 300, **changes: Any) -> list[Advice]:
    """Return the advice on capacities of a run whose physics took 2 of its 9 seconds."""
    run_dir = write_run(root, "aa", status=Status.TARGET_REACHED, held_out_slots=0, world_size=2, **changes)
    with Journal(run_dir / "journal-1-1.jsonl") as journal:
        journal.append(AttemptStarted(run_id="aa", attempt=1, rank=1, pid=2**22 + 1, host="there", wall_ns=1))
        journal.append(
            CapacityUsed(
                constraints=needed, constraint_capacity=capacity, contacts=5, contact_capacity=100, slots=10,
                wall_ns=SECOND,
            )
        )  # fmt: skip
    (run,) = read_ledger(root).runs
    found = find_bottlenecks([run], [summarize_run(run)])["aa"].advice
    assert [each.gain for each in found] == sorted((each.gain for each in found), reverse=True)
    return [each for each in found if "constraint rows" in each.action]


def test_room_for_many_more_rows_than_needed_is_told_with_the_override_and_the_gain(tmp_path: Path) -> None:
    fields = {"physics": {"settings": {"solver_cfg": {"njmax": 300}}}}
    (advice,) = advised(tmp_path, panel_fields=fields)
    assert advice.action == "reserve 6 constraint rows instead of 300: env.sim.physics.solver_cfg.njmax=6"
    saved = 0.001 * 294 / (1 + 0.001 * 300)
    assert advice.gain == pytest.approx(saved * 2 / 9)
    assert "predicted from a time of 0.1 % of the physics per unused row" in advice.basis
    assert "an environment needed 2 rows at most" in advice.basis and "23 % of 2.0 s of physics" in advice.basis
    assert advice.caveat is not None and advice.caveat.startswith("the panel id changes")
    assert "makes its scores invalid" in advice.caveat


def test_an_identity_without_the_capacity_does_not_change(tmp_path: Path) -> None:
    (advice,) = advised(tmp_path)
    assert advice.caveat == "a policy that needs more rows makes its scores invalid"


@pytest.mark.parametrize(
    "changes",
    [
        {"capacity": 11},  # less than twice of what is advised
        {"needed": 120},
        {"physics": "ovphysx"},
        {"physics": "newton/kamino"},
        {"device": "cuda:0"},  # the cost of a row has not been measured there
    ],
)
def test_no_advice_where_the_room_is_needed_or_its_cost_unknown(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert advised(tmp_path, **changes) == []


def test_a_run_that_watched_no_capacity_gets_no_advice(tmp_path: Path) -> None:
    write_run(tmp_path, "aa")
    (run,) = read_ledger(tmp_path).runs
    actions = [each.action for each in find_bottlenecks([run], [summarize_run(run)])["aa"].advice]
    assert not any("constraint rows" in action for action in actions)


@pytest.mark.parametrize(("needed", "enough"), [(0, 4), (2, 6), (8, 12), (19, 29), (100, 150)])
def test_the_margin_leaves_spare_rows(needed: int, enough: int) -> None:
    room = RoomSummary(constraints=needed, constraint_capacity=300, contacts_per_env=0.0, contact_capacity_per_env=1.0)
    assert enough_rows(room) == enough
