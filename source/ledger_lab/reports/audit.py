"""Finds scores that contradict each other, or the rule of the verdict that their run declared."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isclose
from typing import NamedTuple

import numpy as np

from ledger_lab.ledger import EvaluationStarted, Ledger, PanelResult, Run, RunDeclared
from ledger_lab.ledger.content import JournalContent
from ledger_lab.ledger.encoding import canonical_json
from ledger_lab.ledger.rows import StateRestored
from ledger_lab.panels import RULE_VERSION, VerdictRule
from ledger_lab.panels.carried import left_budget, left_budget_as_pretrained
from ledger_lab.panels.verdict import Standing


@dataclass(frozen=True)
class Contradiction:
    """Two scores that differ although both claim that their episodes repeat bit for bit."""

    text: str
    """The two rows, by file and line number, and their scores."""
    explained_by: str | None
    """What the ledger tells about different code of the two, like ``the source of acme_tasks``; ``None`` if nothing."""


def contradictions(ledger: Ledger) -> Iterator[Contradiction]:
    """Find scores that differ although both claim that their episodes repeat bit for bit.

    Scores are compared if checkpoint, panel id, seeds, device and changed code are the same, and both are valid. A
    score is compared with the first such score.

    Args:
        ledger: The ledger.

    Yields:
        Each pair.
    """
    known: dict[tuple[str, ...], _Score] = {}
    for journal, made_by in _scored(ledger):
        for line, row in _results(journal):
            if row.exactness != "bitwise" or row.invalid is not None:
                continue
            won, code = row.outcomes, made_by.get(row.panel_id, made_by[""])
            found = _Score(
                f"{journal.path}:{line}", won.successes, _sha256([won.success, won.steps, won.ended_by]), code
            )
            seeds, changed = _sha256([won.cell, won.seed]), _sha256(row.changed_code)
            first = known.setdefault((row.checkpoint_sha256, row.panel_id, seeds, row.device, changed), found)
            if first.episodes_sha256 != found.episodes_sha256:
                names = sorted(set(first.made_by) | set(code))
                differing = [name for name in names if first.made_by.get(name) != code.get(name)]
                text = (
                    f"{first.place} and {found.place}: checkpoint {row.checkpoint} ({row.checkpoint_sha256[:12]}…) has "
                    f"{first.successes} and {found.successes} of {won.episodes} successes on panel {row.panel} "
                    f"({row.panel_id[:11]}…), and other episodes, but both rows are bitwise"
                )
                yield Contradiction(text, ", ".join(differing) or None)


def _scored(ledger: Ledger) -> Iterator[tuple[JournalContent, dict[str, dict[str, str]]]]:
    """Yield the journals with scores, each with the code that made them by panel id; under ``""`` for all others."""
    for run in ledger.runs:
        for attempt in run.attempts:
            changes = sorted({reason for row in attempt.of(StateRestored) for reason in row.reasons})
            made_by = _made_by(run.declared) | {f"resumed with {reason}": "" for reason in changes}
            yield from ((journal, {"": made_by}) for journal in attempt.ranks)
        for evaluation in run.evaluations:
            starts = evaluation.of(EvaluationStarted)
            made_by_panel: dict[str, dict[str, str]] = {"": {}} | {start.panel_id: _made_by(start) for start in starts}
            yield from ((journal, made_by_panel) for journal in evaluation.journals)


def _made_by(start: RunDeclared | EvaluationStarted) -> dict[str, str]:
    """Return the hashes and versions of the code that makes scores."""
    sources = {f"the source of {name}": sha256 for name, sha256 in start.code_sha256.items()}
    return sources | {f"the version of {name}": version for name, version in start.versions.items()}


def broken_verdicts(ledger: Ledger) -> Iterator[str]:
    """Apply the rule of the verdict that each run declared to its scores, and find rows that disagree with it.

    A run that began with a checkpoint of another run in the ledger must have begun with the error budget that the other
    run had left.

    Args:
        ledger: The ledger.

    Yields:
        One line per row, with its file and line number; one line per run with another error budget.
    """
    by_id = {run.run_id: run for run in ledger.runs}
    for run in ledger.runs:
        if run.declared.verdict_rule <= RULE_VERSION:
            yield from _broken_budget(run, by_id)
            yield from _broken_verdicts(run)


def unknown_rules(ledger: Ledger) -> list[str]:
    """Return the ids of runs whose rule of the verdict is newer than this version of LedgerLab.

    Args:
        ledger: The ledger.
    """
    return [run.run_id for run in ledger.runs if run.declared.verdict_rule > RULE_VERSION]


class _Score(NamedTuple):
    """A score, and where it is written."""

    place: str
    """File and line number."""
    successes: int
    episodes_sha256: str
    """Hash of how each episode ended."""
    made_by: dict[str, str]
    """Hashes and versions of the code that made it."""


class _Judged(NamedTuple):
    """A panel result of a training, and where it is written."""

    place: str
    row: PanelResult


def _broken_budget(run: Run, by_id: Mapping[str, Run]) -> Iterator[str]:
    """Yield the declaration of a run whose error budget is not what the run of its checkpoint had left.

    Runs of earlier versions always began with a new error budget. The journals of a pretrained policy contain only the
    proof that proved it, and a run that began with such a policy counted no other. If the ledger contains fewer
    panels than the run counted, what the proofs left is unknown.
    """
    began, budget = run.declared.began_from or {}, run.declared.error_budget
    before, panels = by_id.get(began.get("run_id", "")), began.get("proof_panels")
    if before is None or panels is None or before.declared.verdict_rule > RULE_VERSION:
        return
    try:
        left = left_budget(before, panels)
        as_pretrained = left_budget_as_pretrained(before, began.get("sha256", ""))
    except ValueError:
        return  # reported for the other run
    for possible in (left, as_pretrained):
        if possible is not None and possible.panels == panels and isclose(possible.budget, budget, rel_tol=1e-9):
            return
    if left.panels == panels:
        yield (
            f"run {run.run_id} in {run.directory}: declares an error budget of {budget:g}, but run {before.run_id}, "
            f"whose checkpoint it began with, had left {left.budget:g}"
        )


def _broken_verdicts(run: Run) -> Iterator[str]:
    """Yield the scores of a run that disagree with its rule."""
    declared = run.declared
    judged = [
        _Judged(f"{journal.path}:{line}", row)
        for attempt in run.attempts
        for journal in attempt.ranks
        for line, row in _results(journal)
    ]
    if not judged:
        return
    try:
        rule = VerdictRule.of_version(declared.verdict_rule, declared.target_success, declared.error_budget)
    except ValueError:
        yield (
            f"run {declared.run_id} in {run.directory}: no rule of the verdict has a target of "
            f"{declared.target_success:g} and an error budget of {declared.error_budget:g}"
        )
        return
    for place, row in judged:
        needed = rule.check_needs(row.outcomes.episodes)
        if row.purpose == "check" and row.needed != needed:
            yield f"{place}: the check needed {needed} successes by the rule of its run, not {row.needed}"
    proofs = [each for each in judged if each.row.purpose == "proof"]
    yield from _broken_proofs(proofs, rule)


def _broken_proofs(judged: Sequence[_Judged], rule: VerdictRule) -> Iterator[str]:
    """Yield the proofs of a run that disagree with its rule.

    An excerpt leaves out proofs of other checkpoints. What these spent is not known: between nothing and all
    that they could. Then the successes that are needed lie between two numbers.
    """
    most = least = Standing.of(rule.error_budget)  # of what can be left
    last: PanelResult | None = None
    for place, row in sorted(judged, key=lambda each: (each.row.proof or 0, each.row.extension)):
        before = (0, 0) if last is None else (last.proof or 0, last.extension)
        number, extension, episodes = row.proof or 0, row.extension, row.outcomes.episodes
        name = f"proof {number}" + (f", extension {extension}" if extension else "")
        if before == (number, extension):
            yield f"{place}: {name} has a result already: this one is not covered by the error budget"
            continue
        if extension == 0:
            for _ in range(before[0] + 1, number):
                least = replace(rule.begin(least), risk=np.zeros(()))
            most, least = rule.begin(most), rule.begin(least)
        elif (
            last is None
            or before != (number, extension - 1)
            or last.checkpoint_sha256 != row.checkpoint_sha256
            or not rule.goes_on(most)
        ):
            yield f"{place}: {name} does not follow a near miss of its checkpoint: the error budget does not cover it"
            continue
        fewest, highest = int(rule.needs(most, episodes)), int(rule.needs(least, episodes))
        if row.needed is None or not fewest <= row.needed <= highest:
            asked = str(fewest) if fewest == highest else f"{fewest} to {highest}"
            yield f"{place}: {name} needed {asked} of {episodes} successes by the rule of its run, not {row.needed}"
        elif fewest < row.needed:
            most = _lowered(most, rule, row.needed, episodes)
        successes = row.outcomes.successes if row.invalid is None else 0
        most, least = rule.after(most, successes, episodes), rule.after(least, successes, episodes)
        last = row


def _lowered(most: Standing, rule: VerdictRule, needed: int, episodes: int) -> Standing:
    """Return the highest standing with which a panel needs so many successes; by bisection, from below."""

    def lowered(by: float) -> Standing:
        return replace(most, stake=most.stake * by, risk=most.risk * by)

    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rule.needs(lowered(middle), episodes) >= needed else (low, middle)
    return lowered(low)


def _results(journal: JournalContent) -> Iterator[tuple[int, PanelResult]]:
    """Yield the panel results of a journal with their line numbers, one after the other, because they are long."""
    for score in journal.scores:
        yield score.number, journal.result(score)


def _sha256(value: object) -> str:
    """Return the hash of a JSON value."""
    return hashlib.sha256(canonical_json(value)).hexdigest()
