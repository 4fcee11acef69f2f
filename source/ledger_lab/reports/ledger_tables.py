"""The ledger as flat tables, for SQL and exports. Each column is declared once, with its type, reader and meaning."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, NamedTuple

from ledger_lab.ledger import (
    FIGURES,
    Attempt,
    AttemptStarted,
    CheckpointSaved,
    DeviceSample,
    Health,
    HostSample,
    PanelResult,
    PhaseWindow,
    Row,
    Run,
    ShutdownEnded,
    SupervisionStarted,
    Telemetry,
)
from ledger_lab.reports.clock import last_times, window_times
from ledger_lab.reports.cohort_summary import CohortSummary, Contents
from ledger_lab.reports.columns import Column, column, sql_columns
from ledger_lab.reports.facts import RunFacts
from ledger_lab.reports.load import RoomSummary, summarize_room
from ledger_lab.reports.summary import RunSummary
from ledger_lab.units import in_seconds


@dataclass(frozen=True)
class Table:
    """A table, and how it is filled."""

    name: str
    meaning: str
    columns: Sequence[Column[Any]]
    rows: Callable[[Contents], Iterator[Any]]
    """Yields what the columns read."""


class _RunRow(NamedTuple):
    """A run with its figures."""

    run: Run
    summary: RunSummary


class _Line[Own, Part](NamedTuple):
    """What a row of a table is made of, below an attempt."""

    run: Run
    attempt: Attempt
    place: int
    """Among the rows of the same kind in the attempt."""
    row: Own
    part: Part


type _AttemptRow = _Line[RoomSummary | None, None]


class _PhaseRow(NamedTuple):
    """A phase of a window, or of the time of an attempt after its last window."""

    run: Run
    attempt: Attempt
    place: int | None
    iteration: int | None
    wall_ns: int
    phase: str
    spent_ns: int
    device_bound_ns: int | None


class _ResultRow(NamedTuple):
    """A score, its place among the scores of its run, and an episode's place in its panel."""

    run: Run
    place: int
    result: PanelResult
    episode: int = 0


def _attempts(contents: Contents) -> Iterator[tuple[Run, Attempt]]:
    """Yield every attempt with its run."""
    for run in contents.runs:
        for attempt in run.attempts:
            yield run, attempt


def _attempt_rows(contents: Contents) -> Iterator[_AttemptRow]:
    """Yield attempts."""
    for run, attempt in _attempts(contents):
        yield _Line(run, attempt, 0, summarize_room([attempt]), None)


def _window_rows(contents: Contents) -> Iterator[_Line[PhaseWindow, int]]:
    """Yield phase windows, each with the end of the window before it [ns]."""
    for run, attempt in _attempts(contents):
        before_ns = 0
        for place, window in enumerate(attempt.windows):
            yield _Line(run, attempt, place, window, before_ns)
            before_ns = window.wall_ns


def _phase_rows(contents: Contents) -> Iterator[_PhaseRow]:
    """Yield the phases of each window, and of the time after the last window: together, the time of the attempt."""
    for run, attempt in _attempts(contents):
        for place, window in enumerate(attempt.windows):
            bound_ns = None if run.is_lost(attempt, window) else window.device_bound_ns
            for phase, spent_ns in window_times(run, attempt, window).items():
                bound = None if bound_ns is None else bound_ns.get(phase, 0)
                yield _PhaseRow(run, attempt, place, window.iteration, window.wall_ns, phase, spent_ns, bound)
        for phase, spent_ns in last_times(run, attempt).items():
            yield _PhaseRow(run, attempt, None, None, attempt.wall_ns, phase, spent_ns, None)


def _own_rows[Kind: Row](kind: type[Kind]) -> Callable[[Contents], Iterator[_Line[Kind, None]]]:
    """Return a function that yields all rows of one kind from the attempts."""

    def rows(contents: Contents) -> Iterator[_Line[Kind, None]]:
        for run, attempt in _attempts(contents):
            for place, row in enumerate(attempt.of(kind)):
                yield _Line(run, attempt, place, row, None)

    return rows


