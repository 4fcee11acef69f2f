"""Definitions of words on the page."""

from __future__ import annotations

WORDS = {
    "screening, confirmation": "A checkpoint is screened on the panel of its run, whose seeds stay the same. If it "
    "passes, it is confirmed on fresh seeds. Only the confirmation proves that it reaches the target.",
    "missing run": "A run that was declared with its cohort and never started.",
    "training return": "Mean return of recently ended training episodes, with exploration, noise and curriculum. It "
    "does not prove success.",
    "median [lowest, highest]": "Over the runs of a side, if it has several.",
}
"""Meanings of words that are not titles of columns; a column's meaning is in its declaration."""
