"""The measured parts of an iteration, as rows of a table."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from ledger_lab.ledger.meters.probes import Samples
from ledger_lab.training.profiling.stages import ITERATION
from ledger_lab.units import MISSING, percent


@dataclass(frozen=True, kw_only=True)
class Component:
    """Times of one component, including its timed inner parts."""

    path: tuple[str, ...]
    """Names of the components around it, the outermost first, then its own name."""
    median_us: float
    p10_us: float
    p90_us: float
    n: int
    """Number of samples: calls, or blocks of calls if it was measured by itself."""
    calls_per_iteration: float
    """Calls per iteration; for a component that was measured by itself, those in a training."""
    share: float | None
    """Share of an iteration's time; ``None`` if a training makes no such call."""
    own_share: float | None
    """The same without its timed inner parts. These shares sum to 1 over an iteration and all its parts."""


def components(samples: Sequence[Samples], iterations: int, rates: Mapping[str, float]) -> list[Component]:
    """Compute the figures of each component.

    Args:
        samples: Measured samples, including those of the iteration.
        iterations: Number of measured iterations.
        rates: Calls per iteration, by name, of components that were measured by themselves.
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
    """Print the components, each with its inner parts below it."""
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
    """Return the components with the largest shares of an iteration, with these shares.

    Calls of the same component from several places are added. Time of inner parts counts for the inner parts.

    Args:
        found: All components.
        count: Number of components to return.
    """
    shares: dict[str, float] = {}
    for each in found:
        if each.path[0] == ITERATION and each.own_share is not None:
            has_parts = any(other.path[:-1] == each.path for other in found)
            name = f"{each.path[-1]} (the rest)" if has_parts else each.path[-1]
            shares[name] = shares.get(name, 0.0) + each.own_share
    return sorted(shares.items(), key=lambda pair: pair[1], reverse=True)[:count]


def _microseconds(value: float) -> str:
    """Return a time with its significant digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
