"""``python -m benchmarks evaluators``: the errors of common ways to evaluate a policy in parallel environments."""

from __future__ import annotations

import argparse
import heapq
import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from rich.table import Table

from benchmarks.comparison import add_json
from ledger_lab.errors import UserError
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.reports.terminal.progress import Progress

_NUM_ENVS = (16, 64, 256, 1024)
_EARLY_STEPS = (50, 200)
"""Shortest and longest successful episode [steps]."""
_HORIZON_STEPS = 500
"""Length of a failed episode, which times out [steps]."""
_RECENT = 100
"""Episodes in the sliding window whose mean RL libraries log."""


@dataclass(frozen=True, kw_only=True)
class Episodes:
    """A policy's episodes in the order of their seeds; the seed alone determines an episode."""

    steps: NDArray[np.int64]
    """Length of each episode; shape (episodes,)."""
    success: NDArray[np.bool_]
    """Outcome of each episode; shape (episodes,)."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Errors of one evaluator with one number of environments, over many panels."""

    evaluator: str
    num_envs: int
    success: float
    """Probability with which an episode succeeds."""
    mean_error: float
    """Mean of the evaluator's share minus the share of the panel's seeds, in [-1, 1]."""
    error_spread: float
    """Standard deviation over the panels."""
    max_error: float
    """Largest absolute error."""


def bench_evaluators(argv: Sequence[str]) -> int:
    """Evaluate one policy in several common ways, and print the error of each in the share of successes.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If an argument makes no sense.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks evaluators",
        description="Measure the errors of common ways to evaluate a policy in vectorized environments that reset "
        "themselves. No physics is simulated. The seed of an episode decides whether it succeeds early "
        f"({_EARLY_STEPS[0]} to {_EARLY_STEPS[1]} steps) or fails late ({_HORIZON_STEPS} steps). The output is the "
        "error of each way, compared with the success over all seeds of the panel, for several numbers of "
        "environments.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks evaluators --success 0.8 0.95 --panels 200",
    )
    parser.add_argument(
        "--success",
        type=float,
        nargs="+",
        default=[0.6, 0.9],
        metavar="SHARE",
        help="True shares of successful episodes of the policies (default: 0.6 and 0.9).",
    )
    parser.add_argument("--episodes", type=int, default=256, help="Number of episodes of a panel (default: 256).")
    parser.add_argument(
        "--panels",
        type=int,
        default=100,
        help="Number of panels, each with other seeds, to evaluate on (default: 100).",
    )
    parser.add_argument("--seed", type=int, default=0, help="Seed to draw the panels with (default: 0).")
    add_json(parser, "every figure")
    args = parser.parse_args(argv)
    if args.panels < 1 or args.episodes < 1 or args.seed < 0 or not all(0 <= share <= 1 for share in args.success):
        raise UserError("--panels and --episodes must be at least 1, --seed at least 0, and each --success in [0, 1]")

    console = make_console()
    rng = np.random.default_rng(args.seed)
    findings: list[Finding] = []
    cases = [*itertools.product(args.success, _NUM_ENVS)]
    with Progress(console, "cases", len(cases)) as progress:
        for done, (success, num_envs) in enumerate(cases, start=1):
            findings += examine(num_envs, args.episodes, success, args.panels, rng)
            progress.advance(done)
    evaluators = list(dict.fromkeys(finding.evaluator for finding in findings))
    table = Table("success", "num_envs", *evaluators, box=None, pad_edge=False)
    for row in itertools.batched(findings, len(evaluators)):
        cells = (f"{100 * finding.mean_error:+.1f} ± {100 * finding.error_spread:.1f}" for finding in row)
        table.add_row(f"{row[0].success:.0%}", str(row[0].num_envs), *cells)
    console.print(f"evaluated minus true success of {args.episodes} seeds, in points (mean ± standard deviation)")
    console.print(table)
    write_findings(args.json, findings=[asdict(finding) for finding in findings])
    return 0


def examine(num_envs: int, count: int, success: float, panels: int, rng: Generator) -> list[Finding]:
    """Try all evaluators on many panels.

    Args:
        num_envs: Environments side by side.
        count: Episodes of each panel.
        success: True success of the policy.
        panels: How many panels.
        rng: Random stream.

    Returns:
        One finding per evaluator.
    """
    errors: dict[str, list[float]] = {}
    for _ in range(panels):
        episodes = draw_episodes(4 * (count + num_envs), success, rng)
        true = float(episodes.success[:count].mean())
        for evaluator, share in evaluate(episodes, num_envs, count).items():
            errors.setdefault(evaluator, []).append(share - true)
    return [
        Finding(
            evaluator=evaluator,
            num_envs=num_envs,
            success=success,
            mean_error=float(np.mean(found)),
            error_spread=float(np.std(found)),
            max_error=float(np.abs(found).max()),
        )
        for evaluator, found in errors.items()
    ]


def draw_episodes(count: int, success: float, rng: Generator) -> Episodes:
    """Draw episodes: successes are short, failures last to the horizon."""
    succeeds = rng.random(count) < success
    early = rng.integers(*_EARLY_STEPS, count, endpoint=True)
    return Episodes(steps=np.where(succeeds, early, _HORIZON_STEPS), success=succeeds)


def evaluate(episodes: Episodes, num_envs: int, count: int) -> dict[str, float]:
    """Return the share of successes by each evaluator.

    Args:
        episodes: More episodes than any evaluator looks at; the first ``count`` are those of the panel.
        num_envs: Environments side by side.
        count: Episodes of the panel.

    Returns:
        Shares by evaluator. The evaluator with a fixed number of frames gets as many as ``count`` episodes take on
        average, and at least those of the first episode. The evaluator of the last finished episodes takes the last
        episodes within these frames.
    """
    seeds, ends = run_vectorized(episodes.steps, num_envs)
    in_time = seeds[: max(1, np.searchsorted(ends, episodes.steps.mean() * count / num_envs, side="right"))]
    counted = {
        "first N finished": seeds[:count],
        "fixed number of frames": in_time,
        f"last {_RECENT} finished": in_time[-_RECENT:],
        "each seed once": seeds[seeds < count],
    }
    return {evaluator: float(episodes.success[chosen].mean()) for evaluator, chosen in counted.items()}


def run_vectorized(steps: NDArray[np.int64], num_envs: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Run episodes as a vectorized environment does: when an episode ends, the next seed starts at once.

    Args:
        steps: Length of each episode, in the order of their seeds; shape (episodes,).
        num_envs: Environments side by side.

    Returns:
        The seeds in the order in which their episodes end (at the same step, in the order of the environments), and the
        steps of the environment at which they end; each of shape (episodes,).
    """
    lengths = steps.tolist()
    running = [(length, env, env) for env, length in enumerate(lengths[:num_envs])]
    heapq.heapify(running)
    waiting = iter(range(num_envs, len(lengths)))
    ended: list[tuple[int, int]] = []
    while running:
        now, env, seed = heapq.heappop(running)
        ended.append((seed, now))
        following = next(waiting, None)
        if following is not None:
            heapq.heappush(running, (now + lengths[following], env, following))
    seeds, ends = np.array(ended, dtype=np.int64).T
    return seeds, ends
