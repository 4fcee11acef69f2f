"""Durations on the command line."""

from __future__ import annotations

import argparse

import pytest

from ledger_lab.reports.terminal.durations import parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90m", 5400), ("2h", 7200), ("1h30m", 5400), ("1.5h", 5400), ("45s", 45), ("2min", 120), ("1d", 86400)],
)
def test_durations_have_units(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "2", "h", "-2h", "0h", "2 h", "2h!", "inf", "9" * 400 + "h", "2hours", "٢h"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is no duration: write for example 90m"):
        parse_duration(text)
