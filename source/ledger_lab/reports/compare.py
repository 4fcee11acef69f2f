"""Compares two runs or cohorts that measure the same thing, in pairs if they have the same seeds."""

from __future__ import annotations

import math
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np
from rich.table import Table

from ledger_lab.errors import UserError, nearest
from ledger_lab.ledger import CheckpointSaved, PanelResult, Run, Status
from ledger_lab.ledger.comparability import Difference, named_differences, refused_differences
from ledger_lab.ledger.costs import (
    FEWEST_RUNS,
    Price,
    RunTime,
    cost_p_value,
    cost_ratio_interval,
    log_rank_p_value,
)
from ledger_lab.ledger.libraries import LIBRARIES
from ledger_lab.panels import Comparison, ConfirmedComparison, PanelIdentity, compare_confirmed, compare_paired
from ledger_lab.panels.seeds import comparison_seeds
from ledger_lab.reports.cells import NO_INTERVAL
from ledger_lab.reports.facts import RunFacts
from ledger_lab.reports.groups import Repeated, split_repeated, usd_with_repeated
from ledger_lab.reports.summary import RunSummary, summarize_run
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal_table import render_repricing
from ledger_lab.units import duration, usd

LEVEL = 0.05
"""Largest p-value that shows a difference."""

_TAIL = 0.025
"""Probability of a miss on each side of an interval."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Result of one run in a comparison."""

    run_id: str
    seed: int
    reached_target: bool
    seconds: float
    """Wall-clock time to the confirmed target [s]; for a run that missed the target, its whole time."""
    usd: float | None
    """Spend of the whole run, and of the runs that it repeats [USD]."""


@dataclass(frozen=True, kw_only=True)
class Side:
    """The runs of one side."""

    name: str
    """Name as the user gave it: of a cohort, or of a run."""
    runs: tuple[Run, ...]
    summaries: tuple[RunSummary, ...]
    """One per run, in the same order."""
    is_cohort: bool = False
    """Whether it is a cohort, and not a run."""
    declared_size: int | None = None
    """Declared size of the cohort; ``None`` for a run, and for a cohort without a declared size."""
    repeated: Repeated = field(default_factory=dict)
    """Summaries of further runs that made the same trainings as some of :attr:`runs`. Only their cost counts."""

    @cached_property
    def outcomes(self) -> list[Outcome]:
        """Result of each run, by seed; a run that missed the target keeps its whole time."""
        spends = usd_with_repeated(self.summaries, self.repeated)
        return [
            Outcome(
                run_id=run.run_id,
                seed=run.seed,
                reached_target=run.wall_to_target_s is not None,
                seconds=run.wall_s if run.wall_to_target_s is None else run.wall_to_target_s,
                usd=spend,
            )
            for run, spend in sorted(zip(self.summaries, spends, strict=True), key=lambda each: each[0].seed)
        ]

    @property
    def run_ids(self) -> set[str]:
        """Ids of all runs, of those that do not count, too."""
        own = {run.run_id for run in self.runs}
        return own | {run.run_id for runs in self.repeated.values() for run in runs}

    @property
    def reached(self) -> int:
        """Runs that reached the target."""
        return sum(each.reached_target for each in self.outcomes)

    @property
    def missing(self) -> int:
        """Runs that were declared and never made."""
        return max(0, (self.declared_size or 0) - len(self.runs))

    @property
    def unplanned(self) -> int:
        """Runs of a cohort whose number was not declared in advance."""
        return max(0, len(self.runs) - (self.declared_size or 0)) if self.is_cohort else 0

    @property
    def repeated_runs(self) -> int:
        """Number of further runs of the same trainings."""
        return sum(map(len, self.repeated.values()))

    @property
    def shares_of_code(self) -> dict[str | None, Fraction]:
        """Share of the runs that each version of the code trained."""
        counts = Counter(run.declared.code for run in self.runs)
        return {code: Fraction(count, len(self.runs)) for code, count in counts.items()}

    def to_json(self) -> dict[str, Any]:
        """Return the side as plain JSON values."""
        return {
            "name": self.name,
            "runs": len(self.runs),
            "reached": self.reached,
            "missing": self.missing,
            "unplanned": self.unplanned,
            "repeated": self.repeated_runs,
            "outcomes": [asdict(each) for each in self.outcomes],
            "declared_prices": {each.run_id: each.declared_price for each in self.summaries},
        }


