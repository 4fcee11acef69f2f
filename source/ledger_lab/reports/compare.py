"""Compares two runs or cohorts that measure the same thing, in pairs if they have the same seeds."""

from __future__ import annotations

import math
import shlex
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np
from rich.table import Table

from ledger_lab.errors import UserError
from ledger_lab.ledger import CheckpointSaved, PanelResult, Run, Status
from ledger_lab.ledger.comparability import Difference, named_differences, refused_differences
from ledger_lab.ledger.costs.cohorts import FEWEST_RUNS, cost_p_value, cost_ratio_interval
from ledger_lab.ledger.costs.prices import Price
from ledger_lab.ledger.costs.time_to_target import RunTime, log_rank_p_value
from ledger_lab.ledger.libraries import LIBRARIES
from ledger_lab.panels import Comparison, PanelIdentity, ProvenComparison, compare_paired, compare_proven
from ledger_lab.panels.panel import comparison_seeds
from ledger_lab.reports.cohort_summary import Repeated, split_repeated, usd_with_repeated
from ledger_lab.reports.facts import RunFacts
from ledger_lab.reports.selection import selected_runs
from ledger_lab.reports.summary import RunSummary, summarize_run
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal_table import render_repricing
from ledger_lab.units import MISSING, duration, usd

LEVEL = 0.05
"""Largest p-value that shows a difference."""

FASTER, CHEAPER = "faster", "cheaper"
"""What the better side is, by its times to target and by its cost."""

