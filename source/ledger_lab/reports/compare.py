"""Compares two runs or cohorts that measure the same thing, in pairs if they have the same seeds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from ledger_lab.errors import UserError, nearest
from ledger_lab.ledger import CheckpointSaved, PanelResult, Run, Status
from ledger_lab.ledger.comparability import Difference, named_differences, refused_differences
from ledger_lab.ledger.costs import FEWEST_RUNS, RunTime, cost_p_value, cost_ratio_interval, log_rank_p_value
from ledger_lab.ledger.libraries import LIBRARIES
from ledger_lab.panels import Comparison, ConfirmedComparison, PanelIdentity, compare_confirmed, compare_paired
from ledger_lab.panels.seeds import comparison_seeds
from ledger_lab.reports.facts import RunFacts
from ledger_lab.reports.groups import Repeated, split_repeated, usd_with_repeated
from ledger_lab.reports.summary import RunSummary

LEVEL = 0.05
"""Largest p-value that shows a difference."""


@dataclass(frozen=True, kw_only=True)
class CorrectedTests:
    """P-values of one comparison among several."""

    time: float | None
    """Corrected p-value of the times to target; ``None`` if there is no test."""
    cost: float | None
    """Corrected p-value of the costs."""
    tests: int
    """Number of tests of all comparisons."""

    @property
    def time_words(self) -> str | None:
        """Why the times show no difference; ``None`` if they show one, or there is no test."""
        return self._words(self.time)

    @property
    def cost_words(self) -> str | None:
        """The same for the costs."""
        return self._words(self.cost)

    def _words(self, p_value: float | None) -> str | None:
        if p_value is None or p_value <= LEVEL:
            return None
        return f"p = {p_value:.2g}" + (f" with Holm's correction for {self.tests} tests" if self.tests > 1 else "")


def correct_for_all(raw: Sequence[tuple[float | None, float | None]]) -> list[CorrectedTests]:
    """Correct the p-values of several comparisons by Holm's method.

    The chance that any of the comparisons shows a difference where there is none is then at most :data:`LEVEL`.

    Args:
        raw: The p-values of the time and of the cost of each comparison; ``None`` where there is no test.
    """
    corrected = iter(holm([p_value for pair in raw for p_value in pair if p_value is not None]))
    tests = sum(p_value is not None for pair in raw for p_value in pair)
    found = []
    for pair in raw:
        time, cost = (None if p_value is None else next(corrected) for p_value in pair)
        found.append(CorrectedTests(time=time, cost=cost, tests=tests))
    return found


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values that are corrected for the number of tests (Holm 1979, Scand J Statist 6:65).

    Args:
        p_values: One p-value per test.

    Returns:
        The corrected p-values, in the same order, at most 1.
    """
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for place, index in enumerate(sorted(range(len(p_values)), key=lambda each: p_values[each])):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_values[index]))
        corrected[index] = largest
    return corrected


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


def compare_final_policies(runs: tuple[Run, Run], summaries: tuple[RunSummary, RunSummary]) -> FinalPolicies | None:
    """Compare the final policies of two runs: the confirmed policy, else the policy of the last checkpoint.

    Args:
        runs: Two runs with the same panel.
        summaries: Their figures.

    Returns:
        The comparison; ``None`` if a run has no checkpoint.
    """
    first, second = (_final(run, summary) for run, summary in zip(runs, summaries, strict=True))
    if first is None or second is None:
        return None
    hashes = first.sha256, second.sha256
    ours, theirs = (_common(run, own.sha256, hashes) for run, own in zip(runs, (first, second), strict=True))
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


