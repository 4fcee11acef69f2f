"""The tables in ``docs/generated``, made from the journals and reports in ``records/``.

A folder belongs to a task if its name is ``<task>-<hardware>``, like ``velocity-flat-anymalc-cpu``; ``<task>`` is the
id without ``LedgerLab-``, in lower case. All runs in the folder count, failed runs included.

``python -m tools.records RECORDS PAGES`` writes each table into its page ``PAGES/<name>.md``, and the times to target
into the package.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ledger_lab.files import times_file
from ledger_lab.ledger import CapacityUsed, EvaluationStarted, Ledger, Outcomes, PanelResult, Run, read_ledger
from ledger_lab.ledger.costs.time_to_target import RunTime
from ledger_lab.reports.checkpoints import share_of
from ledger_lab.reports.cohort_summary import CohortSummary, median_time_cell, summarize_cohorts
from ledger_lab.reports.summary import RunSummary, summarize_run
from ledger_lab.units import MISSING, duration, percent, quantity, share_within, usd
from tools.study_tables import algorithms_table, budget_table, median_words, update_to_data_table

BEGIN, END = "<!-- {}, made from records/ -->", "<!-- end of {} -->"
"""The lines around a table in its page; the braces stand for the name of the table."""

_COLUMNS = (
    "task",
    "runs that reached it",
    "success (95 %)",
    "time to target",
    "environment steps",
    "cost per target-reaching checkpoint",
    "under another engine",
)
_PHASES = {
    "start-up": ("startup", "compile"),
    "`simulate`": ("simulate",),
    "`manage`": ("manage",),
    "`infer`": ("infer",),
    "`returns`, `learn`": ("returns", "learn"),
    "`evaluate`": ("evaluate",),
}
"""Columns of the table of phases, and the phases of each."""
_PERTURBED = ("task", "episodes", "worst cell", "constraint rows needed", "and in training")

_SAME_EPISODES = ("task", "seeds", "cells", "episode_length_s", "success", "policy_mode", "observation_noise")
"""Fields of a panel's identity that must be equal for episodes to be the same in different simulations."""


def records_table(records: Path) -> str:
    """Return one row per task, hardware and cohort, in Markdown.

    Args:
        records: The folder with the records.

    Returns:
        The table, without a line break at the end.
    """
    lines = [_row(*_COLUMNS), "|" + "---|" * len(_COLUMNS)]
    lines += (_row(*_cells(cohort, runs, members)) for cohort, runs, members in _cohorts(records))
    return "\n".join(lines)


def times_to_target(records: Path) -> dict[str, str]:
    """Return the median time to target of each task, with the default command: the one time that all places show.

    Args:
        records: The folder with the records.

    Returns:
        The cells of the time, by Gymnasium id.

    Raises:
        ValueError: If a task has several cohorts with the default library.
    """
    times: dict[str, str] = {}
    for cohort, runs, _ in _cohorts(records):
        if {run.declared.rl_library for run in runs} == {"rsl_rl"}:
            if cohort.task in times:
                raise ValueError(f"{cohort.task} has several cohorts with the default command")
            times[cohort.task] = _time(cohort, runs)
    return times


def write_times(records: Path) -> None:
    """Write the times to target into the package.

    Args:
        records: The folder with the records.
    """
    lines = [f'{task} = "{time}"' for task, time in times_to_target(records).items()]
    comment = "# Median times to target (min:s), written from records/ by tools/records.py."
    times_file().write_text("\n".join((comment, *lines, "")), encoding="utf-8")


def phases_table(records: Path) -> str:
    """Return one row per task, hardware and cohort, in Markdown: where the time of all its runs went.

    Args:
        records: The folder with the records.

    Returns:
        The table, without a line break at the end.
    """
    lines = [_row("task", "time of all runs", *_PHASES, "rest"), "|" + "---|" * (3 + len(_PHASES))]
    for cohort, runs, members in _cohorts(records):
        spent: Counter[str] = Counter()
        for each in members:
            spent.update(each.phases)
        whole_s = sum(each.wall_s for each in members)
        parts_s = [sum(spent[phase] for phase in phases) for phases in _PHASES.values()]
        shares = (percent(part_s / whole_s, 0) for part_s in (*parts_s, whole_s - sum(parts_s)))
        lines.append(_row(_what(cohort.task, runs, began=False), duration(whole_s), *shares))
    return "\n".join(lines)


def robustness_table(records: Path) -> str:
    """Return one row per policy that was scored on a robustness panel under the engine of its training, in Markdown.

    The number of constraint rows is the largest of any slot at any physics step, in that evaluation and in the
    training.

    Args:
        records: The folder with the records.

    Returns:
        The table, without a line break at the end.
    """
    lines = [_row(*_PERTURBED), "|" + "---|" * len(_PERTURBED)]
    for _, runs in _recorded(records):
        for run in runs:
            if scored := _perturbed(run, summarize_run(run)):
                outcomes, used = scored
                attempts = [row for attempt in run.attempts for row in attempt.of(CapacityUsed)]
                there = f"{outcomes.successes} of {outcomes.episodes}"
                lines.append(_row(f"`{run.declared.task}`", there, _worst(outcomes), _rows(used), _rows(attempts)))
    return "\n".join(lines)


