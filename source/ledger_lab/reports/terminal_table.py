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
from ledger_lab.panels.physics import NATIVE
from ledger_lab.reports.answer import answer_lines, labelled_lines, notes
from ledger_lab.reports.checkpoints import CheckpointSummary
from ledger_lab.reports.cohort_summary import CohortSummary, Yardstick, by_yardstick
from ledger_lab.reports.columns import Shown, Style, TableCell, shown_columns, shown_table
from ledger_lab.reports.ranks import rank_words
from ledger_lab.reports.summary import RunSummary, shortfall, status_cell
from ledger_lab.units import MISSING, counted, gigabytes, percent, quantity, target_share, usd

if TYPE_CHECKING:
    from ledger_lab.ledger import Run
    from ledger_lab.reports.bottleneck import Bottleneck

_NEARLY_FULL = 0.8
"""Share of a capacity of the physics engine from which its use is shown."""
_STYLES: dict[Style, str] = {"good": "green", "short": "yellow", "running": "cyan", "bad": "red"}


def render_report(summaries: Sequence[RunSummary], cohorts: Sequence[CohortSummary], width: int) -> Group:
    """Draw tables of runs and of their cohorts, grouped by yardstick.

    Args:
        summaries: The runs.
        cohorts: Their cohorts.
        width: Columns of the terminal.

    Returns:
        The tables. Below a table of runs are the reasons of their ends, and scores that are invalid.
    """
    blocks: list[Text] = []
    hidden = [0]
    for yardstick, members in by_yardstick(summaries):
        lines, left_out = fitted_table(RunSummary, members, width)
        blocks += [heading_line(yardstick), *lines]
        blocks += [line for member in members for line in _reason_lines(member)]
        own = [each for each in cohorts if each.measured_by == yardstick.fields and each.cohort]
        if own:
            lines, left_out_of_cohorts = fitted_table(CohortSummary, own, width)
            blocks += [Text(), *lines, *(line for cohort in own for line in _cohort_notes(cohort))]
            left_out = max(left_out, left_out_of_cohorts)
        blocks.append(Text())
        hidden.append(left_out)
    if any(member.target_reached for member in summaries):
        blocks.append(Text("intervals of proven policies assume that they reach the target", style="dim"))
    shows = "--details shows every figure of each run"
    if most := max(hidden):
        shows = f"{counted(most, 'column')} hidden in this width; {shows}"
    return _block([*blocks, Text(shows, style="dim")], width)


def render_run(run: Run, summary: RunSummary, bottleneck: Bottleneck | None, width: int) -> Group:
    """Draw everything that is known about a run: its answer first, and its checkpoints last.

    Args:
        run: The run.
        summary: Its figures.
        bottleneck: Where its time went.
        width: Columns of the terminal.
    """
    ((yardstick, _),) = by_yardstick([summary])
    figures = (pair for pair in _figures(RunSummary, summary) if pair[0] != "status")  # the answer and the notes say it
    pairs = [*figures, *_uses(summary, bottleneck)]
    lines = [
        heading_line(yardstick),
        *answer_lines(run, summary, width),
        *([] if summary.reason is None else [Text(summary.reason)]),
        *notes(summary),
        Text(),
        *labelled_lines(pairs, width),
        Text(),
    ]
    if summary.checkpoints:
        lines += [*_checkpoint_lines(summary, width), Text()]
    return _block(lines, width)


def render_cohort(cohort: CohortSummary, width: int) -> Group:
    """Draw all figures of a cohort.

    Args:
        cohort: The cohort.
        width: Columns of the terminal.
    """
    return _block([*labelled_lines([*_figures(CohortSummary, cohort)], width), Text()], width)


def heading_line(yardstick: Yardstick) -> Text:
    """Return what runs are measured with."""
    target = f"target {target_share(yardstick.target_success)} of {yardstick.episodes or 'its'} held-out episodes"
    rules = f" · {yardstick.rules}" if yardstick.rules else ""
    return Text(f"task {yardstick.task} · panel {yardstick.panel} ({yardstick.panel_id[:11]}…) · {target}{rules}")


def _block(lines: Sequence[Text], width: int) -> Group:
    """Return lines, of which only those that are too long are wrapped: rich measures every word, which is slow."""
    for line in lines:
        line.no_wrap = line.no_wrap or line.cell_len <= width
    return Group(*lines)


_GAP = 2
_FEWEST_COLUMNS = 3


def table_lines[Row](kind: type[Row] | Mapping[str, Shown], rows: Sequence[Row], width: int) -> list[Text]:
    """Return a heading line and one line per row, as :func:`fitted_table`.

    Args:
        kind: The columns, as in :func:`~ledger_lab.reports.columns.shown_columns`.
        rows: The rows.
        width: Columns of the terminal.
    """
    return fitted_table(kind, rows, width)[0]