def _ending_rows(contents: Contents) -> Iterator[_Line[CheckpointSaved, tuple[str, int]]]:
    """Yield the training episodes before each checkpoint, by termination: its name and their number."""
    for each in _own_rows(CheckpointSaved)(contents):
        for ending in (each.row.endings or {}).items():
            yield _Line(each.run, each.attempt, each.place, each.row, ending)


def _result_rows(contents: Contents) -> Iterator[_ResultRow]:
    """Yield scores of checkpoints."""
    for run in contents.runs:
        for place, result in enumerate(run.results):
            yield _ResultRow(run, place, result)


def _episode_rows(contents: Contents) -> Iterator[_ResultRow]:
    """Yield held-out episodes."""
    for each in _result_rows(contents):
        for episode in range(each.result.outcomes.episodes):
            yield each._replace(episode=episode)


def _sample_rows(contents: Contents) -> Iterator[_Line[Telemetry, DeviceSample | None]]:
    """Yield samples of each accelerator, with the host; without accelerators, of the host alone."""
    for each in _own_rows(Telemetry)(contents):
        for device in each.row.devices or (None,):
            yield _Line(each.run, each.attempt, each.place, each.row, device)


def _figure_reader(name: str) -> Callable[[_Line[PhaseWindow, int]], float | None]:
    """Return a function that reads a training figure from a window."""
    return lambda of: of.row.figures.get(name)


def _utc(time: datetime) -> datetime:
    """Return a time in UTC without its zone, as SQL's TIMESTAMP expects."""
    return time.astimezone(UTC).replace(tzinfo=None)


def _began_from(of: _RunRow) -> str | None:
    """Return the run and the checkpoint that a run began with."""
    began = of.run.declared.began_from
    return "{run_id}/{checkpoint}".format(**began) if began else None


_ROW_RUN: Column[Any] = column("run_id VARCHAR", attrgetter("run.run_id"))
_ROW_ATTEMPT: Column[Any] = column("attempt BIGINT from 1", attrgetter("attempt.number"))
_ROW_WALL: Column[Any] = column("wall_s DOUBLE age of the attempt's process [s]", lambda of: of.row.wall_ns / 1e9)

_RUNS: list[Column[_RunRow]] = [
    *sql_columns(RunSummary, lambda of: of.summary),
    column(
        "declared_instance VARCHAR entry of the price book that the run declared",
        lambda of: of.summary.declared_price["instance"],
    ),
    column("declared_usd_per_hour DOUBLE its price [USD/h]", lambda of: of.summary.declared_price["usd_per_hour"]),
    column(
        "heldout_low DOUBLE lower end of the interval of heldout_success, 95 %; assumes that a confirmation is right",
        lambda of: (of.summary.heldout_interval or (None, None))[0],
    ),
    column("heldout_high DOUBLE upper end of interval", lambda of: (of.summary.heldout_interval or (None, None))[1]),
    column(
        "iterations BIGINT iterations completed, without those that an interruption undid",
        lambda of: RunFacts(of.run).updates,
    ),
    column("attempts BIGINT", lambda of: len(of.run.attempts)),
    column("began_from VARCHAR run and checkpoint whose networks it began with", _began_from),
    column("experiment VARCHAR", lambda of: of.run.declared.experiment),
    column("max_iterations BIGINT", lambda of: of.run.declared.max_iterations),
    column("horizon BIGINT environment steps per iteration and environment", lambda of: of.run.declared.horizon),
    column("git_commit VARCHAR", lambda of: of.run.declared.git.get("commit")),
    column("accelerator VARCHAR", lambda of: of.run.declared.hardware.get("accelerator")),
    column("cpu VARCHAR", lambda of: of.run.declared.hardware.get("cpu")),
    column("declared_at TIMESTAMP", lambda of: _utc(of.run.declared_at)),
    column("directory VARCHAR", lambda of: str(of.run.directory)),
]


