"""A score is compared with those that the run recorded on the same panel."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ledger_lab.ledger import PanelResult
from ledger_lab.ledger.meters.host import hardware_facts, package_versions
from ledger_lab.training.evaluation.recorded_scores import compared_with_record
from tests.fakes.ledgers import result

STARTS = {"joint_position of 'robot'": "00", "command 'goal'": "11"}


def recorded(row: PanelResult, **declared: Any) -> Any:
    """Return a run that recorded a score."""
    facts = {"code_sha256": {"acme": "1"}, "versions": package_versions(), "hardware": hardware_facts()}
    attempt = SimpleNamespace(of=lambda kind: [row])
    return SimpleNamespace(attempts=[attempt], declared=SimpleNamespace(**{**facts, **declared}))


@pytest.fixture
def row() -> PanelResult:
    return replace(result("aa", "model_1.pt", 5), starts=STARTS, exactness="bitwise", invalid=None)


def other_episode(row: PanelResult) -> PanelResult:
    """Return the score with another second episode."""
    first, _, *rest = row.outcomes.fingerprint
    return replace(row, outcomes=replace(row.outcomes, fingerprint=[first, "another", *rest]))


def test_other_starts_are_invalid_by_the_quantity_for_any_checkpoint(row: PanelResult) -> None:
    now = replace(row, checkpoint_sha256="22", starts={**STARTS, "command 'goal'": "12"})
    found, note = compared_with_record(now, recorded(row), {"acme": "1"})
    assert found.invalid is not None and "start differently" in found.invalid and "command 'goal'" in found.invalid
    assert note is None


def test_other_episodes_of_the_same_checkpoint_are_invalid_by_the_first(row: PanelResult) -> None:
    found, _ = compared_with_record(other_episode(row), recorded(row), {"acme": "1"})
    assert found.invalid is not None and f"1 of {row.outcomes.episodes} episodes" in found.invalid
    assert f"seed {row.outcomes.seed[1]}" in found.invalid


@pytest.mark.parametrize(
    ("declared", "cause"),
    [
        ({"code_sha256": {"acme": "2"}}, "the source of acme"),
        ({"hardware": {"cpu": "another"}}, "the processor"),
        ({"versions": {}}, "the version of"),
    ],
)
def test_a_difference_that_other_circumstances_explain_is_noted(
    row: PanelResult, declared: dict[str, Any], cause: str
) -> None:
    found, note = compared_with_record(other_episode(row), recorded(row, **declared), {"acme": "1"})
    assert found.invalid is None
    assert note is not None and cause in note