TABLES: dict[str, Callable[[Path], str]] = {
    "tasks": records_table,
    "phases": phases_table,
    "robustness": robustness_table,
    **{
        f"off-policy-{task}": partial(algorithms_table, name=f"off-policy-{task}-cpu")
        for task in ("cartpole", "reach", "ant")
    },
    "off-policy-anymal": partial(budget_table, name="off-policy-anymal-cpu"),
    "update-to-data": partial(update_to_data_table, name="update-to-data-cpu"),
}
"""Functions that make the tables, by the names of their pages."""


def write_tables(records: Path, pages: Path) -> None:
    """Update the pages with the tables.

    Args:
        records: The folder with the records.
        pages: The folder with one page per table, ``<name>.md``.

    Raises:
        ValueError: If a page has no place for its table.
    """
    for name, make in TABLES.items():
        page, begins, ends = pages / f"{name}.md", BEGIN.format(name), END.format(name)
        before, begin, rest = page.read_text(encoding="utf-8").partition(begins)
        _, end, after = rest.partition(ends)
        if not begin or not end:
            raise ValueError(f"{page} has no lines {begins!r} and {ends!r}")
        page.write_text(f"{before}{begin}\n\n{make(records)}\n\n{end}{after}", encoding="utf-8")


def _recorded(records: Path) -> Iterator[tuple[Ledger, list[Run]]]:
    """Yield the ledger of each folder, and its runs of the folder's task."""
    for folder in sorted(path for path in records.iterdir() if path.is_dir()):
        ledger = read_ledger(folder)
        named = folder.name.rpartition("-")[0]
        yield ledger, [run for run in ledger.runs if run.declared.task.removeprefix("LedgerLab-").lower() == named]


def _cohorts(records: Path) -> Iterator[tuple[CohortSummary, Sequence[Run], Sequence[RunSummary]]]:
    """Yield the cohorts of each task, with their runs and what the runs amount to."""
    for ledger, runs in _recorded(records):
        summaries = {run.declared.run_id: summarize_run(run) for run in runs}
        for cohort in summarize_cohorts(list(summaries.values()), ledger.cohorts):
            yardstick = (cohort.cohort, cohort.task, cohort.panel_id, cohort.target_success)
            members = [
                (run, each)
                for run, each in zip(runs, summaries.values(), strict=True)
                if (each.cohort, each.task, each.panel_id, each.target_success) == yardstick
            ]
            yield cohort, [run for run, _ in members], [each for _, each in members]


def _row(*cells: str) -> str:
    """Return a line of the table."""
    return f"| {' | '.join(cells)} |"


def _cells(cohort: CohortSummary, runs: Sequence[Run], members: Sequence[RunSummary]) -> tuple[str, ...]:
    """Return the cells of some runs: the lowest success, and medians of time and cost."""
    return (
        _what(cohort.task, runs),
        f"{cohort.target_reaching_runs} of {max(cohort.declared_runs or 0, cohort.runs)}",
        _success(runs, members),
        _time(cohort, runs),
        _steps(members) + _before(_beginnings(runs), "env_steps", quantity),
        _cost(cohort) + _before(_beginnings_elsewhere(runs), "usd", usd),
        _elsewhere(runs, members),
    )


def _time(cohort: CohortSummary, runs: Sequence[Run]) -> str:
    """Return the median time to target; after the +, the time of the trainings that the runs began with."""
    return median_time_cell(cohort) + _before(_beginnings(runs), "wall_s", duration)


def _what(task: str, runs: Sequence[Run], *, began: bool = True) -> str:
    """Return the task; if its library or configuration is not the usual one of RSL-RL, name it as well.

    Args:
        task: Gymnasium id of the task.
        runs: The runs.
        began: Whether to name the tasks whose policies the runs began with.
    """
    libraries = {f"`--rl_library {run.declared.rl_library}`" for run in runs if run.declared.rl_library != "rsl_rl"}
    agents = {f"`--agent {run.declared.agent}`" for run in runs if run.declared.agent is not None}
    tasks = " or ".join(sorted({f"`{each['task']}`" for each in _beginnings(runs)})) if began else ""
    before = [f"(started from a policy of {tasks}; figures after the + cover the earlier trainings)"] if tasks else []
    return " ".join((f"`{task}`", *sorted(libraries), *sorted(agents), *before))