def _host(of: _AttemptRow) -> str | None:
    """Return the machine of the first start in an attempt, by a process or a supervisor."""
    hosts = [start.host for start in of.attempt.of(AttemptStarted)]
    hosts += [start.host for start in of.attempt.of(SupervisionStarted)]
    return hosts[0] if hosts else None


def _job_reader(name: str) -> Callable[[_AttemptRow], Any]:
    """Return a function that reads a field of the job that an attempt ran in; ``None`` outside jobs."""

    def read(of: _AttemptRow) -> Any:
        start = of.attempt.first_start
        return None if start is None or start.job is None else getattr(start.job, name)

    return read


_ATTEMPTS: list[Column[_AttemptRow]] = [
    _ROW_RUN,
    _ROW_ATTEMPT,
    column("status VARCHAR", lambda of: str(of.attempt.status)),
    column("reason VARCHAR", lambda of: of.attempt.ended.reason if of.attempt.ended else None),
    column("host VARCHAR", _host),
    column("ranks BIGINT processes that wrote a journal", lambda of: len(of.attempt.ranks)),
    column("supervised BOOLEAN whether a supervisor recorded its end", lambda of: of.attempt.supervision is not None),
    column("started_at TIMESTAMP", lambda of: _utc(min(each.first_time for each in of.attempt.journals))),
    column(
        "wall_s DOUBLE its duration, until its processes were gone or its last sign of life [s]",
        lambda of: of.attempt.wall_ns / 1e9,
    ),
    column(
        "scheduler VARCHAR scheduler of the job that it ran in, such as slurm; missing without one",
        _job_reader("engine"),
    ),
    column("job VARCHAR id of the job; the tasks of an array share it", _job_reader("job")),
    column("job_index BIGINT index of the training in its plan, and of the array task", _job_reader("index")),
    column("job_restarts BIGINT how often the scheduler had started the job again", _job_reader("restarts")),
    column("job_partition VARCHAR partition or queue of the job", _job_reader("partition")),
    column(
        "job_nodes VARCHAR names of its nodes",
        lambda of: None if (nodes := _job_reader("nodes")(of)) is None else ", ".join(nodes),
    ),
    column("queue_s DOUBLE time that it waited for this start; not billed [s]", _job_reader("queue_s")),
    column("iterations BIGINT iterations completed", lambda of: of.attempt.sums.iterations),
    column("env_steps BIGINT", lambda of: of.attempt.sums.env_steps),
    column(
        "peak_host_memory_bytes BIGINT",
        lambda of: of.attempt.ended.peak_host_memory_bytes if of.attempt.ended else None,
    ),
    column(
        "peak_gpu_memory_bytes BIGINT", lambda of: of.attempt.ended.peak_gpu_memory_bytes if of.attempt.ended else None
    ),
    *sql_columns(ShutdownEnded, lambda of: of.attempt.shutdown, but=["wall_ns"]),
    *sql_columns(RoomSummary, lambda of: of.row),
]

_ITERATIONS: list[Column[_Line[PhaseWindow, int]]] = [
    _ROW_RUN,
    _ROW_ATTEMPT,
    column("window_index BIGINT place among the windows of its attempt, from 0", attrgetter("place")),
    column("iteration BIGINT iterations completed; missing outside the training loop", attrgetter("row.iteration")),
    column("env_steps BIGINT environment steps of all processes so far", attrgetter("row.env_steps")),
    column("wall_s DOUBLE age of the attempt's process at its end [s]", lambda of: of.row.wall_ns / 1e9),
    column("window_s DOUBLE its length [s]", lambda of: (of.row.wall_ns - of.part) / 1e9),
    *(column(f"{name} DOUBLE {meaning}", _figure_reader(name)) for name, meaning in FIGURES.items()),
    column("non_finite VARCHAR names of figures that were not finite", lambda of: ", ".join(of.row.non_finite) or None),
    column("lost BOOLEAN whether a later attempt repeated it", lambda of: of.run.is_lost(of.attempt, of.row)),
]

