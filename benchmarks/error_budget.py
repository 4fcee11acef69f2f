"""``python -m benchmarks error_budget``: how often error budgets are exceeded, in chains and with chosen panels."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.special import bdtrc

from benchmarks.comparison import add_json
from benchmarks.verdict import Scenario, draw_looks, of_runs, pass_by_rule, replace_runs
from ledger_lab.errors import UserError
from ledger_lab.panels import wilson_interval
from ledger_lab.panels.intervals import false_pass_bound
from ledger_lab.panels.verdict import Standing, VerdictRule
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.reports.terminal.progress import Progress
from ledger_lab.units import percent

_EPISODES = 256
"""Episodes of the panel of a chain."""

_PANELS = (10, 40)
"""Panels of each run of a chain: checks and proofs."""

_BRANCHES = 5
"""Runs that begin with the same run."""

CHAINS: dict[str, tuple[tuple[str, float], ...]] = {
    "stays just below": (("stays", 1.001), ("stays", 1.001), ("stays", 1.001)),
    "stays below": (("stays", 1.05), ("stays", 1.05), ("stays", 1.05)),
    "swings just below": (("swings", 1.26), ("swings", 1.26), ("swings", 1.26)),
    "comes closer from run to run": (("stays", 1.2), ("stays", 1.05), ("stays", 1.001)),
    "proves its first target": (("stays", 0.5), ("stays", 1.001), ("stays", 1.001)),
}
"""Policies of a chain, run by run: curve of their true success, and final failure rate as a multiple of what the target
allows. A policy that swings is at 1.26 times 0.8 = 1.008 for half of the time."""

_CHOSEN_PANELS = 40
"""Panels of a run that chooses the sizes of its proofs."""

_SIZES = np.arange(40, 401, 4)
"""Sizes that it chooses from; smaller panels prove nothing."""

type Sizes = Callable[[VerdictRule, Standing, Generator], NDArray[np.int64]]
"""Chooses the episodes of the next panel of each run; shape (runs,)."""


@dataclass(frozen=True, kw_only=True)
class ChainFinding:
    """False passes in many chains of one kind."""

    policies: str
    runs_of_a_chain: int
    panels: int
    """Panels of each run."""
    same_outcomes: bool
    chains: int
    false_passes: int
    """Chains in which a run passes a checkpoint below the target."""
    false_passes_with_new_budgets: int
    """The same if each run had a whole error budget."""


@dataclass(frozen=True, kw_only=True)
class BranchFinding:
    """False passes among runs that begin with the same run."""

    branches: int
    trees: int
    false_passes: int
    """Trees in which one of these runs, or the first one, passes a checkpoint below the target."""
    bound: float
    """Highest probability of a false pass, from the error budgets of all these runs; the mean over the trees."""


@dataclass(frozen=True, kw_only=True)
class SizeFinding:
    """False passes of runs that choose the sizes of their panels."""

    choice: str
    runs: int
    false_passes: int


def bench_error_budget(argv: Sequence[str]) -> int:
    """Simulate chains of runs and chosen panels, and print how often policies below the target pass.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If an argument makes no sense.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks error_budget",
        description="Measure how often policies below the target are proven although the error budget is shared. "
        "First part: chains of two and three runs, each of which starts with a checkpoint of the run before and with "
        "the error budget that this run has left. Second part: several runs that start with checkpoints of the same "
        "run. Third part: a run that chooses the number of episodes of each panel, as the recording API permits, and a "
        "run that cuts its panels after it has seen the outcomes, which the recording API refuses.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks error_budget --runs 5000",
    )
    parser.add_argument(
        "--target", type=float, default=0.9, help="Target: the share of successful episodes to reach (default: 0.9)."
    )
    parser.add_argument(
        "--runs", type=int, default=20000, help="Number of chains and runs of each kind (default: 20000)."
    )
    parser.add_argument("--seed", type=int, default=0, help="Seed of the simulation (default: 0).")
    add_json(parser, "every count")
    args = parser.parse_args(argv)
    if args.runs < 1 or args.seed < 0:
        raise UserError("--runs must be at least 1, and --seed at least 0")
    if not 0.5 <= args.target < 1:
        raise UserError("--target must lie between 0.5 and 1")
    rule = VerdictRule(args.target)
    if not rule.is_decidable(int(_SIZES[0])):
        raise UserError(
            f"--target {args.target:g}: too high to be proven with the smallest panels, {_SIZES[0]} episodes"
        )

    console, rng = make_console(), np.random.default_rng(args.seed)
    jobs = [
        (policies, length, panels, same_outcomes)
        for policies in CHAINS
        for length in (2, 3)
        for panels in _PANELS
        for same_outcomes in (False, True)
    ]
    chains, chosen = list[ChainFinding](), list[SizeFinding]()
    with Progress(console, "kinds of runs", len(jobs) + 1 + len(CHOICES)) as progress:
        for job in jobs:
            chains.append(examine_chain(*job, rule, args.runs, rng))
            progress.advance(len(chains))
        branches = examine_branches(rule, args.runs, rng)
        for choice in CHOICES:
            progress.advance(len(jobs) + 1 + len(chosen))
            chosen.append(examine_sizes(choice, rule, args.runs, rng))
    _print(chains, branches, chosen, rule, console)
    write_findings(
        args.json,
        rule=asdict(rule),
        chains=[asdict(each) for each in chains],
        branches=asdict(branches),
        sizes=[asdict(each) for each in chosen],
    )
    return 0