@dataclass(frozen=True, kw_only=True)
class RatioEstimate:
    """By which factor side A took more than side B."""

    ratio: float | None = None
    """Side A ÷ side B; ``None`` where nothing can be claimed."""
    interval: tuple[float, float] | None = None
    """95 % interval, whose upper end may be infinite. There is none if a side has fewer than
    :data:`~ledger_lab.ledger.costs.FEWEST_RUNS` runs."""
    bound: Literal["exact", "at_least", "at_most"] = "exact"
    """Whether the ratio is exact. It is a lower bound if runs of A missed the target, an upper bound if runs of B
    did."""
    refusal: str | None = None
    """Why nothing can be claimed; ``None`` where there is a ratio."""
    p_value: float | None = None
    """Two-sided p-value by permutation of the runs: of the log-rank test of the times to target, or of a test of the
    target-reaching runs per spent dollar. ``None`` if a side has too few runs for an interval, declared runs are
    missing, the sides mix versions of the code, or nothing can be claimed."""
    corrected: float | None = None
    """This p-value, corrected for the number of tests; ``None`` outside several comparisons."""

    @property
    def span(self) -> tuple[float, float] | None:
        """Ends of the interval; without one, the ratio itself; ``None`` where nothing can be claimed."""
        return self.interval or (None if self.ratio is None else (self.ratio, self.ratio))

    @property
    def is_decided(self) -> bool:
        """Whether it shows which side is better: an exact ratio always does, a bound only beyond 1."""
        if self.span is None:
            return False
        low, high = self.span
        return {"exact": True, "at_least": low > 1, "at_most": high < 1}[self.bound]

    def to_json(self) -> dict[str, Any]:
        """Return the estimate as plain JSON values; an infinite end of the interval is ``None``."""
        ends = self.interval and [end if math.isfinite(end) else None for end in self.interval]
        return {**asdict(self), "interval": ends}


