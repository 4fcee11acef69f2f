"""Tables and definitions of the page as HTML, readable without JavaScript."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ledger_lab.ledger import Status
from ledger_lab.meters import Phase
from ledger_lab.reports.page.model import PageModel, PageRun
from ledger_lab.reports.page.words import PHASE_WORDS, WORDS
from ledger_lab.units import (
    MISSING,
    duration,
    energy,
    environments,
    gigabytes,
    percent,
    quantity,
    target_share,
    usd,
)

STATUS_WORDS = {
    Status.TARGET_REACHED: ("✓", "target reached", "good"),
    Status.COMPLETED: ("○", "completed, short of target", "short"),
    Status.RUNNING: ("…", "running", "running"),
}
"""Sign, words and style of a status; a status missing here is a failure."""


def text(value: object) -> str:
    """Return a value as escaped text, safe anywhere in the markup."""
    return html.escape(str(value), quote=True)


def name(value: object) -> str:
    """Return a name from the ledger as text that cannot change the writing direction of its neighbours."""
    return f"<bdi>{text(value)}</bdi>"


@dataclass(frozen=True)
class _Column:
    """A column of the cost table."""

    key: str
    """Key that its header's button sorts by."""
    title: str
    denominator: str
    """Unit or denominator of its figures, in a few words."""
    cell: Callable[[PageRun], str]
    """Returns the cell's markup."""
    numeric: bool = True

    @property
    def style(self) -> str:
        """Its class in the style sheet."""
        return "number" if self.numeric else "word"


def selection(model: PageModel) -> str:
    """Return how many of the ledger's runs the page shows; empty if it shows all."""
    if not model.left_out_runs:
        return ""
    return f" · {len(model.runs)} of its {len(model.runs) + model.left_out_runs} runs"


def repricing(model: PageModel) -> str:
    """Return the requested price and the declared prices; empty if none was requested."""
    lines = "".join(f"<dt>{text(title)}</dt><dd>{name(words)}</dd>" for title, words in model.repricing)
    return f'<dl class="prices">{lines}</dl>' if lines else ""


def cost_tables(model: PageModel) -> str:
    """Return one table per yardstick, with a line per run."""
    return "\n".join(_cost_table(model, place) for place in range(len(model.yardsticks)))


def _cost_table(model: PageModel, place: int) -> str:
    """Return the table of the runs that are measured by one yardstick."""
    yardstick = model.yardsticks[place]
    episodes = f"{yardstick.episodes}" if yardstick.episodes else "its"
    head = "".join(
        f'<th scope="col" aria-sort="none" class="{column.style}" data-title="{text(column.title)}">'
        f'<button type="button" data-sort="{column.key}">{text(column.title)}</button>'
        f"<small>{text(column.denominator)}</small></th>"
        for column in _COLUMNS
    )
    rows = "".join(_row(index, run) for index, run in enumerate(model.runs) if run.yardstick == place)
    return (
        f'<section class="yardstick" data-yardstick="{place}">'
        f"<h3>{name(yardstick.task)}</h3>"
        f'<p class="exam">panel {name(yardstick.panel)} <code title="{text(yardstick.panel_id)}">'
        f"{text(yardstick.panel_id[:11])}…</code> · target {target_share(yardstick.target_success)} of {episodes} "
        "held-out episodes, confirmed on fresh ones</p>"
        '<div class="scroll" role="region" tabindex="0" aria-label="Cost of every run">'
        f'<table class="cards costs"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
        '<p class="more" hidden></p></section>'
    )


def _row(index: int, run: PageRun) -> str:
    """Return the line of a run, and why it failed if that is known."""
    cells = "".join(
        f'<td data-label="{text(column.title)}" class="{column.style}">{column.cell(run)}</td>' for column in _COLUMNS
    )
    return f'<tr data-run="{index}">{cells}</tr>'


def _run_cell(run: PageRun) -> str:
    """Return a run's id, its cohort, and its health events."""
    figures = run.summary
    parts = [f"<strong>{name(figures['run_id'])}</strong>"]
    if figures["cohort"]:
        parts.append(f"<small>{name(figures['cohort'])}, seed {figures['seed']}</small>")
    else:
        parts.append(f"<small>seed {figures['seed']}</small>")
    return "".join(parts)


