"""The ledger as flat tables, for SQL and exports."""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any, Literal

from ledger_lab.ledger import FIGURES
from ledger_lab.reports.load import RoomSummary
from ledger_lab.reports.row_builders import (
    Contents,
    attempt_rows,
    checkpoint_rows,
    cohort_rows,
    episode_rows,
    health_rows,
    iteration_rows,
    phase_rows,
    result_rows,
    run_rows,
    telemetry_rows,
)
from ledger_lab.reports.summary import CohortSummary, RunSummary

Type = Literal["VARCHAR", "BIGINT", "DOUBLE", "BOOLEAN", "TIMESTAMP"]
"""Types of columns, by their names in SQL. Timestamps are in UTC. Any value may be missing."""

_SQL_TYPES: dict[type, Type] = {str: "VARCHAR", int: "BIGINT", float: "DOUBLE", bool: "BOOLEAN"}


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    type: Type
    meaning: str
    """Meaning and unit; empty if the name says it."""


@dataclass(frozen=True)
class Table:
    """A table, and how it is filled."""

    name: str
    meaning: str
    columns: tuple[Column, ...]
    rows: Callable[[Contents], Iterator[tuple[Any, ...]]]
    """Yields its rows, in the order of the columns."""


@functools.cache
def _field_columns(kind: type) -> tuple[Column, ...]:
    """Return a column for each plain field of a dataclass, with the field's own documentation."""
    docs = _attribute_docs(kind)
    hints = typing.get_type_hints(kind)
    columns = []
    for field in fields(kind):
        hint = hints[field.name]
        options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
        known = [option for option in options if option is not types.NoneType]
        if len(known) == 1 and known[0] in _SQL_TYPES:
            columns.append(Column(field.name, _SQL_TYPES[known[0]], docs.get(field.name, "")))
    return tuple(columns)


def _attribute_docs(kind: type) -> dict[str, str]:
    """Return the docstrings below the fields of a class, as one line each."""
    body = typing.cast(ast.ClassDef, ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]).body
    docs = {}
    for field, below in zip(body, body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
        ):
            docs[field.target.id] = " ".join(str(below.value.value).replace("``", "").split())
    return docs


def _columns(*lines: str) -> tuple[Column, ...]:
    """Read columns from lines of name, type and meaning."""
    columns = []
    for line in lines:
        name, kind, meaning = (*line.split(maxsplit=2), "")[:3]
        columns.append(Column(name, typing.cast(Type, kind), meaning))
    return tuple(columns)