@dataclass(frozen=True, kw_only=True)
class FinalPolicies:
    """What the ledger says about the difference between the final policies of two runs.

    A run selects its final policy by its screenings. Screenings of two runs have the same seeds, but a test on these
    seeds would favour the run that screened more policies. So at most one of the following is known.
    """

    paired: Comparison | None
    """Comparison on fresh episodes that both policies played; ``None`` if ``evaluate.py --versus`` has not compared
    them."""
    confirmed: ConfirmedComparison | None
    """Comparison of the confirmations, if both policies are confirmed."""
    first: str
    """Checkpoint of the first policy."""
    second: str
    """Checkpoint of the second policy."""
    loadable: bool
    """Whether ``evaluate.py`` can load both policies; it cannot load those of other frameworks."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """All that a comparison found."""

    a: Side
    b: Side
    mixes_code: bool
    """Whether the sides were trained by several versions of the code or its packages, in unequal shares: then one side
    may look better only because more of its runs had the better code (Simpson 1951, J. R. Stat. Soc. B 13:238)."""
    pairing: str
    """How runs were paired, in words."""
    paired: bool
    time: RatioEstimate
    """Geometric mean of the times to target of A ÷ that of B."""
    cost: RatioEstimate
    """Cost per target-reaching checkpoint of A ÷ that of B."""
    success: FinalPolicies | None
    """Compares the final policies of two single runs; ``None`` for cohorts, and if a run has no checkpoint."""
    differs: list[Difference]
    """Other differences between the sides, which may explain the finding."""
    asked: Price | None = None
    """Price that replaces the declared prices; ``None`` to keep them."""
    tests: int | None = None
    """Number of tests of all comparisons; ``None`` outside several comparisons."""

    @property
    def fewest(self) -> int:
        """Runs of the smaller side."""
        return min(len(self.a.runs), len(self.b.runs))

    @property
    def lacking(self) -> str | None:
        """What a claim beyond the runs lacks; ``None`` if nothing."""
        if self.fewest < FEWEST_RUNS:
            return f"each side needs at least {FEWEST_RUNS} runs"
        if self.mixes_code:
            return "several versions of the code trained them, in unequal shares: compare runs of one version"
        if missing := self.a.missing + self.b.missing:
            return f"{missing} declared run{'s are' if missing > 1 else ' is'} missing"
        return None

    def to_json(self) -> dict[str, Any]:
        """Return the finding as plain JSON values, with its sentences."""
        return {
            "verdict": finding_sentence(self),
            "notes": finding_notes(self),
            "a": self.a.to_json(),
            "b": self.b.to_json(),
            "paired": self.paired,
            "mixes_code": self.mixes_code,
            "time": self.time.to_json(),
            "cost": self.cost.to_json(),
            "success": None if self.success is None else asdict(self.success),
            "differs": [asdict(each) for each in self.differs],
            "asked_price": None if self.asked is None else self.asked.to_dict(),
        }


def compare_runs(
    a: str,
    b: str,
    runs: Sequence[Run],
    price: Price | None = None,
    declared_sizes: Mapping[str, int] | None = None,
) -> Finding:
    """Compare two sides.

    Args:
        a: A cohort, a run id, or the beginning of one.
        b: A cohort, a run id, or the beginning of one.
        runs: All runs of the ledger.
        price: Price that replaces the declared prices.
        declared_sizes: Declared sizes of cohorts, by their names.

    Raises:
        UserError: If a name matches nothing, a run is on both sides, or the sides do not measure the same thing. In the
            latter case, each differing field is printed to standard error first.
    """
    sides = select_side(a, runs, price, declared_sizes), select_side(b, runs, price, declared_sizes)
    if both := sides[0].run_ids & sides[1].run_ids:
        raise UserError(f"run {min(both)} is on both sides: name two different runs or cohorts")
    ours, theirs = ([run.declared for run in side.runs] for side in sides)
    if differences := refused_differences(ours, theirs):
        make_console(sys.stderr).print(*map(str, differences), sep="\n", soft_wrap=True)
        count = f"{len(differences)} field{'s' if len(differences) != 1 else ''}"
        raise UserError(
            f"{a} and {b} do not measure the same thing: the {count} above differ, and must be the same in all runs"
        )
    paired, pairing = _pairing(*sides)
    shares = [side.shares_of_code for side in sides]
    mixes_code = shares[0] != shares[1] and max(map(len, shares)) > 1
    tested = not (sides[0].missing or sides[1].missing or mixes_code)
    time, cost = compare_outcomes(sides[0].outcomes, sides[1].outcomes, paired=paired, tested=tested)
    return Finding(
        a=sides[0],
        b=sides[1],
        mixes_code=mixes_code,
        paired=paired,
        pairing=pairing,
        time=time,
        cost=cost,
        success=_compare_final_policies(*sides) if len(ours) == len(theirs) == 1 else None,
        differs=named_differences(ours, theirs, priced_alike=price is not None),
        asked=price,
    )


def select_side(
    name: str, runs: Sequence[Run], price: Price | None = None, declared_sizes: Mapping[str, int] | None = None
) -> Side:
    """Find the runs that a user named.

    Args:
        name: A cohort, a run id, or the beginning of a run id.
        runs: All runs of the ledger.
        price: Price that replaces the declared prices.
        declared_sizes: Declared sizes of cohorts, by their names.

    Raises:
        UserError: If the name matches nothing or several things, or the run has not ended.
    """
    cohort = tuple(run for run in runs if run.cohort == name)
    exact = tuple(run for run in runs if run.run_id == name)
    if cohort and exact:
        raise UserError(f"{name!r} is the name of a cohort and of a run: use another --cohort in trainings")
    chosen = cohort or exact or tuple(run for run in runs if run.run_id.startswith(name))
    if not cohort and len(chosen) > 1:
        ids = ", ".join(run.run_id for run in chosen[:5])
        raise UserError(
            f"{name!r} begins the ids of {len(chosen)} runs ({ids}{', …' if len(chosen) > 5 else ''}): give more "
            "characters"
        )
    if not chosen:
        known = {run.run_id for run in runs} | {run.cohort for run in runs if run.cohort}
        raise UserError(f"no cohort or run {name!r}; {nearest(name, known)}")
    summaries = tuple(summarize_run(run, price) for run in chosen)
    running = next((s.run_id for s in summaries if s.status == Status.RUNNING), None)
    if running is not None:
        raise UserError(f"run {running} is still running: compare when it has ended")
    kept, repeated = split_repeated(summaries)
    by_id = {run.run_id: run for run in chosen}
    return Side(
        name=name,
        runs=tuple(by_id[summary.run_id] for summary in kept),
        summaries=tuple(kept),
        is_cohort=bool(cohort),
        declared_size=(declared_sizes or {}).get(name) if cohort else None,
        repeated=repeated,
    )


def require_pooled(side: Side) -> None:
    """Refuse to pool runs that measure different things.

    Raises:
        UserError: If runs of the side do.
    """
    declared = [run.declared for run in side.runs]
    if differences := refused_differences(declared, declared):
        raise UserError(f"runs of {side.name} do not measure the same thing: {differences[0].field} differs")


def _pairing(a: Side, b: Side) -> tuple[bool, str]:
    """Tell whether runs can be paired by the seeds of their trainings, and say so in words."""
    ours, theirs = ([each.seed for each in side.outcomes] for side in (a, b))
    if len(ours) == len(theirs) == 1:
        same = "the same training seed" if ours == theirs else f"training seeds {ours[0]} and {theirs[0]}"
        return ours == theirs, f"one run against one, {same}"
    if len(set(ours)) < len(ours) or len(set(theirs)) < len(theirs):
        return False, "not paired: a training seed occurs more than once on a side"
    if ours == theirs:
        return True, f"paired by training seed ({_list(ours)})"
    # A missing partner may itself be a result (a crash, say), so no run is dropped to make pairs.
    alone = [
        f"{_list(sorted(own - other))} only in {name}"
        for name, own, other in (("A", {*ours}, {*theirs}), ("B", {*theirs}, {*ours}))
        if own - other
    ]
    return False, f"not paired: training seeds {', '.join(alone)}"


def _list(seeds: Sequence[int]) -> str:
    """Return some seeds in words."""
    return ", ".join(map(str, seeds[:8])) + (", …" if len(seeds) > 8 else "")


def compare_outcomes(
    a: Sequence[Outcome], b: Sequence[Outcome], *, paired: bool, tested: bool = True
) -> tuple[RatioEstimate, RatioEstimate]:
    """Compare times to target and costs.

    Args:
        a: Results of the runs of side A.
        b: Results of the runs of side B; if they are paired, in the same order.
        paired: Whether runs are paired.
        tested: Whether to test the differences, if each side has enough runs.

    Returns:
        The ratio of the times, and that of the costs.
    """
    time, cost = _time_ratio(a, b, paired=paired), _cost_ratio(a, b)
    if not tested or min(len(a), len(b)) < FEWEST_RUNS:
        return time, cost
    times = [
        [RunTime(wall_s=each.seconds, to_target_s=each.seconds if each.reached_target else None) for each in side]
        for side in (a, b)
    ]
    priced = [[(each.usd, each.reached_target) for each in side if each.usd is not None] for side in (a, b)]
    if [len(known) for known in priced] == [len(a), len(b)]:
        cost = replace(cost, p_value=cost_p_value(*priced))
    return replace(time, p_value=log_rank_p_value(*times)), cost


def _time_ratio(a: Sequence[Outcome], b: Sequence[Outcome], *, paired: bool) -> RatioEstimate:
    """Compare geometric means of the times to target; a run that missed the target enters as a lower bound.

    The interval is that of a mean difference of logarithms by Student's t distribution: of pairs, or of two independent
    groups, with the degrees of freedom of the smaller group. For log-normal times, the latter is never too narrow (Hsu
    1938, Statistical Research Memoirs 2:1).
    """
    if any(outcome.seconds <= 0 for outcome in (*a, *b)):
        return RatioEstimate(refusal="a run was declared and never started, so it has no time")
    short_a, short_b = (sum(not outcome.reached_target for outcome in side) for side in (a, b))
    if short_a and short_b:
        return RatioEstimate(
            refusal=f"{short_a} of {len(a)} runs of A and {short_b} of {len(b)} of B never reached the target, so "
            "their times bound the ratio on neither side"
        )
    log_a, log_b = (np.log([outcome.seconds for outcome in side]) for side in (a, b))
    apart, fewest = float(log_a.mean() - log_b.mean()), min(len(a), len(b))
    interval = None
    if fewest >= FEWEST_RUNS:
        from scipy.special import stdtrit  # takes longer to load than most reports

        groups = [log_a - log_b] if paired else [log_a, log_b]
        reach = stdtrit(fewest - 1, 1 - _TAIL) * math.sqrt(sum(each.var(ddof=1) / len(each) for each in groups))
        low, high = (math.exp(apart + side * reach) for side in (-1, 1))
        interval = (0.0 if short_b else low, math.inf if short_a else high)
    bound: Literal["exact", "at_least", "at_most"] = "at_least" if short_a else "at_most" if short_b else "exact"
    return RatioEstimate(ratio=math.exp(apart), interval=interval, bound=bound)


def _cost_ratio(a: Sequence[Outcome], b: Sequence[Outcome]) -> RatioEstimate:
    """Compare the cost per target-reaching checkpoint; if a side has none, its spend is a lower bound.

    The interval is that of :func:`~ledger_lab.ledger.costs.cost_ratio_interval`, which does not use pairs.
    """
    for name, side in (("A", a), ("B", b)):
        if unpriced := sum(outcome.usd is None for outcome in side):
            return RatioEstimate(
                refusal=f"{unpriced} of {len(side)} runs of {name} have no cost: name an --instance or give "
                "--usd_per_hour (for your own hardware without measured energy, set its power_w)"
            )
    runs_a, runs_b = ([(outcome.usd or 0.0, outcome.reached_target) for outcome in side] for side in (a, b))
    spend_a, spend_b = (sum(usd for usd, _ in runs) for runs in (runs_a, runs_b))
    reached_a, reached_b = (sum(reached for _, reached in runs) for runs in (runs_a, runs_b))
    if not reached_a and not reached_b:
        return RatioEstimate(
            refusal="no run of either side reached the target, so no cost per target-reaching policy is known"
        )
    if not spend_a or not spend_b:
        return RatioEstimate(refusal="the price of a side is zero, so there is no ratio")
    return RatioEstimate(
        # With no success, the first one costs at least the whole spend.
        ratio=(spend_a / max(reached_a, 1)) / (spend_b / max(reached_b, 1)),
        interval=cost_ratio_interval(runs_a, runs_b) if min(len(a), len(b)) >= FEWEST_RUNS else None,
        bound="at_least" if not reached_a else "at_most" if not reached_b else "exact",
    )


def _compare_final_policies(a: Side, b: Side) -> FinalPolicies | None:
    """Compare the confirmed policies of two runs, else those of their last checkpoints; ``None`` without one."""
    runs = a.runs[0], b.runs[0]
    first, second = (_final(run, side.summaries[0]) for run, side in zip(runs, (a, b), strict=True))
    if first is None or second is None:
        return None
    hashes = first.sha256, second.sha256
    ours, theirs = (_common(run, own, hashes) for run, own in zip(runs, hashes, strict=True))
    paired = confirmed = None
    if ours is not None and theirs is not None and ours.outcomes.cell == theirs.outcomes.cell:
        paired = compare_paired(ours.outcomes.success, theirs.outcomes.success)
    else:
        proofs = ((run, RunFacts(run).proof) for run in runs)
        shares = [proof.share(run.declared.target_success) for run, proof in proofs if proof is not None]
        if len(shares) == len(runs):
            confirmed = compare_confirmed(*shares)
    return FinalPolicies(
        paired=paired,
        confirmed=confirmed,
        first=first.path,
        second=second.path,
        loadable=all(run.declared.rl_library in LIBRARIES for run in runs),
    )


def _final(run: Run, summary: RunSummary) -> CheckpointSaved | None:
    """Return the checkpoint of a run that ``evaluate.py --versus`` takes, too."""
    saved, confirmed = run.checkpoints, summary.confirmed
    last = saved[-1] if saved else None
    return last if confirmed is None else next((each for each in saved if each.path == confirmed.path), last)


def _common(run: Run, own: str, hashes: tuple[str, str]) -> PanelResult | None:
    """Return the first score of a policy on the fresh episodes of a comparison, in the simulation of its run.

    Args:
        run: The run of the policy.
        own: SHA-256 of its checkpoint.
        hashes: SHA-256 of both checkpoints.
    """
    declared = PanelIdentity(run.declared.panel_fields)
    for row in run.results:
        if row.purpose != "evaluation" or row.checkpoint_sha256 != own or row.invalid is not None:
            continue
        seeds = list(comparison_seeds(*hashes, row.outcomes.episodes))
        # Other panels and simulations have other ids.
        if row.outcomes.seed == seeds and row.panel_id == declared.with_fresh_seeds(seeds).id:
            return row
    return None


def correct_for_all(findings: Sequence[Finding]) -> list[Finding]:
    """Correct the p-values of several comparisons by Holm's method.

    The chance that any of the comparisons shows a difference where there is none is then at most :data:`LEVEL`.

    Args:
        findings: The comparisons.

    Returns:
        The same comparisons with corrected p-values.
    """
    raw = [each.p_value for finding in findings for each in (finding.time, finding.cost)]
    corrected, tests = iter(holm(raw)), len(raw) - raw.count(None)
    return [
        replace(
            finding,
            time=replace(finding.time, corrected=next(corrected)),
            cost=replace(finding.cost, corrected=next(corrected)),
            tests=tests,
        )
        for finding in findings
    ]


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p-values that are corrected for the number of tests (Holm 1979, Scand J Statist 6:65).

    Args:
        p_values: One p-value per test; ``None`` where there is no test.

    Returns:
        The corrected p-values, in the same order, at most 1; ``None`` where there is no test.
    """
    corrected: list[float | None] = [None] * len(p_values)
    largest = 0.0
    tests = sorted((p_value, index) for index, p_value in enumerate(p_values) if p_value is not None)
    for place, (p_value, index) in enumerate(tests):
        largest = max(largest, min(1.0, (len(tests) - place) * p_value))
        corrected[index] = largest
    return corrected


