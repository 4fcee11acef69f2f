"""Held-out episodes of every scored policy, as text with one letter per episode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from string import ascii_letters, digits

from ledger_lab.ledger import HORIZON, PanelResult, Run

EPISODES = 2_000_000
"""Limit on the episodes of all sheets together; each takes one byte of the page."""
SUCCESS, SHORT, OTHER = "success", "lasted to the horizon without success", "any other end"
_LETTERS = ascii_letters + digits


@dataclass(frozen=True, kw_only=True)
class PanelEpisodes:
    """A panel's episodes in the order of the letters of its sheets."""

    panel: str
    panel_id: str
    cells: list[str]
    """Cells, in the order of their episodes."""
    counts: list[int]
    """Number of consecutive episodes of each of :attr:`cells`."""
    seeds: list[int]
    """Seed of each episode."""


@dataclass(frozen=True, kw_only=True)
class PolicyOutcomes:
    """Outcomes of a policy's episodes."""

    panel: int
    """Index into :attr:`OutcomeCollection.panels`."""
    checkpoint: str
    letters: str
    """One letter per episode: how it ended."""


@dataclass(frozen=True, kw_only=True)
class OutcomeCollection:
    """All sheets of some runs."""

    panels: list[PanelEpisodes]
    ends: list[str]
    """Meanings of the letters a, b, c, …, in order."""
    sheets: list[list[PolicyOutcomes]]
    """Per run, in the order in which they were scored."""
    left_out: int
    """Sheets left out, to keep the page small."""


def collect_outcomes(runs: Sequence[Run], episodes: int = EPISODES) -> OutcomeCollection:
    """Return the outcomes of every policy that was checked or evaluated.

    Proofs are left out, as their seeds are fresh each time and do not show which seeds are hard. Invalid results
    are left out, too. If there are too many episodes in all, each run keeps its last sheets.

    Args:
        runs: The runs.
        episodes: Largest number of episodes of all sheets together.
    """
    places: dict[tuple[str, tuple[str, ...], tuple[int, ...]], int] = {}
    panels: list[PanelEpisodes] = []
    letters = {SUCCESS: _LETTERS[0], SHORT: _LETTERS[1]}
    sheets: list[list[PolicyOutcomes]] = []
    for run in runs:
        own = []
        for row in _scored(run):
            outcomes = row.outcomes
            key = (row.panel_id, tuple(outcomes.cell), tuple(outcomes.seed))
            if key not in places:
                places[key] = len(panels)
                panels.append(_panel_episodes(row))
            text = "".join(
                _letter(ok, end, letters) for ok, end in zip(outcomes.success, outcomes.ended_by, strict=True)
            )
            own.append(PolicyOutcomes(panel=places[key], checkpoint=row.checkpoint, letters=text))
        sheets.append(own)
    total = sum(len(sheet.letters) for own in sheets for sheet in own)
    share = min(1.0, episodes / max(1, total))
    kept = [own[-max(1, int(share * len(own))) :] for own in sheets]
    left_out = sum(map(len, sheets)) - sum(map(len, kept))
    return OutcomeCollection(panels=panels, ends=[*letters], sheets=kept, left_out=left_out)


def _scored(run: Run) -> list[PanelResult]:
    """Return the first valid score of each policy on each panel."""
    first: dict[tuple[str, str], PanelResult] = {}
    for row in run.results:
        if row.purpose != "proof" and row.invalid is None:
            first.setdefault((row.panel_id, row.checkpoint), row)
    return list(first.values())


def _panel_episodes(row: PanelResult) -> PanelEpisodes:
    """Describe the episodes of a score."""
    groups = [(cell, len(list(own))) for cell, own in groupby(row.outcomes.cell)]
    return PanelEpisodes(
        panel=row.panel,
        panel_id=row.panel_id,
        cells=[cell for cell, _ in groups],
        counts=[count for _, count in groups],
        seeds=list(row.outcomes.seed),
    )


def _letter(success: bool, ended_by: str, letters: dict[str, str]) -> str:
    """Return the letter of an outcome; a new kind of end gets the next free letter, if there is one."""
    if success:
        return letters[SUCCESS]
    end = SHORT if ended_by == HORIZON else ended_by
    if end in (SUCCESS, OTHER):
        end = f"{end} (termination)"
    if end not in letters:
        end = end if len(letters) < len(_LETTERS) - 1 else OTHER
        letters.setdefault(end, _LETTERS[len(letters)])
    return letters[end]
