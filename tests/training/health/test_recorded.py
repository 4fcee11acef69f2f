"""The detectors over figures of real trainings: good trainings, and trainings that were broken on purpose."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ledger_lab.training.health import Event, Iteration
from tests.fakes.trainings import told

RECORDED = json.loads(Path(__file__).with_name("recorded.json").read_text())


@pytest.mark.parametrize(
    ("name", "events"),
    [
        ("cartpole", []),
        ("ant", []),
        ("entropy_collapse", [Event.ENTROPY_COLLAPSE, Event.GRADIENT_SPIKES, Event.KL_OUT_OF_RANGE]),
        ("value_loss_explosion", [Event.VALUE_LOSS_EXPLOSION]),
    ],
)
def test_recorded_trainings_give_the_expected_events(name: str, events: list[Event]) -> None:
    stream = (
        Iteration(iterations=n, env_steps=1, figures=figures, phase_ns={})
        for n, figures in enumerate(RECORDED[name]["figures"], start=1)
    )
    assert [event for _, event in told(stream)] == events