_PHASES: list[Column[_PhaseRow]] = [
    _ROW_RUN,
    _ROW_ATTEMPT,
    column("window_index BIGINT joins iterations; missing after the last window", attrgetter("place")),
    column("iteration BIGINT", attrgetter("iteration")),
    column("wall_s DOUBLE age of the attempt's process at the end of this time [s]", lambda of: of.wall_ns / 1e9),
    column("phase VARCHAR its name; restart for all work that a later attempt repeated", attrgetter("phase")),
    column(
        "seconds DOUBLE time in the phase [s]; over an attempt they sum to its wall_s, over a window to its length",
        lambda of: of.spent_ns / 1e9,
    ),
    column(
        "device_bound_s DOUBLE part of it that a GPU determined, because the GPU finished its work after the processor "
        "had left the window [s]; missing without --timing events",
        lambda of: None if of.device_bound_ns is None else of.device_bound_ns / 1e9,
    ),
]

_CHECKPOINTS: list[Column[_Line[CheckpointSaved, None]]] = [
    _ROW_RUN,
    _ROW_ATTEMPT,
    *sql_columns(CheckpointSaved, lambda of: of.row, but=["wall_ns", "train_ns", "evaluate_ns"]),
    _ROW_WALL,
    column(
        "train_s DOUBLE time of the run in the training phases up to its iteration [s]",
        lambda of: in_seconds(of.row.train_ns),
    ),
    column(
        "evaluate_s DOUBLE time of the run in the phase evaluate up to its iteration [s]",
        lambda of: in_seconds(of.row.evaluate_ns),
    ),
]

_ENDINGS: list[Column[_Line[CheckpointSaved, tuple[str, int]]]] = [
    _ROW_RUN,
    _ROW_ATTEMPT,
    column("checkpoint VARCHAR joins checkpoints.path", attrgetter("row.path")),
    column("iteration BIGINT iterations completed when the checkpoint was saved", attrgetter("row.iteration")),
    column("ended_by VARCHAR a termination term or unstable", lambda of: of.part[0]),
    column("episodes BIGINT training episodes since the last checkpoint of the attempt", lambda of: of.part[1]),
]

_PANEL_RESULTS: list[Column[_ResultRow]] = [
    _ROW_RUN,
    column("result BIGINT index among the results of its run, from 0", lambda of: of.place),
    column("checkpoint VARCHAR joins checkpoints.path", lambda of: of.result.checkpoint),
    column("checkpoint_sha256 VARCHAR", lambda of: of.result.checkpoint_sha256),
    column("panel VARCHAR", lambda of: of.result.panel),
    column("panel_id VARCHAR scores of different ids must not be compared", lambda of: of.result.panel_id),
    column("purpose VARCHAR screening, confirmation or evaluation", lambda of: of.result.purpose),
    column("confirmation BIGINT which confirmation of the run, from 1", lambda of: of.result.confirmation),
    column("extension BIGINT which panel of that confirmation, from 0", lambda of: of.result.extension),
    column("needed BIGINT successes that the run's rule requires", lambda of: of.result.needed),
    column("successes BIGINT", lambda of: of.result.outcomes.successes),
    column("episodes BIGINT", lambda of: of.result.outcomes.episodes),
    column(
        "passes BOOLEAN whether it reached them; missing for an evaluation",
        lambda of: None if of.result.purpose == "evaluation" else of.result.passes,
    ),
    column("confirms BOOLEAN whether it proves that the checkpoint reaches the target", lambda of: of.result.confirms),
    column("invalid VARCHAR why the score is invalid; missing if it is valid", lambda of: of.result.invalid),
    column(
        "changed_code VARCHAR code that had changed since the declaration; missing if none had",
        lambda of: ", ".join(of.result.changed_code) or None,
    ),
    column("exactness VARCHAR bitwise or statistical", lambda of: of.result.exactness),
    column("device VARCHAR", lambda of: of.result.device),
    column(
        "wall_s DOUBLE age of the scoring process when the last episode ended [s]", lambda of: of.result.wall_ns / 1e9
    ),
]


