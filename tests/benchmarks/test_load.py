"""A ledger stays right under load, and a wrong reading is noticed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.load_readers import Truth, wrong_statuses
from ledger_lab.ledger import Status
from tests.conftest import benchmark


@pytest.mark.thorough  # test_ledger.py kills writers, too
def test_killed_writers_are_lost_and_nothing_durable_is(tmp_path: Path) -> None:
    asked = ["--writers", "8", "--minutes", "0.17", "--kills", "2", "--period_s", "0.1", "--folder", tmp_path]
    finished = benchmark("load", *asked, "--json", tmp_path / "found.json")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    assert (found["killed"], found["durable_lost"], found["troubles"]) == (2, 0, [])
    assert found["statuses"]["lost"] == 2 and sum(found["statuses"].values()) == 8
    assert found["durable_reported"] >= 8 + 2 * 6 and found["rows"] > found["durable_reported"]
    assert {each["program"] for each in found["readings"]} == {"report.py", "verify_ledger.py"}
    assert [path.name for path in tmp_path.iterdir()] == ["found.json"]


def truth(**changes: object) -> Truth:
    """Return the truth about three writers that have begun, with some changes."""
    nothing: dict[str, object] = {"killed": frozenset(), "gone": frozenset(), "ended": {}, "ending": {}}
    return Truth(**{"begun": frozenset({0, 1, 2}), **nothing, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("statuses", "before", "after", "complaints"),
    [
        (["running"] * 3, truth(), truth(), []),
        (["running", "running"], truth(), truth(), ["writer 2 is missing"]),
        (["lost", "running", "running"], truth(), truth(), ["writer 0 is lost, and it was running"]),
        (["lost", "running", "running"], truth(), truth(killed=frozenset({0})), []),
        (["running"] * 3, truth(), truth(killed=frozenset({0})), []),
        (["running"] * 3, truth(gone=frozenset({0})), truth(), ["writer 0 is running, and it was lost"]),
        (
            ["running"] * 3,
            truth(ended={1: Status.CRASHED}),
            truth(),
            ["writer 1 is running, and it was crashed"],
        ),
        (["running", "crashed", "running"], truth(), truth(ending={1: Status.CRASHED}), []),
        (
            ["running", "completed", "running"],
            truth(),
            truth(ending={1: Status.CRASHED}),
            ["writer 1 is completed, and it was crashed or running"],
        ),
    ],
)
def test_a_status_that_was_never_true_is_noticed(
    statuses: list[str], before: Truth, after: Truth, complaints: list[str]
) -> None:
    report = {"runs": [{"seed": seed, "status": status} for seed, status in enumerate(statuses)]}
    assert wrong_statuses(report, before, after) == [f"report.py: {each}" for each in complaints]
