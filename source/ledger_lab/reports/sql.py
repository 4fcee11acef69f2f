"""SQL over the ledger: its tables in a DuckDB in memory, with a memory limit, without access to files and network."""

from __future__ import annotations

import importlib
import itertools
import re
import resource
import signal
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ledger_lab.errors import UserError
from ledger_lab.ledger.control_groups import usable_bytes
from ledger_lab.ledger.cores import usable_cores
from ledger_lab.reports.cohort_summary import Contents
from ledger_lab.reports.columns import Type
from ledger_lab.reports.ledger_tables import TABLES, Table

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_CHUNK = 100_000
"""Rows inserted at once: enough for speed, few enough to bound memory."""

_LEAST_MEMORY_BYTES = 2**26
"""Memory that a query may always try to take [B]."""

_SEALED = (
    "SET temp_directory = ''",  # by default, a query larger than memory fills the current folder's disk
    "SET python_enable_replacements = false",  # else a query could read this program's variables by name
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET allow_community_extensions = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
"""Settings that cut a database off from files, network and extensions, and then lock its configuration."""


@dataclass(frozen=True)
class Answer:
    """What a query returned."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


def query(contents: Contents, sql: str, memory_bytes: int | None = None) -> Answer:
    """Answer a query over the tables of a ledger.

    Args:
        contents: The ledger.
        sql: One statement that reads: SELECT, WITH, FROM, VALUES, DESCRIBE, SHOW, SUMMARIZE or EXPLAIN.
        memory_bytes: Memory that the database may take, and the answer as much again [B]; ``None`` for half of what
            this process can still take, on this host and in its control group. Nothing is written to a disk.

    Returns:
        The answer.

    Raises:
        UserError: If it is no such statement, names a missing table or column, needs more memory, or DuckDB is not
            installed.
    """
    duckdb = load_duckdb()
    sql.encode()  # refuses a text that DuckDB could not be told
    limit = max(_LEAST_MEMORY_BYTES, usable_bytes() // 2) if memory_bytes is None else memory_bytes
    threads = usable_cores()
    with duckdb.connect() as connection, _limited_memory(2 * limit), _ended_by_interrupts():
        try:
            connection.execute(f"SET memory_limit = '{limit // 1024} KiB'")
            connection.execute(f"SET threads = {threads}")
            statements = connection.extract_statements(sql)
            reading = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)
            if len(statements) != 1 or statements[0].type not in reading:
                raise UserError(
                    "query takes one statement that reads, like 'SELECT run_id, billable_usd FROM runs'; SQL cannot "
                    "change the ledger"
                )
            fill(connection, contents, _mentioned(sql))
            for setting in _SEALED:
                connection.execute(setting)
            result = connection.execute(statements[0])
            return Answer(tuple(column[0] for column in result.description), result.fetchall())
        except (duckdb.OutOfMemoryException, MemoryError) as error:
            raise UserError(
                f"query: the query takes more than {limit / 1e9:.2g} GB of memory: select less with WHERE or LIMIT, or "
                "aggregate"
            ) from error
        except duckdb.Error as error:  # its message, in one line, without its excerpt of the query
            said = " ".join(str(error).split("\n\nLINE ")[0].split())
            raise UserError(f"query: {said} (report.py query lists tables and columns)") from error


@contextmanager
def _limited_memory(size: int) -> Iterator[None]:
    """Let this process take no more than so much memory in addition [B]: DuckDB does not count everything it takes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    with open("/proc/self/status", encoding="utf-8") as status:
        now = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmData:"))
    wanted = now + size
    lower = any(known != resource.RLIM_INFINITY and known < wanted for known in (soft, hard))
    if not lower:
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


@contextmanager
def _ended_by_interrupts() -> Iterator[None]:
    """Let Ctrl-C end the process at once: Python hears of it only when DuckDB has answered. Nothing is left behind."""
    replaced = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if replaced:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        if replaced:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def fill(connection: DuckDBPyConnection, contents: Contents, names: Iterable[str]) -> None:
    """Create all tables, and fill some of them.

    Args:
        connection: An empty database.
        contents: The ledger.
        names: Tables to fill.
    """
    filled = set(names)
    for table in TABLES.values():
        columns = ", ".join(f'"{column.name}" {column.type}' for column in table.columns)
        connection.execute(f'CREATE TABLE "{table.name}" ({columns})')
        if table.name in filled:
            _insert(connection, table, contents)


def connect_filled(contents: Contents) -> DuckDBPyConnection:
    """Return a database with all tables filled. The caller closes it.

    Raises:
        UserError: If DuckDB is not installed.
    """
    connection: DuckDBPyConnection = load_duckdb().connect()
    fill(connection, contents, TABLES)
    return connection


def load_duckdb() -> Any:
    """Import DuckDB, an optional dependency: reports do without it."""
    try:
        return importlib.import_module("duckdb")
    except ImportError as error:
        raise UserError("SQL and Parquet need the package duckdb: install it with pip install duckdb") from error


def _insert(connection: DuckDBPyConnection, table: Table, contents: Contents) -> None:
    """Fill a table column by column; inserting millions of single rows would take minutes."""
    for chunk in itertools.batched(table.rows(contents), _CHUNK):
        arrays = {
            column.name: _array(list(map(column.read, chunk)), column.type)
            for column in table.columns
            if column.type is not None
        }
        connection.register("chunk", arrays)
        connection.execute(f'INSERT INTO "{table.name}" SELECT * FROM chunk')
        connection.unregister("chunk")


def _array(values: Sequence[Any], kind: Type) -> np.ndarray[Any, Any]:
    """Return a column as an array in which missing values are masked."""
    if kind == "VARCHAR":
        return np.array(values, dtype=object)
    if kind == "DOUBLE":
        return np.array(values, dtype=np.float64)  # None becomes NaN here, which DuckDB reads as NULL
    dtype: Any = {"BIGINT": np.int64, "BOOLEAN": np.bool_, "TIMESTAMP": "datetime64[us]"}[kind]
    if None not in values:
        return np.array(values, dtype=dtype)
    missing = [value is None for value in values]
    present: Any = np.array([0 if value is None else value for value in values], dtype=dtype)
    return np.ma.masked_array(present, mask=missing)


def _mentioned(sql: str) -> list[str]:
    """Return the tables whose names occur in a query; the others can stay empty."""
    words = {word.lower() for word in re.findall(r"\w+", sql)}
    return [name for name in TABLES if name in words]