def show_finding(finding: Finding) -> None:
    """Print a finding: its sentence, its notes, every run, and other differences between the sides.

    Args:
        finding: The finding.
    """
    console, sides = make_console(), (finding.a, finding.b)
    if finding.asked is not None:
        console.print(render_repricing(finding.asked, [each for side in sides for each in side.summaries]))
    console.print(f"A = {finding.a.name} · B = {finding.b.name}", soft_wrap=True)
    console.print(finding_sentence(finding), style="bold", soft_wrap=True)
    console.print(*(f"  {note}" for note in finding_notes(finding)), sep="\n", soft_wrap=True)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("side", "run", "seed", "to target", "spend"):
        table.add_column(name, justify="left" if name in ("side", "run") else "right", no_wrap=True)
    for name, side in zip("AB", sides, strict=True):
        for run in side.outcomes:
            took = ("" if run.reached_target else "> ") + duration(run.seconds)
            table.add_row(name, run.run_id, str(run.seed), took, "unpriced" if run.usd is None else usd(run.usd))
    console.print(table)
    if finding.differs:
        console.print("What else differs, and may be why:")
    console.print(*(f"  {difference}" for difference in finding.differs), sep="\n", soft_wrap=True)


def finding_sentence(finding: Finding) -> str:
    """Return the finding as one sentence.

    The sentence says if a difference may be chance, and if a ratio is only a bound. With few runs on a side, while
    declared runs are missing, and with an uneven mix of versions of the code, it claims nothing beyond the runs
    compared; as one of several comparisons, it then claims nothing at all.

    Args:
        finding: The finding.
    """
    n_a, n_b = len(finding.a.runs), len(finding.b.runs)
    count = f"n = {n_a} each" if n_a == n_b else f"n = {n_a} (A) and {n_b} (B)"
    if finding.tests is not None and finding.lacking:
        return f"no claim about a difference; {count}, and {finding.lacking}"
    clauses = [
        _clause(finding, finding.time, "reaches the target", "sooner", "time to target"),
        _clause(finding, finding.cost, "is", "cheaper", "cost"),
    ]
    if not any(clauses):
        return f"no claim; {count}"
    text = _join([clause for clause in clauses if clause is not None])
    if finding.fewest == 1:
        return f"{text}; {count}: no interval, and no claim beyond these runs"
    return f"{text}; {count}" + (f": no claim beyond these runs, because {finding.lacking}" if finding.lacking else "")