def examine_chain(
    policies: str, length: int, panels: int, same_outcomes: bool, rule: VerdictRule, chains: int, rng: Generator
) -> ChainFinding:
    """Simulate many chains of runs.

    Args:
        policies: Key of the policies of the chain.
        length: Runs of a chain.
        panels: Panels of each run.
        same_outcomes: See :class:`~benchmarks.verdict.Scenario`.
        rule: The rule of their verdict; its error budget is that of the first run.
        chains: How many chains.
        rng: Random stream.
    """
    scenarios = [
        Scenario(curve=curve, final=_rate(failures, rule), panels=panels, same_outcomes=same_outcomes)
        for curve, failures in CHAINS[policies][:length]
    ]
    false = {carried: np.zeros(chains, dtype=np.bool_) for carried in (True, False)}
    for carried, any_false in false.items():
        left = np.full(chains, rule.error_budget)
        for scenario in scenarios:
            standing = Standing.of(left, (chains,))
            looks = draw_looks(scenario, _EPISODES, chains, rng)
            any_false |= pass_by_rule(looks, scenario.success, rule, _EPISODES, rng, standing).false
            if carried:
                left = standing.after_proof
    return ChainFinding(
        policies=policies,
        runs_of_a_chain=length,
        panels=panels,
        same_outcomes=same_outcomes,
        chains=chains,
        false_passes=int(false[True].sum()),
        false_passes_with_new_budgets=int(false[False].sum()),
    )


def examine_branches(rule: VerdictRule, trees: int, rng: Generator) -> BranchFinding:
    """Simulate runs that all begin with the same run, of a policy just below the target.

    Args:
        rule: The rule; its error budget is that of the first run.
        trees: How many first runs.
        rng: Random stream.
    """
    scenario = Scenario(curve="stays", final=_rate(1.001, rule), panels=_PANELS[0], same_outcomes=False)
    first = Standing.of(rule.error_budget, (trees,))
    looks = draw_looks(scenario, _EPISODES, trees, rng)
    false = pass_by_rule(looks, scenario.success, rule, _EPISODES, rng, first).false
    for _ in range(_BRANCHES):
        looks = draw_looks(scenario, _EPISODES, trees, rng)
        standing = Standing.of(first.after_proof, (trees,))
        false |= pass_by_rule(looks, scenario.success, rule, _EPISODES, rng, standing).false
    bounds = [false_pass_bound([rule.error_budget, *[left] * _BRANCHES]) for left in first.after_proof.tolist()]
    return BranchFinding(branches=_BRANCHES, trees=trees, false_passes=int(false.sum()), bound=float(np.mean(bounds)))


def _rate(failures: float, rule: VerdictRule) -> float:
    """Return the success rate of a policy whose failure rate is a multiple of what the target allows."""
    return round(1 - failures * (1 - rule.target_success), 9)


