"""The report in the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Group
from rich.text import Text

from ledger_lab.ledger import Cohort
from ledger_lab.ledger.costs.model import sum_if_known
from ledger_lab.ledger.costs.prices import OWNED, Price
from ledger_lab.reports.answer import notes
from ledger_lab.reports.checkpoints import CheckpointSummary
from ledger_lab.reports.cohort_summary import CohortSummary, by_yardstick
from ledger_lab.reports.columns import Shown, Style, TableCell, shown_table
from ledger_lab.reports.ranks import rank_line
from ledger_lab.reports.summary import RunSummary, status_cell
from ledger_lab.units import counted, duration, energy, gigabytes, percent, target_share, usd

if TYPE_CHECKING:
    from ledger_lab.reports.bottleneck import Bottleneck

_ASSUMED = " · intervals of proven policies assume that they reach the target"
_STYLES: dict[Style, str] = {"good": "green", "short": "yellow", "running": "cyan", "bad": "red"}


def render_report(
    summaries: Sequence[RunSummary],
    cohorts: Sequence[CohortSummary],
    width: int,
    bottlenecks: Mapping[str, Bottleneck] | None = None,
    *,
    details: bool = True,
) -> Group:
    """Draw all runs, grouped by yardstick.

    Args:
        summaries: The runs.
        cohorts: Their cohorts.
        width: Columns of the terminal.
        bottlenecks: Bottlenecks of the runs, by run id.
        details: Whether to show where the time of each run went, and what it used.

    Returns:
        One block per yardstick, with a line per cohort below.
    """
    blocks: list[Text] = []
    for yardstick, members in by_yardstick(summaries):
        heading = (
            f"task {yardstick.task} · panel {yardstick.panel} ({yardstick.panel_id[:11]}…) · target "
            f"{target_share(yardstick.target_success)} of {yardstick.episodes or 'its'} held-out episodes"
        )
        rules = f" · {yardstick.rules}" if yardstick.rules else ""
        any_proven = any(member.target_reached for member in members)
        blocks += [Text(f"{heading}{rules}{_ASSUMED if any_proven else ''}"), *table_lines(RunSummary, members, width)]
        blocks += [line for member in members for line in _notes(member)]
        together = [cohort for cohort in cohorts if cohort.cohort or cohort.runs > 1]
        blocks += [cohort_line(cohort) for cohort in together if cohort.measured_by == yardstick.fields]
        advising = _advising(members, bottlenecks or {})
        for member in members if details else ():
            lines = [*_load_lines(member), *rank_line(member.run_id, member.ranks)]
            if bottleneck := (bottlenecks or {}).get(member.run_id):
                lines += _bottleneck_lines(bottleneck, advises=member.run_id in advising)
            blocks += [Text(line, style="dim") for line in lines]
        blocks.append(Text())
    for block in blocks:
        block.no_wrap = block.no_wrap or block.cell_len <= width  # otherwise rich measures every word, which is slow
    return Group(*blocks)


_GAP = 2
_FEWEST_COLUMNS = 3


def table_lines[Row](kind: type[Row] | Mapping[str, Shown], rows: Sequence[Row], width: int) -> list[Text]:
    """Return a heading line and one line per row. Rich's own table would take minutes for ten thousand rows.

    Args:
        kind: The columns, as in :func:`~ledger_lab.reports.columns.shown_columns`.
        rows: The rows.
        width: Columns of the terminal; the last columns of the table that do not fit are left out.
    """
    columns, cells = shown_table(kind, rows)
    texts, widths = _fitted(columns, cells, width)
    lines = [_line(row, widths, [shown.align for _, shown in columns]) for row in texts]
    lines[0].stylize("bold")
    for line, row, own in zip(lines[1:], texts[1:], cells, strict=True):
        begin = 0
        for text, cell, wanted in zip(row, own, widths, strict=False):
            if cell.style:
                line.stylize(_STYLES[cell.style], begin, begin + len(text))
            begin += len(text) + wanted - cell_len(text) + _GAP
    return lines


def _fitted(
    columns: Sequence[tuple[str, Shown]], rows: Sequence[Sequence[TableCell]], width: int
) -> tuple[list[list[str]], list[int]]:
    """Return the heading and the cells as texts, and the widths of the columns that a terminal has room for."""
    texts = [[shown.title for _, shown in columns], *([f"{c.text} {c.beside}".rstrip() for c in row] for row in rows)]
    widths: list[int] = []
    for place in range(len(columns)):
        wanted = max(cell_len(row[place]) for row in texts)
        if sum(widths) + _GAP * len(widths) + wanted > width and len(widths) >= _FEWEST_COLUMNS:
            break
        widths.append(wanted)
    return texts, widths


def _line(texts: Sequence[str], widths: Sequence[int], aligns: Sequence[str]) -> Text:
    """Return cells side by side."""
    padded = []
    for text, cell_width, align in zip(texts, widths, aligns, strict=False):
        space = " " * (cell_width - cell_len(text))
        padded.append(space + text if align == "right" else text + space)
    return Text((" " * _GAP).join(padded).rstrip(), no_wrap=True, overflow="ellipsis")


def _notes(summary: RunSummary) -> Iterator[Text]:
    """Yield the reason of a run's end, and what is to be known about it."""
    cell = status_cell(summary)
    if summary.reason is not None:
        yield Text(f"{summary.run_id} {cell.text}: {summary.reason}", style=_STYLES.get(cell.style, ""))
    for note in notes(summary):
        yield Text(f"{summary.run_id} ").append_text(note)