def fitted_table[Row](kind: type[Row] | Mapping[str, Shown], rows: Sequence[Row], width: int) -> tuple[list[Text], int]:
    """Return a heading line and one line per row. Rich's own table would take minutes for ten thousand rows.

    Args:
        kind: The columns, as in :func:`~ledger_lab.reports.columns.shown_columns`.
        rows: The rows.
        width: Columns of the terminal.

    Returns:
        The lines; and the number of columns, the last of the table, that were left out because they do not fit.
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
    return lines, len(columns) - len(widths)


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


def _reason_lines(summary: RunSummary) -> Iterator[Text]:
    """Yield why a run ended, and what is wrong with its scores, in one line each."""
    cell, advice = status_cell(summary), shortfall(summary)
    for words in cell.details:
        if words != advice:
            line = f"{summary.run_id} {cell.text}: {words}"
            yield Text(line, style=_STYLES.get(cell.style, ""), no_wrap=True, overflow="ellipsis")


def _cohort_notes(cohort: CohortSummary) -> Iterator[Text]:
    """Yield which runs of a cohort are missing or repeated, and in what they differ."""
    made = next(shown for name, shown in shown_columns(CohortSummary) if name == "runs").show(cohort)
    if made.details:
        style = "yellow" if cohort.missing_runs else ""
        yield Text(f"cohort {cohort.cohort}: {'; '.join(made.details)}", style=style)


def _figures[Row](kind: type[Row], row: Row) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the titles of all columns, and the figures with their denominators."""
    columns, (cells,) = shown_table(kind, [row])
    for (_, shown), cell in zip(columns, cells, strict=True):
        denominator = f" ({shown.denominator})" if shown.align == "right" and cell.text != MISSING else ""
        yield shown.title, (f"{cell.text} {cell.beside}".rstrip() + denominator, *cell.details)


def _uses(summary: RunSummary, bottleneck: Bottleneck | None) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield where the time of a run went, what it used, and what would make it shorter."""
    yield "gradient steps", [f"{quantity(1000 * summary.gradient_steps_per_env_step)} per 1,000 environment steps"]
    if summary.phases and summary.wall_s:
        shares = sorted(((s / summary.wall_s, phase) for phase, s in summary.phases.items()), reverse=True)
        yield "phases", [f"{phase} {share:.0%}" for share, phase in shares if share >= 0.01]
    if bottleneck is not None:
        yield from _bottleneck_words(bottleneck)
    if summary.host is not None and summary.host.mean_busiest_thread is not None:
        yield "busiest thread", [f"{percent(summary.host.mean_busiest_thread, 0)} of a core, in the mean"]
    for device in summary.devices:
        figures = [
            None if device.mean_utilization is None else f"{device.mean_utilization:.0%} busy",
            None if device.mean_power_w is None else f"{device.mean_power_w:.0f} W",
            None if device.peak_temperature_c is None else f"up to {device.peak_temperature_c:.0f} °C",
            None if device.peak_memory_gb is None else f"up to {gigabytes(device.peak_memory_gb)}",
        ]
        yield device.uuid[:12], [f for f in figures if f] or ["silent"]
    if summary.devices and summary.energy_kwh is None:
        yield "energy", [f"unknown ({summary.energy_undefined_reason})"]
    room = summary.room
    if room is not None and summary.physics != NATIVE:  # MuJoCo's C code drops nothing
        used = (
            ("constraint rows", room.constraints, room.constraint_capacity),
            ("contacts", room.contacts_per_env, room.contact_capacity_per_env),
        )
        for what, most, capacity in used:
            if most > _NEARLY_FULL * capacity:
                yield what, [f"{most:.3g} of the {capacity:.3g} that an environment has room for"]
    if words := rank_words(summary.ranks):
        yield "processes", [words]


def _bottleneck_words(bottleneck: Bottleneck) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield what the GPU determined, and the advice that would save most time."""
    if bottleneck.device_bound is not None:
        yield "GPU-bound", [f"{percent(bottleneck.device_bound, 0)} of {bottleneck.phase}"]
    elif bottleneck.times_launches:
        yield "phases are", ["times of launches; --timing events measures the GPU's work"]
    if bottleneck.advice:
        best = bottleneck.advice[0]
        caveat = [] if best.caveat is None else [best.caveat]
        yield "advice", [f"{best.action}: −{percent(best.gain, 0)} wall-clock", best.basis, *caveat]


def _checkpoint_lines(summary: RunSummary, width: int) -> list[Text]:
    """Return the checkpoints of a run with their held-out scores, in one line each.

    Beside the panel's successes are the episodes that only lasted to their horizon, which Isaac Lab's survival metric
    counts as success.
    """
    lines = table_lines(CheckpointSummary, summary.checkpoints, width)
    for line, checkpoint in zip(lines[1:], summary.checkpoints, strict=True):
        line.stylize("green" if checkpoint.proven else "")
    return lines


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