def examine_sizes(choice: str, rule: VerdictRule, runs: int, rng: Generator) -> SizeFinding:
    """Simulate runs of a policy just below the target that choose the sizes of their panels.

    Args:
        choice: How they choose, a key of :data:`CHOICES`.
        rule: The rule of their verdict.
        runs: How many runs.
        rng: Random stream.
    """
    success = _rate(1.001, rule)
    sizes_of, extends, cuts = CHOICES[choice]
    standing, false = Standing.of(rule.error_budget, (runs,)), 0
    for _ in range(_CHOSEN_PANELS):
        anew = np.flatnonzero(~rule.goes_on(standing) | (not extends))
        replace_runs(standing, anew, rule.begin(of_runs(standing, anew)))
        sizes = sizes_of(rule, standing, rng)
        successes = rng.binomial(sizes, success)
        if cuts:
            sizes, successes = _cut(rule, standing, success, rng)
        for episodes in np.unique(sizes).tolist():
            these = np.flatnonzero(sizes == episodes)
            replace_runs(standing, these, rule.after(of_runs(standing, these), successes[these], episodes))
        false += int(standing.passed.sum())
        standing = of_runs(standing, np.flatnonzero(~standing.passed))
    return SizeFinding(choice=choice, runs=runs, false_passes=false)


def _same(rule: VerdictRule, standing: Standing, rng: Generator) -> NDArray[np.int64]:
    """Choose the same size every time."""
    return np.full(standing.left.shape, _EPISODES)


def _random(rule: VerdictRule, standing: Standing, rng: Generator) -> NDArray[np.int64]:
    """Choose a size at random."""
    return rng.choice(_SIZES, standing.left.shape)


def _likeliest(rule: VerdictRule, standing: Standing, rng: Generator) -> NDArray[np.int64]:
    """Choose the size with which a policy at the target passes most likely."""
    chances = [
        bdtrc(rule.needs(standing, episodes) - 1.0, episodes, rule.target_success) for episodes in _SIZES.tolist()
    ]
    return _SIZES[np.argmax(chances, axis=0)]


def _cut(
    rule: VerdictRule, standing: Standing, success: float, rng: Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Play the largest panel, and cut it after the first episode with which it passes, if there is one.

    Returns:
        Sizes and successes of the panels that are recorded.
    """
    runs = standing.left.size
    won = np.cumsum(rng.random((runs, int(_SIZES[-1]))) < success, axis=1)
    sizes = np.full(runs, _SIZES[-1])
    for episodes in _SIZES[::-1].tolist():
        sizes[won[:, episodes - 1] >= rule.needs(standing, episodes)] = episodes
    return sizes, won[np.arange(runs), sizes - 1]


CHOICES: dict[str, tuple[Sizes, bool, bool]] = {
    f"{_EPISODES} episodes each time": (_same, True, False),
    "random sizes": (_random, True, False),
    "random sizes, no extensions": (_random, False, False),
    "sizes that pass most likely": (_likeliest, True, False),
    "sizes that pass most likely, no extensions": (_likeliest, False, False),
    "panels cut after their outcomes are seen": (_same, True, True),
}
"""How sizes are chosen, whether near misses are extended, and whether a panel is cut after its outcomes are known."""


def _print(
    chains: Sequence[ChainFinding],
    branches: BranchFinding,
    chosen: Sequence[SizeFinding],
    rule: VerdictRule,
    console: Console,
) -> None:
    """Print one table for chains and one for chosen sizes, with a line on branches between them."""
    table = _table("Chains in which a policy below the target passes", "policies", "runs", "panels of each", "looks")
    for header in ("error budget carried over", "new error budgets"):
        table.add_column(header, justify="right")
    for each in chains:
        counts = (each.false_passes, each.false_passes_with_new_budgets)
        looks = "same outcomes" if each.same_outcomes else "independent"
        head = (each.policies, str(each.runs_of_a_chain), str(each.panels), looks)
        table.add_row(*head, *(_share(count, each.chains) for count in counts))
    console.print(table)
    worst = percent(max(each.false_passes / each.chains for each in chains), 2)
    trees = _share(branches.false_passes, branches.trees)
    lines = (
        f"at most {worst} of any kind of chain; {percent(rule.error_budget, 0)} allowed",
        "",
        f"trees of a first run and {branches.branches} runs that start with it: a policy below the target passes in "
        f"{trees}; the bound for all their runs is {percent(branches.bound)}",
        "",
    )
    console.print(*lines, sep="\n", soft_wrap=True)
    table = _table("Runs that choose their panels: how often a policy below the target passes", "choice")
    table.add_column("runs that pass", justify="right")
    for found in chosen:
        table.add_row(found.choice, _share(found.false_passes, found.runs))
    console.print(table)


def _table(title: str, *headers: str) -> Table:
    """Return an empty table."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for header in headers:
        table.add_column(header)
    return table


def _share(count: int, of: int) -> str:
    """Return a share with its 95 % interval."""
    low, high = wilson_interval(count, of)
    return f"{percent(count / of, 2)} [{100 * low:.2f}, {100 * high:.2f}]"