def _advising(members: Sequence[RunSummary], bottlenecks: Mapping[str, Bottleneck]) -> set[str]:
    """Return the runs that show their advice: of each cohort, the run whose advice would save the largest share."""
    best: dict[str, tuple[float, str]] = {}
    for member in members:
        found = bottlenecks.get(member.run_id)
        if found is not None and found.advice:
            key = f"cohort {member.cohort}" if member.cohort is not None else member.run_id
            best[key] = max(best.get(key, (0.0, "")), (found.advice[0].gain, member.run_id))
    return {run_id for _, run_id in best.values()}


def _bottleneck_lines(bottleneck: Bottleneck, *, advises: bool) -> Iterator[str]:
    """Yield what the GPU determined, and the advice that would save most time, if this run is to give one."""
    if bottleneck.device_bound is not None:
        yield f"  the GPU determined {percent(bottleneck.device_bound, 0)} of {bottleneck.phase}"
    elif bottleneck.times_launches:
        yield "  in its training loop, these are times of launches; --timing events measures the GPU's work"
    if advises:
        best = bottleneck.advice[0]
        caveat = "" if best.caveat is None else f"; {best.caveat}"
        yield f"  → {best.action}: −{percent(best.gain, 0)} wall-clock ({best.basis}{caveat})"


def _load_lines(summary: RunSummary) -> Iterator[str]:
    """Yield where the time of a run went, the largest phases first; and its load on hosts and accelerators."""
    if summary.phases and summary.wall_s:
        shares = sorted(((s / summary.wall_s, phase) for phase, s in summary.phases.items()), reverse=True)
        named = " · ".join(f"{phase} {share:.0%}" for share, phase in shares if share >= 0.01)
        yield f"{summary.run_id} took {duration(summary.wall_s)}: {named}"
    parts: list[str] = []
    if summary.host is not None:
        thread = summary.host.mean_busiest_thread
        parts.append(f"{summary.host.cpu_s_per_s:.1f} cores busy")
        parts += [] if thread is None else [f"busiest thread {thread:.0%}"]
        parts.append(f"{gigabytes(summary.host.peak_memory_gb)} of host memory")
    if (room := summary.room) is not None:
        parts.append(
            f"at most {room.constraints} of {room.constraint_capacity} constraint rows in an environment and "
            f"{room.contacts_per_env:.1f} of {room.contact_capacity_per_env:.1f} contacts in the mean of all"
        )
    for device in summary.devices:
        figures = [
            None if device.mean_utilization is None else f"{device.mean_utilization:.0%} busy",
            None if device.mean_power_w is None else f"{device.mean_power_w:.0f} W",
            None if device.peak_temperature_c is None else f"up to {device.peak_temperature_c:.0f} °C",
            None if device.peak_memory_gb is None else f"up to {gigabytes(device.peak_memory_gb)}",
        ]
        parts.append(f"{device.uuid[:12]} {', '.join(f for f in figures if f) or 'silent'}")
    if summary.energy_kwh is not None:
        integrated = " (integrated from its power)" if summary.energy_source == "power" else ""
        parts.append(f"{energy(summary.energy_kwh)}{integrated}")
    elif summary.devices:
        parts.append(f"energy unknown ({summary.energy_undefined_reason})")
    if parts:
        yield f"{summary.run_id} used {' · '.join(parts)}"


def render_checkpoints(summary: RunSummary, width: int) -> Group:
    """Draw the learning curve of a run: its checkpoints with their held-out scores.

    Beside the panel's successes it shows the episodes that only lasted to their horizon, which Isaac Lab's survival
    metric counts as success.

    Args:
        summary: The run.
        width: Columns of the terminal; the last columns of the table that do not fit are left out.
    """
    lines = table_lines(CheckpointSummary, summary.checkpoints, width)
    for line, checkpoint in zip(lines[1:], summary.checkpoints, strict=True):
        line.stylize("green" if checkpoint.proven else "")
    return Group(Text(f"run {summary.run_id}", style="italic"), *lines)


def cohort_line(cohort: CohortSummary) -> Text:
    """Return the columns of a cohort in one line.

    Args:
        cohort: The cohort.
    """
    ((_, *columns), ((name, *cells),)) = shown_table(CohortSummary, [cohort])
    parts = []
    for (_, shown), cell in zip(columns, cells, strict=True):
        details = f" ({'; '.join(cell.details)})" if cell.details else ""
        parts.append(f"{shown.title} {cell.text}{details}")
    title = f"cohort {name.text}" if cohort.cohort else name.text
    return Text(f"{title}: {' · '.join(parts)}", style="yellow" if cohort.missing_runs else "")


def absent_cohort_lines(cohorts: Sequence[Cohort]) -> list[Text]:
    """Return one line for each declared cohort that has no run.

    Args:
        cohorts: Cohorts of declared size.
    """
    return [
        Text(f"cohort {cohort.name}: {cohort.size} of {counted(cohort.size, 'declared run')} missing", style="yellow")
        for cohort in cohorts
        if not cohort.run_ids
    ]


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
        runs = counted(len(members), "run")
        now, then = (sum_if_known([getattr(m, name) for m in members]) for name in ("billable_usd", "declared_usd"))
        amounts = f"{runs}, {usd(now)} as asked for" + ("" if then is None else f" instead of {usd(then)}")
        lines.append(("declared", f"{describe_price(dict(entry))} · {amounts}"))
    lines.append(("times", "as measured on the hardware of each run"))
    return lines


def describe_price(entry: Mapping[str, Any]) -> str:
    """Return a price entry in words: price per hour, instance, provider, date and source.

    Args:
        entry: What :meth:`ledger_lab.ledger.costs.prices.Price.to_dict` returns.
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