def _status_cell(run: PageRun) -> str:
    """Return how a run ended, with its reason."""
    sign, words, style = status_words(run.summary["status"])
    reasons = [run.summary["reason"], run.summary["invalid_reason"] and f"invalid: {run.summary['invalid_reason']}"]
    why = "".join(f'<small class="reason">{name(reason)}</small>' for reason in reasons if reason)
    return f'<span class="status {style}"><span aria-hidden="true">{sign}</span> {text(words)}</span>{why}'


def status_words(status: str) -> tuple[str, str, str]:
    """Return the sign, the words and the style of a status."""
    return STATUS_WORDS.get(Status(status), ("✕", status.replace("_", " "), "bad"))


def _success_cell(run: PageRun) -> str:
    """Return the held-out success with its counts and its interval."""
    figures = run.summary
    if figures["heldout_interval"] is None:
        return MISSING
    low, high = figures["heldout_interval"]
    return (
        f"{percent(figures['heldout_success'])}<small>[{100 * low:.1f}, {100 * high:.1f}]</small>"
        f"<small>{figures['heldout_successes']}/{figures['heldout_episodes']}</small>"
    )


def _time_cell(run: PageRun) -> str:
    """Return the time to target; for a run that missed the target, its whole time as a lower bound."""
    to_target_s = run.summary["wall_to_target_s"]
    return f"&gt; {duration(run.summary['wall_s'])}" if to_target_s is None else duration(to_target_s)


def _memory_cell(run: PageRun) -> str:
    """Return the peak of the accelerator's memory; without one, of the host's."""
    gpu, host = run.summary["peak_gpu_memory_gb"], run.summary["peak_host_memory_gb"]
    if gpu is None and host is None:
        return MISSING
    return f"{gigabytes(gpu)}<small>GPU</small>" if gpu is not None else f"{gigabytes(host)}<small>host</small>"


def _library_cell(run: PageRun) -> str:
    """Return the library, and how many environments it trained in."""
    count = environments(run.summary["num_envs"], run.summary["world_size"])
    return f"{name(run.summary['rl_library'])}<small>{count} envs</small>"


def _cost_cell(run: PageRun) -> str:
    """Return the run's cost and energy; if another price was requested, also the cost at the declared price."""
    figures = run.summary
    known = figures["billable_usd"] is not None
    cost = text(usd(figures["billable_usd"])) if known else _why_unpriced(figures["usd_per_hour"] is not None)
    details = []
    if figures["declared_usd"] not in (None, figures["billable_usd"]):
        details.append(f"declared: {usd(figures['declared_usd'])}")
    if figures["energy_kwh"] is not None:
        details.append(("~" if figures["energy_source"] == "power" else "") + energy(figures["energy_kwh"]))
    return cost + "".join(f"<small>{text(detail)}</small>" for detail in details)


def _instance_cell(run: PageRun) -> str:
    """Return the entry of the price book, its price, and the accelerator or processor."""
    price = run.summary["usd_per_hour"]
    details = [None if price is None else f"{text(usd(price))} per hour", run.accelerator and name(run.accelerator)]
    return name(run.summary["instance"]) + "".join(f"<small>{detail}</small>" for detail in details if detail)


def _why_unpriced(energy_is_unknown: bool) -> str:
    """Return why there is no cost: no price, or no measurement of the energy that is paid on top."""
    return "energy unknown" if energy_is_unknown else "unpriced"


def _figure(key: str, show: Callable[[Any], str]) -> Callable[[PageRun], str]:
    """Return a cell that shows a figure of the summary."""
    return lambda run: text(show(run.summary[key]))


_COLUMNS = (
    _Column("run_id", "run", "cohort, training seed", _run_cell, numeric=False),
    _Column("status", "status", "of its last attempt", _status_cell, numeric=False),
    _Column("heldout_success", "success", "of held-out episodes, 95\u00a0%", _success_cell),
    _Column("wall_to_target_s", "to target", "wall-clock until confirmed", _time_cell),
    _Column("billable_usd", "cost", "and energy, whole run", _cost_cell),
    _Column("env_steps_per_s", "steps/s", "÷ s in the training loop", _figure("env_steps_per_s", quantity)),
    _Column("updates_per_min", "updates/min", "÷ min in the training loop", _figure("updates_per_min", quantity)),
    _Column("evaluation_share", "eval share", "÷ wall-clock", _figure("evaluation_share", percent)),
    _Column("peak_gpu_memory_gb", "peak memory", "of the whole run", _memory_cell),
    _Column("rl_library", "library", "and environments", _library_cell, numeric=False),
    _Column("instance", "instance", "its price, and what it trained on", _instance_cell, numeric=False),
)


