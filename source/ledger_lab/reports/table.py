"""The report in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from ledger_lab.reports.format import MISSING, duration, gigabytes, percent, quantity, usd
from ledger_lab.reports.summary import CohortSummary, RunSummary

_STATUS_STYLES = {"target_reached": "green", "completed": "yellow"}


def render_report(summaries: Sequence[RunSummary], cohorts: Sequence[CohortSummary]) -> Group:
    """Draw all runs, grouped by what may be compared.

    Args:
        summaries: The runs.
        cohorts: Their cohorts.

    Returns:
        One block per task, panel and target, with a line per cohort below.
    """
    groups: dict[tuple[str, str, float], list[RunSummary]] = {}
    for summary in summaries:
        groups.setdefault((summary.task, summary.panel_id, summary.target_success), []).append(summary)
    blocks: list[Text | Table] = []
    for (task, panel_id, target), members in groups.items():
        episodes = next((m.heldout_episodes for m in members if m.heldout_episodes is not None), None)
        blocks += [
            Text(f"task {task} · panel {members[0].panel} ({panel_id[:11]}…) · target {percent(target, 0)} of ").append(
                f"{episodes or 'its'} held-out episodes"
            ),
            _table(members),
        ]
        blocks += [_cohort_line(c) for c in cohorts if (c.task, c.panel_id) == (task, panel_id)]
        blocks += [_time_line(member) for member in members if member.phases]
        blocks.append(Text())
    return Group(*blocks)


def _table(summaries: Sequence[RunSummary]) -> Table:
    """Return one row per run."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    on_gpu = any(summary.peak_gpu_memory_gb is not None for summary in summaries)
    for name, justify in (
        ("run", "left"),
        ("library", "left"),
        ("instance", "left"),
        ("envs", "right"),
        ("steps/s", "right"),
        ("updates/min", "right"),
        ("to target", "right"),
        ("eval share", "right"),
        ("peak GPU" if on_gpu else "peak host", "right"),
        ("success (95 %)", "left"),
        ("cost", "right"),
        ("status", "left"),
    ):
        table.add_column(name, justify=justify, no_wrap=name != "status")  # type: ignore[arg-type]
    for summary in summaries:
        table.add_row(
            summary.run_id,
            summary.rl_library,
            summary.instance,
            quantity(summary.num_envs * summary.world_size),
            quantity(summary.env_steps_per_s),
            quantity(summary.updates_per_min),
            duration(summary.wall_to_target_s) if summary.target_reached else f"> {duration(summary.wall_s)}",
            percent(summary.evaluation_share),
            gigabytes(summary.peak_gpu_memory_gb if on_gpu else summary.peak_host_memory_gb),
            _success(summary),
            usd(summary.billable_usd) if summary.usd_per_hour is not None else "unpriced",
            Text(_status(summary), style=_STATUS_STYLES.get(summary.status, "red")),
        )
    return table


def _success(summary: RunSummary) -> str:
    """Return the held-out success with its interval."""
    if summary.heldout_interval is None:
        return MISSING
    low, high = summary.heldout_interval
    return f"{percent(summary.heldout_success)} [{100 * low:.1f}, {100 * high:.1f}]"


def _status(summary: RunSummary) -> str:
    """Return how the run ended, in words."""
    words = summary.status.replace("_", " ")
    if summary.status == "completed":
        return "completed, short of target"
    return f"{words} ({summary.reason})" if summary.reason else words


def _cohort_line(cohort: CohortSummary) -> Text:
    """Return what a cohort cost."""
    runs = f"{cohort.runs} run{'s' if cohort.runs != 1 else ''}"
    parts = [f"{runs}, {cohort.target_reaching_runs} reached the target, {cohort.failed_runs} failed"]
    if cohort.spend_usd is not None:
        parts.append(f"{usd(cohort.spend_usd)} spent")
    if cohort.usd_per_target_reaching_checkpoint is not None:
        parts.append(f"{usd(cohort.usd_per_target_reaching_checkpoint)} per target-reaching checkpoint")
    elif cohort.spend_usd is not None:
        parts.append(f"cost per target-reaching checkpoint undefined ({cohort.undefined_reason})")
    else:
        parts.append("unpriced: name an --instance or give --usd_per_hour")
    name = f"cohort {cohort.cohort}: " if cohort.cohort else ""
    return Text(name + " · ".join(parts))


def _time_line(summary: RunSummary) -> Text:
    """Return where the time of a run went, the largest phases first."""
    shares = sorted(((s / summary.wall_s, phase) for phase, s in summary.phases.items()), reverse=True)
    named = " · ".join(f"{phase} {share:.0%}" for share, phase in shares if share >= 0.01)
    return Text(f"{summary.run_id} took {duration(summary.wall_s)}: {named}", style="dim")
