"""The requested price of a report, beside the declared prices of its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group

from ledger_lab.ledger.costs import OWNED, Price, sum_if_known
from ledger_lab.reports.summary import RunSummary
from ledger_lab.units import usd


def render_repricing(asked: Price, summaries: Sequence[RunSummary]) -> Group:
    """Draw :func:`repricing_lines` for the terminal."""
    return Group(*(f"{f'{title}:':<11} {words}" for title, words in repricing_lines(asked, summaries)), "")


def repricing_lines(asked: Price, summaries: Sequence[RunSummary]) -> list[tuple[str, str]]:
    """Return lines with the requested price and the declared prices, each with its total cost.

    Args:
        asked: The requested price.
        summaries: The runs, with costs at that price.

    Returns:
        Titles and words.
    """
    groups: dict[tuple[tuple[str, Any], ...], list[RunSummary]] = {}
    for summary in summaries:
        groups.setdefault(tuple(summary.declared_price.items()), []).append(summary)
    lines = [("asked for", describe_price(asked.to_dict()))]
    for entry, members in groups.items():
        runs = f"{len(members)} run{'' if len(members) == 1 else 's'}"
        now, then = (sum_if_known([getattr(m, name) for m in members]) for name in ("billable_usd", "declared_usd"))
        amounts = f"{runs}, {usd(now)} as asked for" + ("" if then is None else f" instead of {usd(then)}")
        lines.append(("declared", f"{describe_price(dict(entry))} · {amounts}"))
    lines.append(("times", "as measured on the hardware of each run"))
    return lines


def describe_price(entry: Mapping[str, Any]) -> str:
    """Return a price entry in words: price per hour, instance, provider, date and source.

    Args:
        entry: What :meth:`ledger_lab.ledger.costs.Price.to_dict` returns.
    """
    price = Price.from_dict(entry)
    if price.usd_per_hour is None:
        return f"{price.instance} (unpriced)"
    facts = [price.market, f"{price.accelerators} × {price.accelerator or 'accelerator'}"]
    if price.market == OWNED and price.utilization is not None:
        facts.append(f"${price.purchase_usd:g} over {price.lifetime_years:g} years, {price.utilization:.0%} in use")
        facts.append(f"${price.usd_per_kwh:g} per kWh on top")
    facts += [fact for fact in (price.region, price.date, price.source) if fact]
    return f"{price.instance} at ${price.usd_per_hour:.6g} per hour ({', '.join(facts)})"