_TAIL = 0.025
"""Probability of a miss on each side of an interval."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Result of one run in a comparison."""

    run_id: str
    seed: int
    reached_target: bool
    seconds: float
    """Wall-clock time to the proven target [s]; for a run that missed the target, its whole time."""
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
    declared_size: int
    """Number of runs that was declared in advance: 1 for a run, 0 for a cohort without a declared size."""
    repeated: Repeated
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
        return max(0, self.declared_size - len(self.runs))

    @property
    def unplanned(self) -> int:
        """Runs that were not declared in advance."""
        return max(0, len(self.runs) - self.declared_size)

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
    :data:`~ledger_lab.ledger.costs.cohorts.FEWEST_RUNS` runs."""
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

    def to_json(self) -> dict[str, Any]:
        """Return the estimate as plain JSON values; an infinite end of the interval is ``None``."""
        ends = self.interval and [end if math.isfinite(end) else None for end in self.interval]
        return {**asdict(self), "interval": ends}


@dataclass(frozen=True, kw_only=True)
class FinalPolicies:
    """What the ledger says about the difference between the final policies of two runs.

    A run selects its final policy by its checks. Checks of two runs have the same seeds, but a test on these
    seeds would favour the run that checked more policies. So at most one of the following is known.
    """

    paired: Comparison | None
    """Comparison on fresh episodes that both policies played; ``None`` if ``evaluate.py --versus`` has not compared
    them."""
    proven: ProvenComparison | None
    """Comparison of the proofs, if both policies are proven."""
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
    paired: bool
    """Whether runs with the same training seed are compared as a pair: the sides have the same seeds, each once."""
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
    def lacking(self) -> str | None:
        """What a claim beyond the runs lacks; ``None`` if nothing."""
        if min(len(self.a.runs), len(self.b.runs)) < FEWEST_RUNS:
            return f"each side needs at least {FEWEST_RUNS} runs"
        if self.mixes_code:
            return "several versions of the code trained them, in unequal shares: compare runs of one version"
        if missing := self.a.missing + self.b.missing:
            return f"{missing} declared run{'s are' if missing > 1 else ' is'} missing"
        return None

    def claim(self, estimate: RatioEstimate, better: str) -> str:
        """Return what a ratio shows, in words.

        A difference is claimed if the interval excludes 1 and the test shows it, and if nothing is :attr:`lacking`.

        Args:
            estimate: One of its ratios.
            better: What the better side is, such as "cheaper".
        """
        if estimate.refusal is not None:
            return f"no claim: {estimate.refusal}"
        if self.lacking is not None or estimate.interval is None:
            return f"no claim beyond these runs: {self.lacking}"
        low, high = estimate.interval
        p_value = estimate.p_value if estimate.corrected is None else estimate.corrected
        if low <= 1 <= high or p_value is None or p_value > LEVEL:
            return "no difference shown"
        return f"{'A' if high < 1 else 'B'} is {better}"

    def to_json(self) -> dict[str, Any]:
        """Return the finding as plain JSON values."""
        return {
            "a": self.a.to_json(),
            "b": self.b.to_json(),
            "paired": self.paired,
            "mixes_code": self.mixes_code,
            "time": {**self.time.to_json(), "claim": self.claim(self.time, FASTER)},
            "cost": {**self.cost.to_json(), "claim": self.claim(self.cost, CHEAPER)},
            "success": None if self.success is None else asdict(self.success),
            "notes": finding_notes(self),
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
    seeds = [[each.seed for each in side.outcomes] for side in sides]
    paired = seeds[0] == seeds[1] and len(set(seeds[0])) == len(seeds[0])
    shares = [side.shares_of_code for side in sides]
    mixes_code = shares[0] != shares[1] and max(map(len, shares)) > 1
    tested = not (sides[0].missing or sides[1].missing or mixes_code)
    time, cost = compare_outcomes(sides[0].outcomes, sides[1].outcomes, paired=paired, tested=tested)
    return Finding(
        a=sides[0],
        b=sides[1],
        mixes_code=mixes_code,
        paired=paired,
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
    named = selected_runs(runs, [name])
    cohort = [run for run in named if run.cohort == name]
    chosen = cohort or [run for run in named if run.run_id == name] or named
    if not cohort and len(chosen) > 1:
        ids = ", ".join(run.run_id for run in chosen[:5])
        raise UserError(f"{name!r} begins the ids of {len(chosen)} runs, such as {ids}: give more characters")
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
        declared_size=(declared_sizes or {}).get(name, 0) if cohort else 1,
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
    runs_a, runs_b = (
        [(outcome.usd, outcome.reached_target) for outcome in side if outcome.usd is not None] for side in (a, b)
    )
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
    """Compare the proven policies of two runs, else those of their last checkpoints; ``None`` without one."""
    runs = a.runs[0], b.runs[0]
    first, second = (_final(run, side.summaries[0]) for run, side in zip(runs, (a, b), strict=True))
    if first is None or second is None:
        return None
    hashes = first.sha256, second.sha256
    ours, theirs = (_common(run, own, hashes) for run, own in zip(runs, hashes, strict=True))
    paired = proven = None
    if ours is not None and theirs is not None and ours.outcomes.cell == theirs.outcomes.cell:
        paired = compare_paired(ours.outcomes.success, theirs.outcomes.success)
    else:
        proofs = ((run, RunFacts(run).proof) for run in runs)
        shares = [proof.share(run.declared.target_success) for run, proof in proofs if proof is not None]
        if len(shares) == len(runs):
            proven = compare_proven(*shares)
    return FinalPolicies(
        paired=paired,
        proven=proven,
        first=first.path,
        second=second.path,
        loadable=all(run.declared.rl_library in LIBRARIES for run in runs),
    )


def _final(run: Run, summary: RunSummary) -> CheckpointSaved | None:
    """Return the checkpoint of a run that ``evaluate.py --versus`` takes, too."""
    saved, proven = run.checkpoints, summary.proven
    last = saved[-1] if saved else None
    return last if proven is None else next((each for each in saved if each.path == proven.path), last)


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
    """Print a finding: its ratios, notes, every run, and other differences between the sides.

    Args:
        finding: The finding.
    """
    console, sides = make_console(), {"A": finding.a, "B": finding.b}
    if finding.asked is not None:
        console.print(render_repricing(finding.asked, [each for side in sides.values() for each in side.summaries]))
    counts = " and ".join(f"{len(side.runs)} ({name})" for name, side in sides.items())
    console.print(f"A = {finding.a.name} · B = {finding.b.name} · n = {counts}", soft_wrap=True)
    p_value = f"p (Holm, {finding.tests} tests)" if (finding.tests or 0) > 1 else "p"
    table = _table("", "A ÷ B", "95 % interval", p_value, "claim", left=("", "claim"))
    for what, estimate, better in (("time to target", finding.time, FASTER), ("cost", finding.cost, CHEAPER)):
        table.add_row(what, *_ratio_cells(estimate), finding.claim(estimate, better))
    console.print(table)
    console.print(*finding_notes(finding), sep="\n", soft_wrap=True)
    table = _table("side", "run", "seed", "to target", "spend", left=("side", "run"))
    for name, side in sides.items():
        for run in side.outcomes:
            took = ("" if run.reached_target else "> ") + duration(run.seconds)
            table.add_row(name, run.run_id, str(run.seed), took, "unpriced" if run.usd is None else usd(run.usd))
    console.print(table)
    if finding.differs:
        console.print("What else differs, and may be why:")
    console.print(*(f"  {difference}" for difference in finding.differs), sep="\n", soft_wrap=True)


def _table(*columns: str, left: Sequence[str]) -> Table:
    """Return an empty table, whose columns are right-aligned but for some."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in columns:
        table.add_column(name, justify="left" if name in left else "right", no_wrap=name != "claim")
    return table