_TAIL = 0.025
"""Probability of a miss on each side of an interval."""


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

    @property
    def run_ids(self) -> set[str]:
        """Ids of all runs, of those that do not count, too."""
        own = {run.run_id for run in self.runs}
        return own | {run.run_id for runs in self.repeated.values() for run in runs}

    @property
    def missing(self) -> int:
        """Runs that were declared and never made."""
        return max(0, (self.declared_size or 0) - len(self.runs))

    @property
    def unplanned(self) -> int:
        """Runs of a cohort whose number was not declared in advance."""
        return len(self.runs) - (self.declared_size or 0) if self.is_cohort else 0

    @property
    def shares_of_code(self) -> dict[str | None, Fraction]:
        """Share of the runs that each version of the code trained."""
        counts = Counter(run.declared.code for run in self.runs)
        return {code: Fraction(count, len(self.runs)) for code, count in counts.items()}

    @property
    def seeds(self) -> list[int]:
        """Seeds of the trainings."""
        return [run.declared.seed for run in self.runs]


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
class RatioEstimate:
    """By which factor side A took more than side B."""

    ratio: float | None = None
    """Side A ÷ side B; ``None`` where nothing can be claimed."""
    interval: tuple[float, float | None] | None = None
    """95 % interval. An upper end of ``None`` is infinite. There is no interval if a side has fewer than
    :data:`~ledger_lab.ledger.costs.FEWEST_RUNS` runs."""
    bound: Literal["exact", "at_least", "at_most"] = "exact"
    """Whether the ratio is exact. It is a lower bound if runs of A missed the target, an upper bound if runs of B
    did."""
    refusal: str | None = None
    """Why nothing can be claimed; ``None`` where there is a ratio."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """All that a comparison found."""

    a: str
    b: str
    n_a: int
    n_b: int
    reached_a: int
    reached_b: int
    missing_a: int
    missing_b: int
    unplanned_a: int
    """Runs of A whose number was not declared in advance; 0 for a single run."""
    unplanned_b: int
    mixes_code: bool
    """Whether the sides were trained by several versions of the code or its packages, in unequal shares: then one side
    may look better only because more of its runs had the better code (Simpson 1951, J. R. Stat. Soc. B 13:238)."""
    repeated_a: int
    """Further runs of A that made the same trainings, of which only the cost counts; see
    :mod:`ledger_lab.reports.groups`."""
    repeated_b: int
    pairing: str
    """How runs were paired, in words."""
    paired: bool
    outcomes_a: list[Outcome]
    outcomes_b: list[Outcome]
    time: RatioEstimate
    """Geometric mean of the times to target of A ÷ that of B."""
    cost: RatioEstimate
    """Cost per target-reaching checkpoint of A ÷ that of B."""
    time_p_value: float | None
    """Two-sided p-value of the log-rank test of the times to target, by permutation. ``None`` if a side has fewer than
    :data:`~ledger_lab.ledger.costs.FEWEST_RUNS` runs, declared runs are missing, the sides mix versions of the code, or
    nothing can be claimed."""
    cost_p_value: float | None
    """The same for the cost, by a permutation test of the target-reaching runs per spent dollar."""
    success: FinalPolicies | None
    """Compares the final policies of two single runs; ``None`` for cohorts, and if a run has no checkpoint."""
    differs: list[Difference]
    """Other differences between the sides, which may explain the finding."""

    def to_json(self) -> dict[str, Any]:
        """Return the finding as plain JSON values."""
        return asdict(self)


def select_side(
    name: str,
    runs: Sequence[Run],
    summarize: Callable[[Run], RunSummary],
    declared_sizes: Mapping[str, int] | None = None,
) -> Side:
    """Find the runs that a user named.

    Args:
        name: A cohort, a run id, or the beginning of a run id.
        runs: All runs of the ledger.
        summarize: Computes the figures of a run.
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
    summaries = tuple(summarize(run) for run in chosen)
    running = next((s.run_id for s in summaries if s.status == Status.RUNNING), None)
    if running is not None:
        raise UserError(f"run {running} is still running: compare when it has ended")
    size = (declared_sizes or {}).get(name) if cohort else None
    kept, repeated = split_repeated(summaries)
    by_id = {run.run_id: run for run in chosen}
    return Side(
        name=name,
        runs=tuple(by_id[summary.run_id] for summary in kept),
        summaries=tuple(kept),
        is_cohort=bool(cohort),
        declared_size=size,
        repeated=repeated,
    )