def _outcome(declaration: str) -> Column[_ResultRow]:
    """Declare a column that is a field of the outcomes, from the name of the field on."""
    name = declaration.split()[0]
    return column(declaration, lambda of: getattr(of.result.outcomes, name)[of.episode])


_EPISODES: list[Column[_ResultRow]] = [
    _ROW_RUN,
    column("result BIGINT joins panel_results", attrgetter("place")),
    column("checkpoint VARCHAR", attrgetter("result.checkpoint")),
    column("purpose VARCHAR", attrgetter("result.purpose")),
    _outcome("cell VARCHAR"),
    _outcome("seed BIGINT"),
    _outcome("success BOOLEAN success at the end of the episode"),
    _outcome("success_any BOOLEAN success at its best moment"),
    _outcome("steps BIGINT"),
    _outcome("episode_return DOUBLE undiscounted sum of rewards"),
    _outcome("ended_by VARCHAR horizon, non_finite, capacity, unstable or a termination term"),
    _outcome("fingerprint VARCHAR hash of the episode's trajectory; equal only if two episodes are equal bit for bit"),
]

_TELEMETRY: list[Column[_Line[Telemetry, DeviceSample | None]]] = [
    _ROW_RUN,
    _ROW_ATTEMPT,
    column("sample BIGINT place among the samples of its attempt, from 0", attrgetter("place")),
    column("wall_s DOUBLE age of the attempt [s]", lambda of: of.row.wall_ns / 1e9),
    *sql_columns(HostSample, lambda of: of.row.host),
    column("device VARCHAR the accelerator's UUID", lambda of: of.part.uuid if of.part else None),
    *sql_columns(DeviceSample, lambda of: of.part, but=["uuid"]),
]

_HEALTH: list[Column[_Line[Health, None]]] = [
    _ROW_RUN,
    _ROW_ATTEMPT,
    column("event VARCHAR", lambda of: of.row.event),
    column("iteration BIGINT", lambda of: of.row.iteration),
    _ROW_WALL,
    column("evidence VARCHAR", lambda of: of.row.evidence),
    column("advice VARCHAR", lambda of: of.row.advice),
    column("stops BOOLEAN whether the event ended the run", lambda of: of.row.stops),
]

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        Table(
            "runs",
            "one row per declared run, with every figure of the report",
            _RUNS,
            lambda contents: map(_RunRow, contents.runs, contents.summaries),
        ),
        Table("attempts", "one row per attempt of a run", _ATTEMPTS, _attempt_rows),
        Table(
            "iterations",
            "one row per phase window of an attempt's first process: as a rule, per iteration",
            _ITERATIONS,
            _window_rows,
        ),
        Table(
            "phases",
            "one row per phase within a phase window of an attempt's first process, and after its last window",
            _PHASES,
            _phase_rows,
        ),
        Table("checkpoints", "one row per saved policy", _CHECKPOINTS, _own_rows(CheckpointSaved)),
        Table(
            "endings",
            "one row per checkpoint and termination of training episodes; missing if they were not counted",
            _ENDINGS,
            _ending_rows,
        ),
        Table("panel_results", "one row per score of a checkpoint on a panel", _PANEL_RESULTS, _result_rows),
        Table("episodes", "one row per held-out episode of a panel result", _EPISODES, _episode_rows),
        Table(
            "telemetry",
            "one row per sample and accelerator; without accelerators, one row per sample of the host",
            _TELEMETRY,
            _sample_rows,
        ),
        Table("health", "one row per health event", _HEALTH, _own_rows(Health)),
        Table(
            "cohorts",
            "one row per cohort, task, panel and target",
            list(sql_columns(CohortSummary, lambda cohort: cohort)),
            lambda contents: iter(contents.cohorts),
        ),
    )
}
"""All tables by their names."""