def _ratio_cells(estimate: RatioEstimate) -> tuple[str, str, str]:
    """Return a ratio, its interval and its p-value as cells; “≥” and “≤” mark a bound."""
    if estimate.ratio is None:
        return MISSING, MISSING, MISSING
    ratio = {"exact": "", "at_least": "≥ ", "at_most": "≤ "}[estimate.bound] + _times(estimate.ratio)
    p_value = estimate.p_value if estimate.corrected is None else estimate.corrected
    interval = MISSING
    if estimate.interval is not None:
        low, high = estimate.interval
        interval = f"[{_times(low)}, {_times(high)}{')' if math.isinf(high) else ']'}"
    return ratio, interval, MISSING if p_value is None else f"{p_value:.2g}"


def _times(ratio: float) -> str:
    """Return a ratio with two significant digits, three near 1."""
    if math.isinf(ratio):
        return "∞"
    return f"{ratio:.2f}" if ratio < 1.1 else f"{ratio:.1f}" if ratio < 10 else f"{ratio:.0f}"


def finding_notes(finding: Finding) -> list[str]:
    """Return the facts behind the finding, one line each: pairs, reached targets, missing runs, and the policies.

    Args:
        finding: The finding.
    """
    sides = {"A": finding.a, "B": finding.b}
    notes = [f"{'paired' if finding.paired else 'not paired'} by training seed"]
    for name, side in sides.items():
        lost = f"; {side.missing} declared runs are missing, and are in no figure" if side.missing else ""
        if side.repeated:
            lost += f"; further runs of the same trainings: {side.repeated_runs} (only their cost counts)"
        notes.append(f"{name}: {side.reached} of {len(side.runs)} runs reached the target{lost}")
    unplanned = [name for name, side in sides.items() if side.unplanned]
    if unplanned and finding.lacking is None:
        notes.append(
            f"the number of runs of {' and '.join(unplanned)} was not declared in advance (--cohort_size): if you add "
            "runs until a difference shows, its p-value is too small"
        )
    if finding.success is not None:
        command = shlex.join(["evaluate.py", finding.a.runs[0].run_id, "--versus", finding.b.runs[0].run_id])
        notes.append(_success_note(finding.success, command))
    return notes


def _success_note(success: FinalPolicies, command: str) -> str:
    """Return what the ledger says about the success of two final policies.

    Args:
        success: The comparison of the policies.
        command: The command that compares them on fresh episodes.
    """
    policies = f"{success.first} (A) and {success.second} (B)"
    if (found := success.paired) is not None:
        return (
            f"success of B − A: {found.points}, p = {found.p_text} (exact McNemar test), {found.episodes} fresh "
            f"episodes that {policies} both played"
        )
    if success.proven is not None:
        points = success.proven.points
        said = f"success of B − A: {points} if both reach their targets, by the proofs of {policies}"
    else:
        said = f"no claim about the success of {policies}: the runs selected them on the seeds of their checks"
    return f"{said}; {command} compares them on the same fresh episodes" if success.loadable else said
