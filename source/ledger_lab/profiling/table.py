"""What was measured piece by piece, as rows of a table."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from ledger_lab.meters.probes import Samples
from ledger_lab.profiling.stages import ITERATION
from ledger_lab.units import MISSING, percent


@dataclass(frozen=True, kw_only=True)
class Component:
    """How long one component takes. Times include what was timed inside."""

    path: tuple[str, ...]
    """What it is a part of, the outermost first, and its own name."""
    median_us: float
    p10_us: float
    p90_us: float
    n: int
    """Samples: calls, or the means of blocks of calls where it was measured by itself."""
    calls_per_iteration: float
    """Calls in one iteration; for what is measured by itself, those that a training makes."""
    share: float | None
    """Share of an iteration's time; ``None`` where a training makes no such call."""
    own_share: float | None
    """The same without what was timed inside. Over an iteration and all inside it, these sum to 1."""


def components(samples: Sequence[Samples], iterations: int, rates: Mapping[str, float]) -> list[Component]:
    """Work out each component's figures.

    Args:
        samples: What was measured; the iteration is among it.
        iterations: Iterations that were measured.
        rates: Calls per iteration of what was not measured inside iterations, by name.
    """
    (whole,) = [each for each in samples if each.path == (ITERATION,)]
    iteration_us = sum(whole.total_ns) / 1e3 / iterations
    found = []
    for each in samples:
        alone = each.path[0] != ITERATION
        rate = rates[each.path[0]] if alone else len(each.total_ns) / iterations
        if alone and len(each.path) > 1:
            rate *= len(each.total_ns) / next(len(s.total_ns) for s in samples if s.path == each.path[:1])
        total_us, own_us = (statistics.fmean(times) / 1e3 * rate for times in (each.total_ns, each.own_ns))
        found.append(
            Component(
                path=each.path,
                median_us=each.percentile_us(50),
                p10_us=each.percentile_us(10),
                p90_us=each.percentile_us(90),
                n=len(each.total_ns),
                calls_per_iteration=rate,
                share=total_us / iteration_us if rate else None,
                own_share=own_us / iteration_us if rate else None,
            )
        )
    return found


def component_table(found: Sequence[Component]) -> Table:
    """Draw the components, what is timed inside of another one below it."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("component", no_wrap=True)
    for name in ("median µs", "p10", "p90", "n", "calls/iteration", "share", "own share"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in found:
        table.add_row(
            Text("  " * (len(each.path) - 1) + each.path[-1]),
            *(_microseconds(value) for value in (each.median_us, each.p10_us, each.p90_us)),
            str(each.n),
            f"{each.calls_per_iteration:.3g}" if each.calls_per_iteration else MISSING,
            percent(each.share),
            percent(each.own_share),
            style="bold" if len(each.path) == 1 else None,
        )
    return table


def largest(found: Sequence[Component], count: int) -> list[tuple[str, float]]:
    """Return the names of what an iteration spends most time in, with its shares.

    Calls of the same thing from several places count together. Where something was timed inside, what is left counts.

    Args:
        found: All components.
        count: How many to return.
    """
    shares: dict[str, float] = {}
    for each in found:
        if each.path[0] == ITERATION and each.own_share is not None:
            has_parts = any(other.path[:-1] == each.path for other in found)
            name = f"{each.path[-1]} (the rest)" if has_parts else each.path[-1]
            shares[name] = shares.get(name, 0.0) + each.own_share
    return sorted(shares.items(), key=lambda pair: pair[1], reverse=True)[:count]


def _microseconds(value: float) -> str:
    """Return a time with as many digits as mean something."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