def refusals(a: Side, b: Side) -> list[Difference]:
    """Return the fields that forbid a comparison; empty if both sides measure the same thing.

    Raises:
        UserError: If a run is on both sides.
    """
    if both := a.run_ids & b.run_ids:
        raise UserError(f"run {min(both)} is on both sides: name two different runs or cohorts")
    return refused_differences([run.declared for run in a.runs], [run.declared for run in b.runs])


def require_pooled(side: Side) -> None:
    """Refuse to pool runs that measure different things.

    Raises:
        UserError: If runs of the side do.
    """
    declared = [run.declared for run in side.runs]
    if differences := refused_differences(declared, declared):
        raise UserError(f"runs of {side.name} do not measure the same thing: {differences[0].field} differs")


def compare(a: Side, b: Side, *, priced_alike: bool = False) -> Finding:
    """Compare two sides without :func:`refusals`.

    Times are compared by the ratio of their geometric means, with an interval by Student's t distribution, see
    :func:`_time_ratio`. Costs are compared by the ratio of the cost per target-reaching checkpoint, with the interval
    of :func:`~ledger_lab.ledger.costs.cost_ratio_interval`, which does not use pairs.

    Args:
        a: Side A.
        b: Side B.
        priced_alike: Whether both sides are priced by the same price in place of their declared prices.

    Returns:
        The finding.
    """
    outcomes_a, outcomes_b = _outcomes(a), _outcomes(b)
    paired, pairing = _pairing(a, b)
    if paired:
        outcomes_a.sort(key=lambda outcome: outcome.seed)
        outcomes_b.sort(key=lambda outcome: outcome.seed)
    time, cost = compare_outcomes(outcomes_a, outcomes_b, paired=paired)
    shares = [side.shares_of_code for side in (a, b)]
    mixes_code = shares[0] != shares[1] and max(map(len, shares)) > 1
    whole = not (a.missing or b.missing or mixes_code)
    time_p_value, cost_p_value = p_values_of(outcomes_a, outcomes_b) if whole else (None, None)
    single = len(a.runs) == len(b.runs) == 1
    return Finding(
        a=a.name,
        b=b.name,
        n_a=len(outcomes_a),
        n_b=len(outcomes_b),
        reached_a=sum(outcome.reached_target for outcome in outcomes_a),
        reached_b=sum(outcome.reached_target for outcome in outcomes_b),
        missing_a=a.missing,
        missing_b=b.missing,
        unplanned_a=max(0, a.unplanned),
        unplanned_b=max(0, b.unplanned),
        mixes_code=mixes_code,
        repeated_a=sum(map(len, a.repeated.values())),
        repeated_b=sum(map(len, b.repeated.values())),
        paired=paired,
        pairing=pairing,
        outcomes_a=outcomes_a,
        outcomes_b=outcomes_b,
        time=time,
        cost=cost,
        time_p_value=time_p_value,
        cost_p_value=cost_p_value,
        success=compare_final_policies((a.runs[0], b.runs[0]), (a.summaries[0], b.summaries[0])) if single else None,
        differs=named_differences(
            [run.declared for run in a.runs], [run.declared for run in b.runs], priced_alike=priced_alike
        ),
    )


def _outcomes(side: Side) -> list[Outcome]:
    """Return the result of each run; a run that missed the target keeps its whole time."""
    return [
        Outcome(
            run_id=summary.run_id,
            seed=summary.seed,
            reached_target=summary.wall_to_target_s is not None,
            seconds=summary.wall_s if summary.wall_to_target_s is None else summary.wall_to_target_s,
            usd=usd,
        )
        for summary, usd in zip(side.summaries, usd_with_repeated(side.summaries, side.repeated), strict=True)
    ]