_COHORT_COLUMNS = (
    ("cohort", "task", "word"),
    ("runs", "made, of those declared", "number"),
    ("reached", "of the runs made", "number"),
    ("failed", "of the runs made", "number"),
    ("spent", "all runs, failed ones too", "number"),
    ("per target-reaching checkpoint", "spent ÷ runs that reached it", "number"),
    ("median to target", "of all runs made", "number"),
)


def cohort_table(model: PageModel) -> str:
    """Return a line per cohort; runs without a cohort share a line, as in the terminal report."""
    head = "".join(
        f'<th scope="col" class="{style}">{title}<small>{small}</small></th>' for title, small, style in _COHORT_COLUMNS
    )
    rows = "".join(_cohort_row(place, cohort) for place, cohort in enumerate(model.cohorts))
    rows += "".join(_absent_row(*cohort) for cohort in model.absent_cohorts)
    return (
        '<div class="scroll" role="region" tabindex="0" aria-label="Cost of every cohort">'
        f'<table class="cards cohorts"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _cohort_row(place: int, cohort: dict[str, Any]) -> str:
    """Return the line of a cohort."""
    size, runs, lost = cohort.get("declared_runs"), cohort["runs"], cohort.get("missing_runs")
    made = f"{runs} of {size}" if size is not None else f"{runs}"
    missing = f'<small class="bad">{lost} missing</small>' if lost else ""
    interval = cohort.get("usd_per_target_reaching_checkpoint_interval")
    unknown = cohort["runs_of_unknown_energy"]
    spent = _why_unpriced(unknown > 0) if cohort["spend_usd"] is None else usd(cohort["spend_usd"])
    if cohort["usd_per_target_reaching_checkpoint"] is not None:
        each = text(usd(cohort["usd_per_target_reaching_checkpoint"]))
        if interval is not None:
            low, high = interval
            each += f"<small>[{text(usd(low))}, {'∞)' if high is None else text(usd(high)) + ']'} 95 %</small>"
    else:
        least = "" if cohort["spend_usd"] is None else f", ≥ {usd(cohort['spend_usd'])} spent"
        reason = f"the energy of {unknown} runs is unknown" if unknown else cohort["undefined_reason"]
        each = f"undefined{text(least)}<small>{name(_cut(reason))}</small>"
    exactly_s, exceeds_s = cohort["median_wall_to_target_s"], cohort["median_wall_to_target_exceeds_s"]
    median = duration(exactly_s) if exactly_s is not None else f"> {duration(exceeds_s)}"
    title = name(cohort["cohort"]) if cohort["cohort"] else "in no cohort"
    cells = (
        ("cohort", f"<strong>{title}</strong><small>{name(cohort['task'])}</small>"),
        ("runs", made + missing),
        ("reached", f"{cohort['target_reaching_runs']} of {runs}"),
        ("failed", f"{cohort['failed_runs']} of {runs}"),
        ("spent", text(spent)),
        ("per target-reaching checkpoint", each),
        ("median to target", text(median)),
    )
    return f'<tr data-cohort="{place}">{_cohort_cells(cells)}</tr>'


def _cut(reason: str, longest: int = 120) -> str:
    """Shorten a reason, which may name all runs of a large cohort, to fit into a cell."""
    return reason if len(reason) <= longest else f"{reason[:longest]}…"


def _absent_row(cohort: str, size: int) -> str:
    """Return the line of a declared cohort without a run."""
    missing = f'0 of {size}<small class="bad">{size} missing</small>'
    cells = [("cohort", f"<strong>{name(cohort)}</strong>"), ("runs", missing)]
    return f"<tr>{_cohort_cells([*cells, *((title, MISSING) for title, _, _ in _COHORT_COLUMNS[2:])])}</tr>"


def _cohort_cells(cells: Sequence[tuple[str, str]]) -> str:
    """Return cells by the titles of their columns."""
    return "".join(
        f'<td data-label="{label}" class="{"word" if label == "cohort" else "number"}">{cell}</td>'
        for label, cell in cells
    )


def definitions() -> str:
    """Return the definitions of the page's words and phases."""
    words = "".join(f"<dt>{text(word)}</dt><dd>{text(meaning)}</dd>" for word, meaning in WORDS.items())
    phases = "".join(f"<dt>{phase}</dt><dd>{text(PHASE_WORDS[phase])}</dd>" for phase in Phase)
    return f"<dl>{words}</dl><h3>Phases</h3><dl>{phases}</dl>"
