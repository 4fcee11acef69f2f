"""``python -m benchmarks verdict``: how often a verdict is wrong, and how soon a good policy passes."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.comparison import add_json
from ledger_lab.errors import UserError
from ledger_lab.panels import ProvenShare, wilson_interval
from ledger_lab.panels.verdict import RULE_VERSION, Standing, VerdictRule
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.reports.terminal.progress import Progress
from ledger_lab.units import MISSING, percent

_LENGTHS = (20, 100)
"""Panels in a run; each panel is a look (one check), or belongs to a proof."""

_SOON = 20
"""Panels within which a slightly good policy should pass."""

_STAYS, _LINE, _S, _FALLS, _SWINGS = "stays", "rises in a line", "rises in an S", "falls in a line", "swings"

_FAILURES = {
    _STAYS: (2.0, 1.5, 1.2, 1.1, 1.05, 1.001, 0.8, 0.7, 0.5, 0.3, 0.1),
    _LINE: (1.2, 1.05, 1.001, 0.7, 0.5, 0.3, 0.1),
    _S: (1.2, 1.05, 1.001, 0.7, 0.5, 0.3, 0.1),
    _FALLS: (2.0, 1.5, 1.2, 1.05),
    _SWINGS: (1.2, 1.05, 1.001),
}
"""Final failure rate of the policies by curve, as a multiple of the failure rate that the target allows."""


_COVERED_FAILURES = (1.0, 0.95, 0.9, 0.8, 0.7, 0.5, 0.3, 0.1)
"""Failure rates of the policies whose intervals are examined, as multiples of what the target allows."""

_CONFIRMATIONS, _LATER = 20, 6
"""Most proofs of a run whose intervals are examined, and the number from which on they are counted separately,
too."""

_SETTINGS = {
    "stake": "Share of the remaining error budget that the first panel of a proof may risk",
    "extension": "Share of the remaining error budget that its extension may risk besides",
    "futility": "Share of its stake below which a proof ends",
}
"""Numbers of the rule that can be varied, with what they mean."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A policy whose true success at each panel of its run is known."""

    curve: str
    final: float
    """Final true success rate."""
    panels: int
    same_outcomes: bool
    """Whether an unchanged policy gets the same outcomes on the check's seeds at every look; otherwise the looks
    are independent. Real policies lie between the two."""

    @property
    def success(self) -> NDArray[np.float64]:
        """True success rate at each panel; shape (panels,).

        Where the rate falls, failures double over the run. Where it swings, failures are by a fifth fewer in every
        other five panels.
        """
        panel = np.arange(self.panels)
        time, failures = (panel + 1) / self.panels, 1 - self.final
        curves = {
            _STAYS: np.full(self.panels, self.final),
            _LINE: self.final * np.minimum(1.0, 2 * time),
            _S: self.final / (1 + np.exp((0.3 - time) / 0.05)),
            _FALLS: 1 - failures * (1 + time) / 2,
            _SWINGS: 1 - failures * np.where(panel // 5 % 2, 1, 0.8),
        }
        return curves[self.curve]


@dataclass(frozen=True, kw_only=True)
class Passes:
    """Panel at which each of many runs passed a checkpoint."""

    panels: NDArray[np.int64]
    """Panels until the pass, 0 without a pass; shape (runs,)."""
    false: NDArray[np.bool_]
    """Whether the checkpoint that passed is below the target; shape (runs,)."""

    def quantile(self, share: float) -> float:
        """Return the number of panels after which a share of the runs has passed; infinite if that never happens."""
        return float(np.quantile(np.where(self.panels == 0, np.inf, self.panels), share, method="inverted_cdf"))


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Results of the runs of one scenario."""

    scenario: Scenario
    runs: int
    false_passes: int
    naive_false_passes: int
    """The same for a naive rule: pass at the first look whose share reaches the target."""
    without_pass: int
    soon: int
    """Runs that passed within 20 panels (checks and proofs)."""
    median_panels: float | None
    """Median number of panels (checks and proofs) until the pass; ``None`` if less than half of the runs
    passed."""
    p90_panels: float | None
    """90th percentile of the same."""


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """How often the interval of a proof that passed holds the true success of the policy."""

    success: float
    """True success rate."""
    runs: int
    """Runs of up to 20 proofs."""
    passes: int
    covered: int
    """Passes whose interval, as reports show it, holds the true success rate."""
    later_passes: int
    """Passes at the sixth proof of the run, or later."""
    later_covered: int
    """Those of them whose interval holds the true success rate."""
    covered_by_wilson: int
    """Passes for which Wilson's interval does, which ignores that the pass selects."""


def bench_verdict(argv: Sequence[str]) -> int:
    """Simulate runs whose true success is known, and print how often and how soon they pass.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If an argument makes no sense.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks verdict",
        description="Measure how often LedgerLab proves a policy that is below its target, and how soon it "
        "proves a good policy. The benchmark simulates runs of policies whose true success is "
        "known, without physics. A run scores its policy again and again. If a score is high enough "
        "(check), the next scores use fresh seeds and decide (proof). For comparison, a "
        "naive rule accepts the first score that reaches the target. The output has two cases for a "
        "policy that does not change: its scores are independent, or they are equal because the seeds "
        "are equal. Scores of real policies lie in between.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks verdict --target 0.8 --runs 5000",
    )
    parser.add_argument(
        "--target",
        type=float,
        default=0.9,
        help="Target of the panel: the share of successful episodes to reach (default: 0.9).",
    )
    parser.add_argument("--episodes", type=int, default=256, help="Number of episodes of the panel (default: 256).")
    parser.add_argument("--runs", type=int, default=20000, help="Number of runs of each policy (default: 20000).")
    parser.add_argument("--seed", type=int, default=0, help="Seed of the simulation (default: 0).")
    parser.add_argument(
        "--rule",
        type=int,
        choices=range(1, RULE_VERSION + 1),
        default=RULE_VERSION,
        help=f"Version of the rule (default: {RULE_VERSION}). Version 1 does not extend proofs.",
    )
    for name, what in _SETTINGS.items():
        parser.add_argument(f"--{name}", type=float, help=f"{what} (default: as in the rule).")
    add_json(parser, "every figure")
    args = parser.parse_args(argv)
    if args.runs < 1 or args.episodes < 1 or args.seed < 0:
        raise UserError("--runs and --episodes must be at least 1, and --seed at least 0")
    if not 0 < args.target < 1:
        raise UserError("--target must lie between 0 and 1")
    given = {name: value for name in _SETTINGS if (value := getattr(args, name)) is not None}
    try:
        rule = replace(VerdictRule.of_version(args.rule, args.target), **given)
    except ValueError as error:
        raise UserError(" ".join(f"--{name} {value:g}" for name, value in given.items()) + ": out of range") from error
    if not rule.is_decidable(args.episodes):
        raise UserError(f"--episodes {args.episodes}: too few to prove a success of {args.target:g}")

    console = make_console()
    findings: list[Finding] = []
    scenarios = list(_scenarios(args.target))
    with Progress(console, "scenarios", len(scenarios)) as progress:
        for scenario in scenarios:
            rng = np.random.default_rng([args.seed, len(findings)])
            findings.append(examine(scenario, rule, args.episodes, args.runs, rng))
            progress.advance(len(findings))
    rates = [round(1 - failures * (1 - args.target), 9) for failures in _COVERED_FAILURES]
    stream = np.random.default_rng([args.seed, len(findings)])
    coverages = [examine_interval(rate, rule, args.episodes, args.runs, stream) for rate in rates]
    _print(findings, rule, args.episodes, console)
    _print_coverages(coverages, console)
    write_findings(
        args.json,
        rule=asdict(rule),
        findings=[asdict(finding) for finding in findings],
        intervals=[asdict(coverage) for coverage in coverages],
    )
    return 0


def examine(scenario: Scenario, rule: VerdictRule, episodes: int, runs: int, rng: Generator) -> Finding:
    """Simulate many runs of one scenario.

    Args:
        scenario: The scenario.
        rule: The rule of their verdict.
        episodes: Episodes of the panel.
        runs: How many runs.
        rng: Random stream.
    """
    looks = draw_looks(scenario, episodes, runs, rng)
    passes = pass_by_rule(looks, scenario.success, rule, episodes, rng)
    naive = pass_naively(looks, scenario.success, rule.target_success, episodes)
    median, p90 = (value if np.isfinite(value) else None for value in (passes.quantile(0.5), passes.quantile(0.9)))
    return Finding(
        scenario=scenario,
        runs=runs,
        false_passes=int(passes.false.sum()),
        naive_false_passes=int(naive.false.sum()),
        without_pass=int((passes.panels == 0).sum()),
        soon=int(((passes.panels > 0) & (passes.panels <= _SOON)).sum()),
        median_panels=median,
        p90_panels=p90,
    )


def examine_interval(success: float, rule: VerdictRule, episodes: int, runs: int, rng: Generator) -> Coverage:
    """Simulate the proofs of many runs, and the interval of those that pass.

    Args:
        success: True success rate of the policy.
        rule: The rule.
        episodes: Episodes of the panel.
        runs: How many runs.
        rng: Random stream.
    """
    passed = passed_proofs([success], rule, episodes, runs, rng, last=_CONFIRMATIONS)
    later = [each for number, each in passed if number >= _LATER]

    def covered(intervals: Iterable[tuple[float, float]]) -> int:
        return sum(low <= success <= high for low, high in intervals)

    return Coverage(
        success=success,
        runs=runs,
        passes=len(passed),
        covered=covered(each.interval() for _, each in passed),
        later_passes=len(later),
        later_covered=covered(each.interval() for each in later),
        covered_by_wilson=covered(wilson_interval(each.successes, each.episodes) for _, each in passed),
    )


def passed_proofs(
    cells: Sequence[float],
    rule: VerdictRule,
    episodes: int,
    runs: int,
    rng: Generator,
    last: int = 1,
) -> list[tuple[int, ProvenShare]]:
    """Simulate the proofs of many runs whose policy does not change, until they pass.

    Args:
        cells: True success rate of the policy in each cell; the episodes of a panel are divided evenly.
        rule: The rule.
        episodes: Episodes of the panel.
        runs: How many runs.
        rng: Random stream.
        last: Most proofs of a run.

    Returns:
        The proofs that pass, with their numbers in their runs.
    """
    standing, found = Standing.of(rule.error_budget, (runs,)), list[tuple[int, ProvenShare]]()
    for number in range(1, last + 1):
        standing = rule.begin(of_runs(standing, np.flatnonzero(~standing.passed)))
        needed = rule.needs(standing, episodes)
        won, running = np.zeros(needed.size, dtype=np.int64), np.arange(needed.size)
        while running.size:
            drawn = rng.binomial(episodes // len(cells), cells, (running.size, len(cells))).sum(axis=1)
            won[running] += drawn
            now = rule.after(of_runs(standing, running), drawn, episodes)
            replace_runs(standing, running, now)
            running = running[rule.goes_on(now)]
        for run in np.flatnonzero(standing.passed).tolist():
            proof = ProvenShare(
                successes=int(won[run]),
                episodes=int(episodes * standing.panels[run]),
                target=rule.target_success,
                first_needed=int(needed[run]),
                first_episodes=episodes,
            )
            found.append((number, proof))
    return found


def draw_looks(scenario: Scenario, episodes: int, runs: int, rng: Generator) -> NDArray[np.int64]:
    """Draw the successes on the check's panel at each look.

    If outcomes stay the same, each seed has a difficulty that is uniform in (0, 1), and the policy succeeds on it
    where its true success rate exceeds the difficulty.

    Returns:
        Numbers of successes; shape (panels, runs).
    """
    success = scenario.success
    if not scenario.same_outcomes:
        return rng.binomial(episodes, success[:, None], (len(success), runs))
    rates, rate_of = np.unique(success, return_inverse=True)
    easier = np.zeros((len(rates), runs), dtype=np.int64)
    reached, before = np.zeros(runs, dtype=np.int64), 0.0
    for index, now in enumerate(rates):
        reached = easier[index] = reached + rng.binomial(episodes - reached, (now - before) / (1 - before))
        before = now
    return easier[rate_of]


def pass_by_rule(
    looks: NDArray[np.int64],
    success: NDArray[np.float64],
    rule: VerdictRule,
    episodes: int,
    rng: Generator,
    standing: Standing | None = None,
) -> Passes:
    """Screen and prove by the rule of a run's verdict.

    Args:
        looks: Successes of a check at each panel; shape (panels, runs).
        success: True success at each panel; shape (panels,).
        rule: The rule.
        episodes: Episodes of the panel.
        rng: Random stream of the proofs.
        standing: What each run may risk at first; changed in place to what it may risk at last. By default, each run
            has a whole error budget.

    Returns:
        When the runs passed. A checkpoint that is being proven at the last panel is proven to the end after it.
    """
    panels, runs = looks.shape
    check = rule.check_needs(episodes)
    if standing is None:
        standing = Standing.of(rule.error_budget, (runs,))
    checked, passed = np.full(runs, -1), np.zeros(runs, dtype=np.int64)
    false = np.zeros(runs, dtype=np.bool_)
    for panel in itertools.count():
        proving = np.flatnonzero(checked >= 0)
        if panel >= panels and not proving.size:
            return Passes(panels=passed, false=false)
        true = success[checked[proving]]
        now = rule.after(of_runs(standing, proving), rng.binomial(episodes, true), episodes)
        replace_runs(standing, proving, now)
        passed[proving[now.passed]] = panel + 1
        false[proving] = now.passed & (true < rule.target_success)
        checked[proving[~rule.goes_on(now)]] = -1
        if panel < panels:
            free = (passed == 0) & (checked < 0)
            free[proving] = False
            begun = np.flatnonzero(free & (looks[panel] >= check))
            checked[begun] = panel
            replace_runs(standing, begun, rule.begin(of_runs(standing, begun)))
    raise AssertionError


def of_runs(standing: Standing, runs: NDArray[np.int64]) -> Standing:
    """Return the standing of some runs."""
    return Standing(*(numbers[runs] for numbers in vars(standing).values()))


def replace_runs(standing: Standing, runs: NDArray[np.int64], by: Standing) -> None:
    """Replace the standing of some runs."""
    for name, numbers in vars(by).items():
        getattr(standing, name)[runs] = numbers


def pass_naively(
    looks: NDArray[np.int64], success: NDArray[np.float64], target_success: float, episodes: int
) -> Passes:
    """Pass the first look whose share of successes reaches the target.

    Args:
        looks: Successes at each panel; shape (panels, runs).
        success: True success at each panel; shape (panels,).
        target_success: The target.
        episodes: Episodes of the panel.
    """
    reached = looks / episodes >= target_success
    first = reached.argmax(axis=0)
    passed = reached.any(axis=0)
    return Passes(panels=np.where(passed, first + 1, 0), false=passed & (success[first] < target_success))


def _scenarios(target_success: float) -> Iterator[Scenario]:
    """Yield all scenarios, first with independent looks, then with repeated outcomes."""
    for curve, multiples in _FAILURES.items():
        for final in (round(1 - failures * (1 - target_success), 9) for failures in multiples):
            for panels in _LENGTHS if final > 0 else ():
                for same_outcomes in (False, True):
                    yield Scenario(curve=curve, final=final, panels=panels, same_outcomes=same_outcomes)


def _print(findings: Sequence[Finding], rule: VerdictRule, episodes: int, console: Console) -> None:
    """Print two tables: false passes below the target, and the time until good policies pass."""
    title = f"the target of {100 * rule.target_success:g} % of {episodes} episodes"
    wrong = Table(title=f"Policies below {title}: runs that pass, with 95 % interval")
    soon = Table(title=f"Policies that reach {title}: panels until the pass, and runs that pass never or too early")
    for table in (wrong, soon):
        table.box, table.pad_edge, table.title_justify = None, False, "left"
        for header in ("policy", "true success", "panels"):
            table.add_column(header)
    soon.add_column("first good", justify="right")
    times = ("median", "90 %", f"by {_SOON}", "never", "too early", "naive")
    for looks in ("independent looks", "same outcomes"):
        for table, (first, *others) in ((wrong, ("rule", "naive")), (soon, times)):
            for header in (f"{looks}: {first}", *others):
                table.add_column(header, justify="right")

    for pair in itertools.batched(findings, 2):
        scenario = pair[0].scenario
        head = [scenario.curve, f"{100 * scenario.final:g} %", str(scenario.panels)]
        if scenario.final < rule.target_success:
            wrong.add_row(*head, *(cell for finding in pair for cell in _error_cells(finding)))
        else:
            head.append(str((scenario.success >= rule.target_success).argmax() + 1))
            soon.add_row(*head, *(cell for finding in pair for cell in _pass_cells(finding)))
    console.print(wrong)
    console.print()
    console.print(soon)
    worst, naive = (
        max(getattr(finding, count) / finding.runs for finding in findings)
        for count in ("false_passes", "naive_false_passes")
    )
    console.print(
        "",
        f"runs that pass below the target: at most {percent(worst, 2)} in any scenario, "
        f"{percent(rule.error_budget, 0)} allowed; naive: up to {percent(naive)}",
        sep="\n",
    )


def _print_coverages(coverages: Sequence[Coverage], console: Console) -> None:
    """Print how often intervals of proven policies hold the true success."""
    table = Table(title="95 % intervals of proofs that passed: share that holds the true success")
    table.box, table.pad_edge, table.title_justify = None, False, "left"
    for header in ("true success", "runs that pass", "shown interval", f"pass no. {_LATER} or later", "Wilson"):
        table.add_column(header, justify="right")
    for each in coverages:
        counts = (
            (each.covered, each.passes),
            (each.later_covered, each.later_passes),
            (each.covered_by_wilson, each.passes),
        )
        shares = [percent(count / of) if of else MISSING for count, of in counts]
        table.add_row(f"{100 * each.success:g} %", percent(each.passes / each.runs), *shares)
    console.print("", table, sep="\n")


def _error_cells(finding: Finding) -> list[str]:
    """Return the false passes of the rule, with their interval, and of the naive rule."""
    low, high = wilson_interval(finding.false_passes, finding.runs)
    share = percent(finding.false_passes / finding.runs, 2)
    return [f"{share} [{100 * low:.2f}, {100 * high:.2f}]", percent(finding.naive_false_passes / finding.runs)]


def _pass_cells(finding: Finding) -> list[str]:
    """Return how soon a good policy passed, and how often it passed before it was good."""
    times = [MISSING if value is None else f"{value:.0f}" for value in (finding.median_panels, finding.p90_panels)]
    shares = (finding.soon, finding.without_pass, finding.false_passes, finding.naive_false_passes)
    return [*times, *(percent(share / finding.runs, 2) for share in shares)]