def _pairing(a: Side, b: Side) -> tuple[bool, str]:
    """Tell whether runs can be paired by the seeds of their trainings, and say so in words."""
    ours, theirs = set(a.seeds), set(b.seeds)
    unique = len(ours) == len(a.seeds) and len(theirs) == len(b.seeds)
    if len(a.seeds) == len(b.seeds) == 1:
        same = "the same training seed" if ours == theirs else f"training seeds {a.seeds[0]} and {b.seeds[0]}"
        return ours == theirs, f"one run against one, {same}"
    if unique and ours == theirs:
        return True, f"paired by training seed ({_list(sorted(ours))})"
    if not unique:
        return False, "not paired: a training seed occurs more than once on a side"
    # A missing partner may itself be a result (a crash, say), so no run is dropped to make pairs.
    alone = [
        f"{_list(sorted(own - other))} only in {name}"
        for name, own, other in (("A", ours, theirs), ("B", theirs, ours))
        if own - other
    ]
    return False, f"not paired: training seeds {', '.join(alone)}"


def _list(seeds: Sequence[int]) -> str:
    """Return some seeds in words."""
    return ", ".join(map(str, seeds[:8])) + (", …" if len(seeds) > 8 else "")


def compare_outcomes(
    a: Sequence[Outcome], b: Sequence[Outcome], *, paired: bool
) -> tuple[RatioEstimate, RatioEstimate]:
    """Compare times to target and costs.

    Args:
        a: Results of the runs of side A.
        b: Results of the runs of side B; if they are paired, in the same order.
        paired: Whether runs are paired.

    Returns:
        The ratio of the times, and that of the costs.
    """
    return _time_ratio(a, b, paired=paired), _cost_ratio(a, b)


def p_values_of(a: Sequence[Outcome], b: Sequence[Outcome]) -> tuple[float | None, float | None]:
    """Test whether the times to target and the costs of two sides differ, by permutation of the runs.

    Args:
        a: Results of the runs of side A.
        b: Results of the runs of side B.

    Returns:
        The p-values of the times and of the costs; ``None`` where there is no test.
    """
    if min(len(a), len(b)) < FEWEST_RUNS:
        return None, None
    times = [
        [RunTime(wall_s=each.seconds, to_target_s=each.seconds if each.reached_target else None) for each in side]
        for side in (a, b)
    ]
    priced = [[(each.usd, each.reached_target) for each in side if each.usd is not None] for side in (a, b)]
    whole = [len(known) for known in priced] == [len(a), len(b)]
    return log_rank_p_value(*times), cost_p_value(*priced) if whole else None


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
    bound: Literal["exact", "at_least", "at_most"] = "at_least" if short_a else "at_most" if short_b else "exact"
    interval: tuple[float, float | None] | None = None
    if fewest >= FEWEST_RUNS:
        from scipy.special import stdtrit  # takes longer to load than most reports

        groups = [log_a - log_b] if paired else [log_a, log_b]
        reach = stdtrit(fewest - 1, 1 - _TAIL) * math.sqrt(sum(each.var(ddof=1) / len(each) for each in groups))
        low, high = (math.exp(apart + side * reach) for side in (-1, 1))
        interval = (low if bound != "at_most" else 0.0, high if bound != "at_least" else None)
    return RatioEstimate(ratio=math.exp(apart), interval=interval, bound=bound)


def _cost_ratio(a: Sequence[Outcome], b: Sequence[Outcome]) -> RatioEstimate:
    """Compare the cost per target-reaching checkpoint; if a side has none, its spend is a lower bound."""
    for name, side in (("A", a), ("B", b)):
        unpriced = sum(outcome.usd is None for outcome in side)
        if unpriced:
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
    interval: tuple[float, float | None] | None = None
    if min(len(a), len(b)) >= FEWEST_RUNS:
        low, high = cost_ratio_interval(runs_a, runs_b)
        interval = (low, high if math.isfinite(high) else None)
    return RatioEstimate(
        # With no success, the first one costs at least the whole spend.
        ratio=(spend_a / max(reached_a, 1)) / (spend_b / max(reached_b, 1)),
        interval=interval,
        bound="at_least" if not reached_a else "at_most" if not reached_b else "exact",
    )
