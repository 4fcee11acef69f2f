"""``benchmarks verdict``: how often the rule behind a run's verdict errs, and how soon it passes a good policy."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.comparison import add_json
from ledger_lab.errors import UserError
from ledger_lab.panels import wilson_interval
from ledger_lab.panels.verdict import VerdictRule
from ledger_lab.terminal.console import make_console
from ledger_lab.terminal.findings import write_findings
from ledger_lab.terminal.progress import Progress
from ledger_lab.units import MISSING, percent

_LENGTHS = (20, 100)
"""Panels in a run; each panel is a look (one screening) or a confirmation."""

_STAYS, _LINE, _S = "stays", "rises in a line", "rises in an S"

_FAILURES = {
    _STAYS: (2.0, 1.5, 1.2, 1.1, 1.05, 1.001, 0.7, 0.5, 0.3, 0.1),
    _LINE: (1.2, 1.05, 0.7, 0.5, 0.3, 0.1),
    _S: (1.2, 1.05, 0.7, 0.5, 0.3, 0.1),
}
"""Final failure rate of the policies by curve, as a multiple of the failure rate that the target allows."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A policy whose true success at each panel of its run is known."""

    curve: str
    final: float
    """Final true success rate."""
    panels: int
    same_outcomes: bool
    """Whether an unchanged policy gets the same outcomes on the screening's seeds at every look; otherwise the looks
    are independent. Real policies lie between the two."""

    @property
    def success(self) -> NDArray[np.float64]:
        """True success rate at each panel, never falling; shape (panels,)."""
        time = np.arange(1, self.panels + 1) / self.panels
        curves = {
            _STAYS: np.ones(self.panels),
            _LINE: np.minimum(1.0, 2 * time),
            _S: 1 / (1 + np.exp((0.3 - time) / 0.05)),
        }
        return self.final * curves[self.curve]


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
    median_panels: float | None
    """Median number of panels (screenings and confirmations) until the pass; ``None`` if less than half of the runs
    passed."""
    p90_panels: float | None
    """90th percentile of the same."""


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
        description="Measure how often LedgerLab confirms a policy that is below its target, and how soon it "
        "confirms a good policy. The benchmark simulates runs of policies whose true success is "
        "known, without physics. A run scores its policy again and again. If a score is high enough "
        "(screening), the next score uses fresh seeds and decides (confirmation). For comparison, a "
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
        "--stake",
        type=float,
        default=VerdictRule.stake,
        help=f"Share of the remaining error budget that one confirmation uses (default: {VerdictRule.stake:g}, as in "
        "train.py). The error budget is the probability that a run confirms a policy below its target.",
    )
    add_json(parser, "every figure")
    args = parser.parse_args(argv)
    if args.runs < 1 or args.episodes < 1 or args.seed < 0:
        raise UserError("--runs and --episodes must be at least 1, and --seed at least 0")
    if not (0 < args.target < 1 and 0 < args.stake < 1):
        raise UserError("--target and --stake must lie between 0 and 1")
    rule = VerdictRule(args.target, stake=args.stake)
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
    _print(findings, rule, args.episodes, console)
    write_findings(args.json, rule=asdict(rule), findings=[asdict(finding) for finding in findings])
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
        median_panels=median,
        p90_panels=p90,
    )


def draw_looks(scenario: Scenario, episodes: int, runs: int, rng: Generator) -> NDArray[np.int64]:
    """Draw the successes on the screening's panel at each look.

    If outcomes stay the same, each seed has a difficulty that is uniform in (0, 1), and the policy succeeds on it once
    its true success rate exceeds the difficulty. The rate never falls, so only seeds that failed so far are redrawn.

    Returns:
        Numbers of successes; shape (panels, runs).
    """
    success = scenario.success
    if not scenario.same_outcomes:
        return rng.binomial(episodes, success[:, None], (len(success), runs))
    looks = np.zeros((len(success), runs), dtype=np.int64)
    reached, before = np.zeros(runs, dtype=np.int64), 0.0
    for index, now in enumerate(success):
        reached = looks[index] = reached + rng.binomial(episodes - reached, (now - before) / (1 - before))
        before = now
    return looks


def pass_by_rule(
    looks: NDArray[np.int64], success: NDArray[np.float64], rule: VerdictRule, episodes: int, rng: Generator
) -> Passes:
    """Screen and confirm by the rule of a run's verdict.

    Args:
        looks: Successes of a screening at each panel; shape (panels, runs).
        success: True success at each panel; shape (panels,).
        rule: The rule.
        episodes: Episodes of the panel.
        rng: Random stream of the confirmations.

    Returns:
        When the runs passed. A checkpoint screened at the last panel is confirmed after it.
    """
    panels, runs = looks.shape
    numbers = range(1, panels // 2 + 2)
    screening = np.array([rule.screening_needs(k, episodes) for k in numbers])
    confirmation = np.array([rule.confirmation_needs(k, episodes) for k in numbers])
    failed, passed = np.zeros((2, runs), dtype=np.int64)
    candidate, false = np.zeros((2, runs), dtype=np.bool_)
    for panel in range(panels + 1):
        confirming, true = np.flatnonzero(candidate), success[panel - 1]
        passes = rng.binomial(episodes, true, len(confirming)) >= confirmation[failed[confirming]]
        failed[confirming[~passes]] += 1
        passed[confirming[passes]] = panel + 1
        false[confirming[passes]] = true < rule.target_success
        if panel < panels:
            candidate = (passed == 0) & (looks[panel] >= screening[failed])
            candidate[confirming] = False
    return Passes(panels=passed, false=false)


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
            table.add_column(f"\n{header}")
    soon.add_column("\nfirst good", justify="right")
    for looks in ("independent looks", "same outcomes"):
        for table, headers in ((wrong, ("rule", "naive")), (soon, ("median", "90 %", "never", "too early", "naive"))):
            for line, header in zip((looks, *[""] * 4), headers, strict=False):
                table.add_column(f"{line}\n{header}", justify="right")

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


def _error_cells(finding: Finding) -> list[str]:
    """Return the false passes of the rule, with their interval, and of the naive rule."""
    low, high = wilson_interval(finding.false_passes, finding.runs)
    share = percent(finding.false_passes / finding.runs, 2)
    return [f"{share} [{100 * low:.2f}, {100 * high:.2f}]", percent(finding.naive_false_passes / finding.runs)]


def _pass_cells(finding: Finding) -> list[str]:
    """Return how soon a good policy passed, and how often it passed before it was good."""
    times = [MISSING if value is None else f"{value:.0f}" for value in (finding.median_panels, finding.p90_panels)]
    shares = (finding.without_pass, finding.false_passes, finding.naive_false_passes)
    return [*times, *(percent(share / finding.runs, 2) for share in shares)]
