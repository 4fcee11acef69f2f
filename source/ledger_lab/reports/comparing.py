"""Compares two runs or two cohorts, and shows the finding."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from ledger_lab.errors import UserError
from ledger_lab.ledger import Run
from ledger_lab.ledger.costs import FEWEST_RUNS, Price
from ledger_lab.reports import render_repricing, summarize_run
from ledger_lab.reports.cells import NO_INTERVAL
from ledger_lab.reports.compare import (
    CorrectedTests,
    FinalPolicies,
    Finding,
    RatioEstimate,
    Side,
    compare,
    refusals,
    select_side,
)
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.units import duration, usd


@dataclass(frozen=True)
class RunComparison:
    """Two sides, and the finding about them."""

    sides: tuple[Side, Side]
    finding: Finding
    asked: Price | None
    """Price that replaces the declared prices; ``None`` to keep them."""


def compare_runs(
    a: str, b: str, runs: Sequence[Run], price: Price | None, declared_sizes: Mapping[str, int] | None = None
) -> RunComparison:
    """Compare two sides.

    Args:
        a: A cohort, a run id, or the beginning of one.
        b: A cohort, a run id, or the beginning of one.
        runs: All runs of the ledger.
        price: Price that replaces the declared prices.
        declared_sizes: Declared sizes of cohorts, by their names.

    Returns:
        The comparison.

    Raises:
        UserError: If a name matches nothing, or the sides do not measure the same thing. In the latter case, each
            differing field is printed to standard error first.
    """
    side_a, side_b = (select_side(name, runs, lambda run: summarize_run(run, price), declared_sizes) for name in (a, b))
    differences = refusals(side_a, side_b)
    if differences:
        make_console(sys.stderr).print(*map(str, differences), sep="\n", soft_wrap=True)
        count = f"{len(differences)} field{'s' if len(differences) != 1 else ''}"
        raise UserError(
            f"{a} and {b} do not measure the same thing: the {count} above differ, and must be the same in all runs"
        )
    return RunComparison((side_a, side_b), compare(side_a, side_b, priced_alike=price is not None), price)


def comparison_json(comparison: RunComparison) -> dict[str, Any]:
    """Return a comparison as plain JSON values, with its sentences."""
    finding, asked = comparison.finding, comparison.asked
    words = {"verdict": finding_sentence(finding), "notes": finding_notes(finding)}
    prices = {
        "asked_price": None if asked is None else asked.to_dict(),
        "declared_prices": {s.run_id: s.declared_price for side in comparison.sides for s in side.summaries},
    }
    return {**finding.to_json(), **prices, **words}


def show_comparison(comparison: RunComparison, corrected: CorrectedTests | None = None) -> None:
    """Print a finding: its sentence, its notes, every run, and other differences between the sides.

    Args:
        comparison: The comparison.
        corrected: Its p-values, corrected for the number of tests, if it is one of several comparisons.
    """
    console, finding = make_console(), comparison.finding
    if comparison.asked is not None:
        summaries = [summary for side in comparison.sides for summary in side.summaries]
        console.print(render_repricing(comparison.asked, summaries))
    console.print(f"A = {finding.a} · B = {finding.b}", soft_wrap=True)
    console.print(finding_sentence(finding, corrected), style="bold", soft_wrap=True)
    console.print(*(f"  {note}" for note in finding_notes(finding, corrected)), sep="\n", soft_wrap=True)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("side", "run", "seed", "to target", "spend"):
        table.add_column(name, justify="left" if name in ("side", "run") else "right", no_wrap=True)
    for line in outcome_lines(finding):
        table.add_row(*line)
    console.print(table)
    if finding.differs:
        console.print("What else differs, and may be why:")
    console.print(*(f"  {difference}" for difference in finding.differs), sep="\n", soft_wrap=True)


def finding_sentence(finding: Finding, corrected: CorrectedTests | None = None) -> str:
    """Return the finding as one sentence.

    The sentence says if a difference may be chance, and if a ratio is only a bound. With few runs on a side, while
    declared runs are missing, and with an uneven mix of versions of the code, it claims nothing beyond the runs
    compared; as one of several comparisons, it then claims nothing at all.

    Args:
        finding: The finding.
        corrected: Its p-values, corrected for the number of tests, if it is one of several comparisons.
    """
    count = f"n = {finding.n_a} each" if finding.n_a == finding.n_b else f"n = {finding.n_a} (A) and {finding.n_b} (B)"
    lacking = _lacking(finding)
    if corrected is not None and lacking:
        return f"no claim about a difference; {count}, and {lacking}"
    p_values = corrected or CorrectedTests(time=finding.time_p_value, cost=finding.cost_p_value, tests=1)
    several = min(finding.n_a, finding.n_b) > 1
    clauses = [
        clause
        for clause in (
            _clause(finding.time, p_values.time_words, "reaches the target", "sooner", "time to target", several),
            _clause(finding.cost, p_values.cost_words, "is", "cheaper", "cost", several),
        )
        if clause
    ]
    if not clauses:
        return f"no claim; {count}"
    text = _join(clauses)
    if not several:
        return f"{text}; {count}: no interval, and no claim beyond these runs"
    if lacking:
        return f"{text}; {count}: no claim beyond these runs, because {lacking}"
    return f"{text}; {count}"


def finding_notes(finding: Finding, corrected: CorrectedTests | None = None) -> list[str]:
    """Return the facts behind the finding (pairing, method, missing runs), one line each.

    Args:
        finding: The finding.
        corrected: Its p-values, corrected for the number of tests, if it is one of several comparisons.
    """
    notes = [finding.pairing]
    if corrected is not None and _lacking(finding):
        return [*notes, *_side_notes(finding)]
    if finding.time.interval is not None:
        notes.append(
            "time to target: ratio of the geometric means; in brackets a 95 % interval by Student's t distribution"
        )
    elif finding.time.ratio is not None and min(finding.n_a, finding.n_b) > 1:
        notes.append(f"time to target: ratio of the geometric means; {NO_INTERVAL} on a side")
    if finding.cost.interval is not None:
        notes.append(
            "cost: ratio of the costs per target-reaching checkpoint; in brackets a 95 % interval that also accounts "
            "for the chance of failures"
        )
    elif finding.cost.ratio is not None and min(finding.n_a, finding.n_b) > 1:
        notes.append(f"cost: ratio of the costs per target-reaching checkpoint; {NO_INTERVAL} on a side")
    for name, estimate in (("time to target", finding.time), ("cost", finding.cost)):
        if estimate.refusal:
            notes.append(f"no claim about the {name}: {estimate.refusal}")
        elif not _decided(estimate):
            notes.append(f"no claim about the {name}: it can only be said that A ÷ B is {_bound_words(estimate)}")
    for test, p_value, of_all in (
        ("log-rank test of the times to target", finding.time_p_value, corrected and corrected.time),
        ("permutation test of the cost", finding.cost_p_value, corrected and corrected.cost),
    ):
        if p_value is not None:
            also = f"; {of_all:.2g} with Holm's correction for {corrected.tests} tests" if corrected and of_all else ""
            notes.append(f"{test}: p = {p_value:.2g}, by permutation of the runs{also}")
    notes += _side_notes(finding)
    if finding.success is not None:
        command = shlex.join(["evaluate.py", finding.outcomes_a[0].run_id, "--versus", finding.outcomes_b[0].run_id])
        notes.append(_success_note(finding.success, command))
    return notes


def outcome_lines(finding: Finding) -> list[tuple[str, str, str, str, str]]:
    """Return side, run, seed, time to target and spend of every run, as texts."""
    return [
        (
            side,
            outcome.run_id,
            str(outcome.seed),
            ("" if outcome.reached_target else "> ") + duration(outcome.seconds),
            "unpriced" if outcome.usd is None else usd(outcome.usd),
        )
        for side, outcomes in (("A", finding.outcomes_a), ("B", finding.outcomes_b))
        for outcome in outcomes
    ]


def _lacking(finding: Finding) -> str | None:
    """Return what a claim beyond the runs lacks; ``None`` if nothing."""
    if min(finding.n_a, finding.n_b) < FEWEST_RUNS:
        return f"each side needs at least {FEWEST_RUNS} runs"
    if finding.mixes_code:
        return "several versions of the code trained them, in unequal shares: compare runs of one version"
    if missing := finding.missing_a + finding.missing_b:
        return f"{missing} declared run{'s are' if missing > 1 else ' is'} missing"
    return None


def _side_notes(finding: Finding) -> list[str]:
    """Return how many runs of each side reached the target, and how many are missing."""
    notes = []
    for side, n, reached, missing, repeated in (
        ("A", finding.n_a, finding.reached_a, finding.missing_a, finding.repeated_a),
        ("B", finding.n_b, finding.reached_b, finding.missing_b, finding.repeated_b),
    ):
        lost = f"; {missing} declared runs are missing, and are in no figure" if missing else ""
        lost += f"; further runs of the same trainings: {repeated} (only their cost counts)" if repeated else ""
        notes.append(f"{side}: {reached} of {n} runs reached the target{lost}")
    unplanned = [side for side, runs in (("A", finding.unplanned_a), ("B", finding.unplanned_b)) if runs]
    if unplanned and _lacking(finding) is None:
        notes.append(
            f"the number of runs of {' and '.join(unplanned)} was not declared in advance (--cohort_size): if you add "
            "runs until a difference shows, its p-value is too small"
        )
    return notes


def _success_note(success: FinalPolicies, command: str) -> str:
    """Return what the ledger says about the success of two final policies.

    Args:
        success: The comparison of the policies.
        command: The command that compares them on fresh episodes.
    """
    if success.paired is not None:
        found = success.paired
        return (
            f"success of B − A: {found.points}, p = {found.p_text} (exact McNemar test), {found.episodes} fresh "
            f"episodes that {success.first} (A) and {success.second} (B) both played"
        )
    if success.confirmed is not None:
        both, better = success.confirmed, "the same fresh episodes, with a narrower interval"
        said = (
            f"success of B − A: {both.points} if both reach their targets, by the confirmations of {success.first} (A, "
            f"{both.first.successes} of {both.first.episodes}) and {success.second} (B, {both.second.successes} of "
            f"{both.second.episodes})"
        )
    else:
        better = "fresh episodes"
        said = (
            f"no claim about the success of {success.first} (A) and {success.second} (B): the runs selected them on "
            "the seeds of their screenings"
        )
    return f"{said}; {command} compares them on {better}" if success.loadable else said


def _clause(
    estimate: RatioEstimate, may_be_chance: str | None, verb: str, better: str, what: str, several: bool
) -> tuple[str, str, str] | None:
    """Return the better side, the verb, and the ratio in words; ``None`` if nothing can be claimed.

    Args:
        estimate: The ratio.
        may_be_chance: Why the test shows no difference; ``None`` if it shows one, or there is no test.
        verb: What the better side does.
        better: In which way it is better.
        what: The compared figure.
        several: Whether both sides have several runs.
    """
    if estimate.ratio is None or not _decided(estimate):
        return None
    ratio = estimate.ratio
    low, high = _span(estimate)
    winner = "B"
    if ratio < 1:
        winner, ratio = "A", 1 / ratio
        low, high = 1 / high, (1 / low if low else math.inf)
    text = f"{'' if estimate.bound == 'exact' else 'at least '}{_times(ratio)} ×"
    if estimate.interval is not None:
        text += f" [{_times(low)}, {_times(high)}{')' if math.isinf(high) else ']'}"
    text += f" {better}"
    if several and estimate.interval is None:
        text += f" ({NO_INTERVAL})"
    if _includes_1(estimate):
        may_be_chance = "the interval includes 1"
    if may_be_chance is not None:
        text += f" (no difference in {what} shown: {may_be_chance})"
    return winner, verb, text


def _includes_1(estimate: RatioEstimate) -> bool:
    """Whether a ratio has an interval that reaches from the ratio to 1 or beyond, so that no difference is shown."""
    if estimate.ratio is None or estimate.interval is None:
        return False
    low, high = _span(estimate)
    return high >= 1 if estimate.ratio < 1 else low <= 1


def _decided(estimate: RatioEstimate) -> bool:
    """Whether an estimate shows which side is better: an exact ratio always does, a bound only beyond 1."""
    if estimate.ratio is None:
        return False
    low, high = _span(estimate)
    return estimate.bound == "exact" or (low > 1 if estimate.bound == "at_least" else high < 1)


def _span(estimate: RatioEstimate) -> tuple[float, float]:
    """Return the ends of the interval; without one, the ratio itself."""
    low, high = estimate.interval or (estimate.ratio, estimate.ratio)
    return low or 0.0, math.inf if high is None else high


def _bound_words(estimate: RatioEstimate) -> str:
    """Return in words a bound that does not show which side is better."""
    low, high = _span(estimate)
    return f"at least {_times(low)}" if estimate.bound == "at_least" else f"at most {_times(high)}"


def _join(clauses: list[tuple[str, str, str]]) -> str:
    """Make one sentence of all clauses."""
    (winner, verb, what), *rest = clauses
    text = f"{winner} {verb} {what}"
    for other, other_verb, other_what in rest:
        text += f" and {other_what}" if other == winner else f", but {other} {other_verb} {other_what}"
    return text


def _times(ratio: float) -> str:
    """Return a ratio with two significant digits, three near 1."""
    if math.isinf(ratio):
        return "∞"
    return f"{ratio:.2f}" if ratio < 1.1 else f"{ratio:.1f}" if ratio < 10 else f"{ratio:.0f}"
