"""The page's data: plain values from a ledger, thinned out to what a screen can show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ledger_lab.ledger import Health, Run, Status
from ledger_lab.ledger.comparability import refused_differences
from ledger_lab.ledger.costs.cohorts import FEWEST_RUNS
from ledger_lab.ledger.costs.time_to_target import TimeCurve, log_rank_p_value, time_curve
from ledger_lab.ledger.runs import without_telemetry
from ledger_lab.panels import wilson_interval
from ledger_lab.reports.checkpoints import CheckpointSummary
from ledger_lab.reports.cohort_summary import CohortSummary, Yardstick, by_yardstick, repeated_runs
from ledger_lab.reports.columns import shown_columns
from ledger_lab.reports.facts import attempt_starts_s
from ledger_lab.reports.page.episodes import PanelEpisodes, PolicyOutcomes, collect_outcomes
from ledger_lab.reports.page.live import Link
from ledger_lab.reports.page.series import Curve, TelemetrySeries, return_curve, telemetry_series
from ledger_lab.reports.selection import Selection
from ledger_lab.reports.summary import RunSummary
from ledger_lab.reports.terminal_table import repricing_lines
from ledger_lab.wings import wing_part

_MOST_POINTS, _ALL_POINTS = 300, 120_000
"""Largest number of points of one curve, and of all curves of a kind together."""


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A picture on the page."""

    title: str
    description: str
    """What it shows, for readers who can't see it."""
    address: str
    """The SVG file as a ``data:`` URI."""
    width: int
    height: int
    """Size in CSS pixels."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ScalingPart:
    """The page's section about scaling. It is empty if no task was trained with several sizes."""

    pictures: tuple[Picture, ...] = ()
    left_out: int = 0
    """Pictures that are left out, because there are too many."""
    missing_package: bool = False
    """Whether there is something to draw, and Matplotlib is not installed."""


@dataclass(frozen=True, kw_only=True)
class CheckpointScore(CheckpointSummary):
    """A scored checkpoint with its interval. Its single episodes are in the sheets."""

    low: float
    """Lower end of the 95 % Wilson interval."""
    high: float


@dataclass(frozen=True, kw_only=True)
class PageRun:
    """A run on the page: its summary, and its curves and scores."""

    summary: RunSummary
    """Its figures. As JSON, without checkpoints and health events, which are in the scores and :attr:`health_events`
    with their times."""
    machine: str | None
    yardstick: int
    """Index into :attr:`PageModel.yardsticks`."""
    repeated: bool
    """Whether another run of its cohort stands for it, because it made the same training."""
    scores: list[CheckpointScore]
    returns: Curve | None
    """Training return over time."""
    telemetry: list[TelemetrySeries]
    telemetry_left_out: bool
    """Whether telemetry of this run was written, and left out of the ledger that is kept."""
    health_events: list[tuple[float, Health]]
    """Times of health events after the start of the run [s], and the events."""
    sheets: list[PolicyOutcomes]
    links: tuple[Link, ...] = ()
    """Links to its files; none on a page that is done, because it is sent to people who lack these files."""


@dataclass(frozen=True, kw_only=True)
class LogRankTest:
    """A log-rank test between two cohorts."""

    a: int
    """Index of a cohort in :attr:`~ledger_lab.reports.page.model.PageModel.cohorts`."""
    b: int
    """Index of the other cohort."""
    p_value: float
    """Two-sided p-value by permutation."""


@dataclass(frozen=True, kw_only=True)
class PageModel:
    """Everything that the page shows."""

    source: str
    """Name of the ledger, as the user gave it."""
    created_at: str
    """When the page was made; empty on a page that lives, whose live part says when it was written."""
    left_out_runs: int
    """Runs of the ledger that are not on the page."""
    repricing: list[tuple[str, str]]
    """Titles and words of the requested and the declared prices; empty if no price was requested."""
    yardsticks: list[Yardstick]
    runs: list[PageRun]
    cohorts: list[CohortSummary]
    time_curves: list[TimeCurve | None]
    """For each of :attr:`cohorts`, the share of its runs that reached the target over time; ``None`` for runs without a
    cohort, which do not belong together."""
    log_rank_tests: list[LogRankTest]
    absent_cohorts: list[tuple[str, int]]
    """Names and sizes of declared cohorts without a run."""
    panels: list[PanelEpisodes]
    ends: list[str]
    """Ways in which episodes end; each letter of a sheet is an index into this list."""
    most_points: int
    """Points that a curve is thinned out to, each the mean of consecutive samples."""
    left_out_sheets: int
    """Scored checkpoints whose single episodes are left out to keep the page small; their totals are shown."""
    scaling: ScalingPart = field(default_factory=ScalingPart)
    """Figures of scaling studies, which are pictures, and not among the JSON values."""

    def to_json(self) -> dict[str, Any]:
        """Return the model as plain JSON values, with the titles and denominators of the runs' columns."""
        titles = {name: (shown.title, shown.denominator) for name, shown in shown_columns(RunSummary)}
        kept = [replace(run, summary=replace(run.summary, checkpoints=[], health=[])) for run in self.runs]
        values = {name: value for name, value in asdict(replace(self, runs=kept)).items() if name != "scaling"}
        return {**values, "columns": titles}