def _beginnings(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return the checkpoints that runs began with."""
    return [run.declared.began_from for run in runs if run.declared.began_from is not None]


def _beginnings_elsewhere(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return the checkpoints of other runs; the cost of the given runs is counted already."""
    ours = {run.declared.run_id for run in runs}
    return [began for began in _beginnings(runs) if began["run_id"] not in ours]


def _before(beginnings: Sequence[dict[str, Any]], figure: str, written: Callable[[Any], str]) -> str:
    """Return the largest value of a figure among the checkpoints that runs began with."""
    known = [began[figure] for began in beginnings]
    return f" + {MISSING if None in known else written(max(known))}" if known else ""


def _success(runs: Sequence[Run], members: Sequence[RunSummary]) -> str:
    """Return the lowest proven success; if no run proved its target, the best score, named as such."""
    proven = [
        (each.heldout_success, each.heldout_interval)
        for each in members
        if each.target_reached and each.heldout_success is not None and each.heldout_interval is not None
    ]
    if proven:
        return share_within(*min(proven))
    scores = [
        share_of(row.outcomes)
        for run, each in zip(runs, members, strict=True)
        for row in run.results
        if each.best is not None and row.checkpoint == each.best.path and _counts(row, run)
    ]
    return f"short of the target, at best {share_within(*max(scores))}" if scores else MISSING


def _counts(row: PanelResult, run: Run) -> bool:
    """Tell whether a score counts for the target of its run."""
    return row.purpose == "check" and row.invalid is None and row.panel_id == run.declared.panel_id


def _steps(members: Sequence[RunSummary]) -> str:
    """Return the median steps to a proven policy, by the rules of the median time to target."""
    steps = [
        RunTime(wall_s=each.env_steps, to_target_s=None if each.proven is None else each.proven.env_steps)
        for each in members
    ]
    return median_words(steps, quantity)  # its rules hold for steps, too


def _cost(cohort: CohortSummary) -> str:
    """Return the cost per target-reaching policy."""
    amount = cohort.usd_per_target_reaching_checkpoint
    if amount is None and cohort.at_least_usd is None:
        return MISSING
    return f"> {usd(cohort.at_least_usd)}" if amount is None else usd(amount)


def _elsewhere(runs: Sequence[Run], members: Sequence[RunSummary]) -> str:
    """Return the lowest score of the same policies on the same episodes under each other physics engine."""
    scores: dict[str, list[tuple[float, tuple[float, float]]]] = {}
    for run, each in zip(runs, members, strict=True):
        for engine, row in _transfers(run, each).items():
            scores.setdefault(engine, []).append(share_of(row.outcomes))
    policies = sum(each.best is not None for each in members)
    return ", ".join(_lowest_score(engine, found, policies) for engine, found in sorted(scores.items())) or MISSING


def _lowest_score(engine: str, scores: Sequence[tuple[float, tuple[float, float]]], policies: int) -> str:
    """Return the lowest score under an engine; if not all policies were scored, also how many."""
    some = "" if len(scores) == policies else f" ({len(scores)} of {policies} policies)"
    return f"{engine}: {share_within(*min(scores))}{some}"


def _transfers(run: Run, summary: RunSummary) -> dict[str, PanelResult]:
    """Return the first valid score of a run's best checkpoint under each other engine."""
    declared = run.declared.panel_fields
    found: dict[str, PanelResult] = {}
    for evaluation in run.evaluations:
        engines = {
            start.panel_id: start.panel_fields["physics"]["engine"]
            for start in evaluation.of(EvaluationStarted)
            if all(start.panel_fields.get(name) == declared.get(name) for name in _SAME_EPISODES)
        }
        for row in evaluation.of(PanelResult):
            engine = engines.get(row.panel_id, run.declared.physics)
            same = summary.best is not None and row.checkpoint == summary.best.path
            if same and row.invalid is None and engine != run.declared.physics:
                found.setdefault(engine, row)
    return found


def _perturbed(run: Run, summary: RunSummary) -> tuple[Outcomes, list[CapacityUsed]] | None:
    """Return the last valid score of a run's best checkpoint on a panel of several cells, and the used capacities."""
    physics, found = run.declared.panel_fields["physics"], None
    for evaluation in run.evaluations:
        panels = {
            start.panel_id
            for start in evaluation.of(EvaluationStarted)
            if len(start.panel_fields["cells"]) > 1 and start.panel_fields["physics"] == physics
        }
        for row in evaluation.of(PanelResult):
            same = summary.best is not None and row.checkpoint == summary.best.path
            if same and row.invalid is None and row.panel_id in panels:
                found = row.outcomes, evaluation.of(CapacityUsed)
    return found


def _worst(outcomes: Outcomes) -> str:
    """Return the cell in which the fewest episodes succeeded."""
    episodes = Counter(outcomes.cell)
    won = Counter(cell for cell, success in zip(outcomes.cell, outcomes.success, strict=True) if success)
    cell = min(episodes, key=lambda each: won[each] / episodes[each])
    return f"`{cell}`, {won[cell]} of {episodes[cell]}"


def _rows(used: Sequence[CapacityUsed]) -> str:
    """Return the largest number of constraint rows in use, and the capacity."""
    if not used:
        return MISSING
    most = max(used, key=lambda row: row.constraints)
    return f"{most.constraints} of {most.constraint_capacity}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the tables that are made from records into their pages.")
    parser.add_argument("records", type=Path, help="Folder with the records.")
    parser.add_argument("pages", type=Path, help="Folder with one page per table.")
    asked = parser.parse_args()
    write_tables(**vars(asked))
    write_times(asked.records)