def _clause(
    finding: Finding, estimate: RatioEstimate, verb: str, better: str, what: str
) -> tuple[str, str, str] | None:
    """Return the better side, the verb, and the ratio in words; ``None`` if nothing can be claimed.

    Args:
        finding: The finding.
        estimate: One of its ratios.
        verb: What the better side does.
        better: In which way it is better.
        what: The compared figure.
    """
    if estimate.ratio is None or estimate.span is None or not estimate.is_decided:
        return None
    winner, ratio, (low, high) = "B", estimate.ratio, estimate.span
    if ratio < 1:
        winner, ratio, low, high = "A", 1 / ratio, 1 / high, (1 / low if low else math.inf)
    text = f"{'' if estimate.bound == 'exact' else 'at least '}{_times(ratio)} ×"
    if estimate.interval is not None:
        text += f" [{_times(low)}, {_times(high)}{')' if math.isinf(high) else ']'}"
    text += f" {better}"
    if finding.fewest > 1 and estimate.interval is None:
        text += f" ({NO_INTERVAL})"
    p_value = estimate.corrected if finding.tests is not None else estimate.p_value
    if estimate.interval is not None and low <= 1:
        text += f" (no difference in {what} shown: the interval includes 1)"
    elif p_value is not None and p_value > LEVEL:
        text += f" (no difference in {what} shown: p = {p_value:.2g}{_correction(finding)})"
    return winner, verb, text