def build_model(
    found: Selection,
    *,
    created_at: str = "",
    on_progress: Callable[[int, int], None] = lambda drawn, runs: None,
    links: Callable[[Run], tuple[Link, ...]] = lambda run: (),
) -> PageModel:
    """Compute everything that the page shows.

    Args:
        found: A ledger, its runs on the page, and their figures.
        created_at: Time of creation, shown to the reader; empty for a page that lives.
        on_progress: Called with the number of runs that were drawn, and their total.
        links: Returns the links of a run.

    Returns:
        The model.
    """
    runs, summaries, cohorts = found.contents.runs, found.contents.summaries, found.contents.cohorts
    absent = [] if found.names else [cohort for cohort in found.ledger.cohorts if not cohort.run_ids]
    groups = by_yardstick(summaries)
    places = {member.run_id: place for place, (_, members) in enumerate(groups) for member in members}
    points = min(_MOST_POINTS, _ALL_POINTS // max(1, len(runs)))

    repeated = repeated_runs(summaries)
    collection = collect_outcomes(runs)
    page_runs = []
    for place, (run, summary, sheets) in enumerate(zip(runs, summaries, collection.sheets, strict=True)):
        on_progress(place, len(runs))
        page_runs.append(
            PageRun(
                summary=summary,
                machine=run.declared.machine,
                yardstick=places[summary.run_id],
                repeated=summary.run_id in repeated,
                scores=_scores(summary, _seeds(collection.panels, summary.panel_id)),
                returns=return_curve(run, points),
                telemetry=telemetry_series(run, points),
                telemetry_left_out=any(without_telemetry(attempt.journals) for attempt in run.attempts),
                health_events=_health_events(run),
                sheets=sheets,
                links=links(run),
            )
        )
    scaling_part = wing_part("scaling of the page")
    return PageModel(
        source=str(found.ledger.root),
        created_at=created_at,
        left_out_runs=len(found.ledger.runs) - len(runs),
        repricing=[] if found.price is None else repricing_lines(found.price, summaries),
        yardsticks=[yardstick for yardstick, _ in groups],
        runs=page_runs,
        cohorts=list(cohorts),
        time_curves=[None if cohort.cohort is None else time_curve(cohort.times) for cohort in cohorts],
        log_rank_tests=_log_rank_tests(cohorts, runs),
        absent_cohorts=[(cohort.name, cohort.size) for cohort in absent],
        panels=collection.panels,
        ends=collection.ends,
        most_points=points,
        left_out_sheets=collection.left_out,
        scaling=ScalingPart() if scaling_part is None else scaling_part(runs, summaries, found.price),
    )


def _seeds(panels: Sequence[PanelEpisodes], panel_id: str) -> int | None:
    """Return how many different seeds a panel has; ``None`` if no policy was scored on it."""
    return next((len(set(each.seeds)) for each in panels if each.panel_id == panel_id), None)


def _scores(summary: RunSummary, seeds: int | None) -> list[CheckpointScore]:
    """Return the held-out scores of a run's checkpoints over its wall-clock time.

    Episodes with the same seed are not independent of each other, so intervals count seeds.
    """
    scores = []
    for checkpoint in summary.checkpoints:
        successes, episodes = checkpoint.heldout_successes, checkpoint.heldout_episodes
        if successes is None or episodes is None:
            continue
        trials = seeds or episodes
        low, high = wilson_interval(successes / episodes * trials, trials)
        kept = replace(checkpoint, wall_s=round(checkpoint.wall_s, 3), outcomes=None)
        scores.append(CheckpointScore(**vars(kept), low=round(low, 5), high=round(high, 5)))
    return scores


def _health_events(run: Run) -> list[tuple[float, Health]]:
    """Return the health events of a run, in order, with their times [s]."""
    starts = attempt_starts_s(run)
    return [
        (round(starts[attempt.number] + row.wall_ns / 1e9, 3), row)
        for attempt in run.attempts
        for row in attempt.of(Health)
    ]


def _log_rank_tests(cohorts: Sequence[CohortSummary], runs: Sequence[Run]) -> list[LogRankTest]:
    """Test between the two cohorts of each yardstick that has exactly two cohorts.

    Cohorts that ``report.py compare`` refuses to compare are not tested. With more cohorts, one test per pair would
    find differences by chance; ``study.py`` corrects for their number. With fewer than
    :data:`~ledger_lab.ledger.costs.cohorts.FEWEST_RUNS` runs in a cohort, there is no test.

    Args:
        cohorts: The cohorts.
        runs: All runs.
    """
    groups: dict[str, list[int]] = {}
    for place, cohort in enumerate(cohorts):
        if cohort.cohort is not None:
            groups.setdefault(cohort.measured_by, []).append(place)
    tests = []
    for places in groups.values():
        if len(places) != 2 or min(cohorts[place].runs for place in places) < FEWEST_RUNS:
            continue
        a, b = places
        ours, theirs = ([run for run in runs if run.cohort == cohorts[place].cohort] for place in places)
        running = any(run.attempts and run.attempts[-1].status is Status.RUNNING for run in (*ours, *theirs))
        if running or refused_differences([run.declared for run in ours], [run.declared for run in theirs]):
            continue
        p_value = log_rank_p_value(cohorts[a].times, cohorts[b].times)
        if p_value is not None:
            tests.append(LogRankTest(a=a, b=b, p_value=p_value))
    return tests