_RUN, _ATTEMPT = "run_id VARCHAR", "attempt BIGINT from 1"

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        Table(
            "runs",
            "one row per declared run, with every figure of the report",
            (
                *_field_columns(RunSummary),
                *_columns(
                    "declared_instance VARCHAR entry of the price book that the run declared, whatever was asked for",
                    "declared_usd_per_hour DOUBLE its price [USD/h]",
                    "heldout_low DOUBLE lower end of the Wilson interval of heldout_success, 95 %",
                    "heldout_high DOUBLE upper end of it",
                    "iterations BIGINT iterations completed",
                    "attempts BIGINT",
                    "began_from VARCHAR run and checkpoint whose networks it began with",
                    "experiment VARCHAR",
                    "max_iterations BIGINT",
                    "horizon BIGINT environment steps per iteration and environment",
                    "git_commit VARCHAR",
                    "accelerator VARCHAR",
                    "cpu VARCHAR",
                    "declared_at TIMESTAMP",
                    "directory VARCHAR",
                ),
            ),
            lambda contents: run_rows(contents, [column.name for column in _field_columns(RunSummary)]),
        ),
        Table(
            "attempts",
            "one row per attempt of a run",
            (
                *_columns(
                    _RUN,
                    _ATTEMPT,
                    "status VARCHAR",
                    "reason VARCHAR",
                    "host VARCHAR",
                    "ranks BIGINT processes that wrote a journal",
                    "supervised BOOLEAN whether a supervisor wrote down its end",
                    "started_at TIMESTAMP",
                    "wall_s DOUBLE its life, until its processes were gone or its last sign of life [s]",
                    "iterations BIGINT iterations completed",
                    "env_steps BIGINT",
                    "peak_host_memory_bytes BIGINT",
                    "peak_gpu_memory_bytes BIGINT",
                    "exit_code BIGINT",
                    "signal VARCHAR signal that ended its process",
                    "overdue BOOLEAN whether its shutdown had to be cut short",
                ),
                *_field_columns(RoomSummary),
            ),
            attempt_rows,
        ),
        Table(
            "iterations",
            "one row per phase window of an attempt's first process: as a rule, per iteration",
            _columns(
                _RUN,
                _ATTEMPT,
                "window_index BIGINT place among the windows of its attempt, from 0",
                "iteration BIGINT iterations completed; missing outside the training loop",
                "env_steps BIGINT environment steps of all processes so far",
                "wall_s DOUBLE age of the attempt's process at its end [s]",
                "window_s DOUBLE its length [s]",
                *(f"{name} DOUBLE {meaning}" for name, meaning in FIGURES.items()),
                "non_finite VARCHAR names of figures that were not finite",
                "lost BOOLEAN whether a later attempt did it again",
            ),
            iteration_rows,
        ),
        Table(
            "phases",
            "one row per phase within a phase window of an attempt's first process",
            _columns(
                _RUN,
                _ATTEMPT,
                "window_index BIGINT joins iterations",
                "iteration BIGINT",
                "wall_s DOUBLE age of the attempt's process at the window's end [s]",
                "phase VARCHAR",
                "seconds DOUBLE time in the phase; over the phases of a window they sum to its length [s]",
            ),
            phase_rows,
        ),
        Table(
            "checkpoints",
            "one row per saved policy",
            _columns(
                _RUN,
                _ATTEMPT,
                "path VARCHAR below the run's directory",
                "sha256 VARCHAR",
                "size_bytes BIGINT",
                "iteration BIGINT iterations completed when it was saved",
                "env_steps BIGINT",
                "wall_s DOUBLE age of the attempt's process [s]",
            ),
            checkpoint_rows,
        ),
        Table(
            "panel_results",
            "one row per score of a checkpoint on a panel",
            _columns(
                _RUN,
                "result BIGINT place among the results of its run, from 0",
                "checkpoint VARCHAR joins checkpoints.path",
                "checkpoint_sha256 VARCHAR",
                "panel VARCHAR",
                "panel_id VARCHAR scores of different ids must not be compared",
                "purpose VARCHAR screening, confirmation or evaluation",
                "confirmation BIGINT which confirmation of the run, from 1",
                "needed BIGINT successes that the run's rule asks for here",
                "successes BIGINT",
                "episodes BIGINT",
                "passes BOOLEAN whether it reached them; missing for an evaluation",
                "confirms BOOLEAN whether it proves that the checkpoint reaches the target",
                "invalid VARCHAR why the score is no proof of anything; missing if it is one",
                "exactness VARCHAR bitwise or statistical",
                "device VARCHAR",
                "wall_s DOUBLE age of the judging process when the last episode ended [s]",
            ),
            result_rows,
        ),
        Table(
            "episodes",
            "one row per held-out episode of a panel result",
            _columns(
                _RUN,
                "result BIGINT joins panel_results",
                "checkpoint VARCHAR",
                "purpose VARCHAR",
                "cell VARCHAR",
                "seed BIGINT",
                "success BOOLEAN success at the end of the episode",
                "success_any BOOLEAN success at its best moment",
                "steps BIGINT",
                "episode_return DOUBLE undiscounted sum of rewards",
                "ended_by VARCHAR horizon, non_finite, capacity or a termination term",
                "fingerprint VARCHAR equal where two episodes went the same way, bit for bit",
            ),
            episode_rows,
        ),
        Table(
            "telemetry",
            "one row per sample and accelerator; one without an accelerator's figures where there is none",
            _columns(
                _RUN,
                _ATTEMPT,
                "sample BIGINT place among the samples of its attempt, from 0",
                "wall_s DOUBLE age of the attempt [s]",
                "cpu_s DOUBLE processor seconds of all threads since the last sample [s]",
                "busiest_thread DOUBLE share of one core that the busiest thread took",
                "memory_bytes BIGINT resident memory of the attempt's processes",
                "available_bytes BIGINT memory that the host has left",
                "device VARCHAR the accelerator's UUID",
                "utilization DOUBLE share of the time in which a kernel ran",
                "memory_used_bytes BIGINT on the whole device",
                "power_w DOUBLE",
                "energy_mj BIGINT the device's counter; only differences mean anything [mJ]",
                "temperature_c DOUBLE",
                "sm_clock_mhz BIGINT",
            ),
            telemetry_rows,
        ),
        Table(
            "health",
            "one row per health event",
            _columns(
                _RUN,
                _ATTEMPT,
                "event VARCHAR",
                "iteration BIGINT",
                "wall_s DOUBLE age of the attempt's process [s]",
                "evidence VARCHAR",
                "advice VARCHAR",
                "stops BOOLEAN whether the run ended by it",
            ),
            health_rows,
        ),
        Table(
            "cohorts",
            "one row per cohort, task, panel and target",
            _field_columns(CohortSummary),
            lambda contents: cohort_rows(contents, [column.name for column in _field_columns(CohortSummary)]),
        ),
    )
}
"""All tables by their names."""