def _correction(finding: Finding) -> str:
    """Return how p-values were corrected, in words."""
    return f" with Holm's correction for {finding.tests} tests" if finding.tests and finding.tests > 1 else ""


def _join(clauses: Sequence[tuple[str, str, str]]) -> str:
    """Make one sentence of all clauses."""
    (winner, verb, what), *rest = clauses
    text = f"{winner} {verb} {what}"
    for other, other_verb, other_what in rest:
        text += f" and {other_what}" if other == winner else f", but {other} {other_verb} {other_what}"
    return text


def finding_notes(finding: Finding) -> list[str]:
    """Return the facts behind the finding (pairing, method, missing runs), one line each.

    Args:
        finding: The finding.
    """
    if finding.tests is not None and finding.lacking:
        return [finding.pairing, *_side_notes(finding)]
    by_t, by_draws = "by Student's t distribution", "that also accounts for the chance of failures"
    notes = [
        finding.pairing,
        *_ratio_notes(finding, finding.time, "time to target", "geometric means", by_t, "log-rank test"),
        *_ratio_notes(
            finding, finding.cost, "cost", "costs per target-reaching checkpoint", by_draws, "permutation test"
        ),
        *_side_notes(finding),
    ]
    if finding.success is not None:
        command = shlex.join(["evaluate.py", finding.a.runs[0].run_id, "--versus", finding.b.runs[0].run_id])
        notes.append(_success_note(finding.success, command))
    return notes


def _ratio_notes(
    finding: Finding, estimate: RatioEstimate, what: str, compared: str, interval: str, test: str
) -> Iterator[str]:
    """Yield how a ratio was computed, why it shows nothing, and the test of the difference."""
    if estimate.refusal:
        yield f"no claim about the {what}: {estimate.refusal}"
    elif estimate.interval is not None:
        yield f"{what}: ratio of the {compared}; in brackets a 95 % interval {interval}"
    elif finding.fewest > 1:
        yield f"{what}: ratio of the {compared}; {NO_INTERVAL} on a side"
    if estimate.span is not None and not estimate.is_decided:
        low, high = estimate.span
        words = f"at least {_times(low)}" if estimate.bound == "at_least" else f"at most {_times(high)}"
        yield f"no claim about the {what}: it can only be said that A ÷ B is {words}"
    if estimate.p_value is not None:
        also = (
            f"; {estimate.corrected:.2g}{_correction(finding)}" if estimate.corrected and _correction(finding) else ""
        )
        yield f"{test} of the {what}: p = {estimate.p_value:.2g}, by permutation of the runs{also}"


def _side_notes(finding: Finding) -> Iterator[str]:
    """Yield how many runs of each side reached the target, and how many are missing."""
    sides = {"A": finding.a, "B": finding.b}
    for name, side in sides.items():
        lost = f"; {side.missing} declared runs are missing, and are in no figure" if side.missing else ""
        if side.repeated:
            lost += f"; further runs of the same trainings: {side.repeated_runs} (only their cost counts)"
        yield f"{name}: {side.reached} of {len(side.runs)} runs reached the target{lost}"
    unplanned = [name for name, side in sides.items() if side.unplanned]
    if unplanned and finding.lacking is None:
        yield (
            f"the number of runs of {' and '.join(unplanned)} was not declared in advance (--cohort_size): if you add "
            "runs until a difference shows, its p-value is too small"
        )


def _success_note(success: FinalPolicies, command: str) -> str:
    """Return what the ledger says about the success of two final policies.

    Args:
        success: The comparison of the policies.
        command: The command that compares them on fresh episodes.
    """
    if (found := success.paired) is not None:
        return (
            f"success of B − A: {found.points}, p = {found.p_text} (exact McNemar test), {found.episodes} fresh "
            f"episodes that {success.first} (A) and {success.second} (B) both played"
        )
    if (both := success.confirmed) is not None:
        better = "the same fresh episodes, with a narrower interval"
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


def _times(ratio: float) -> str:
    """Return a ratio with two significant digits, three near 1."""
    if math.isinf(ratio):
        return "∞"
    return f"{ratio:.2f}" if ratio < 1.1 else f"{ratio:.1f}" if ratio < 10 else f"{ratio:.0f}"
