"""``scripts/report.py query``: answers in SQL. Imports neither torch nor Isaac Lab."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import orjson
from rich.table import Table as Grid
from rich.text import Text

from ledger_lab.errors import UserError
from ledger_lab.ledger.cores import no_collection
from ledger_lab.reports.export import spreadsheet_text
from ledger_lab.reports.ledger_tables import TABLES
from ledger_lab.reports.selection import PricedRequest, runs_flag, select
from ledger_lab.reports.sql import Answer, query
from ledger_lab.reports.terminal.console import make_console, write_output
from ledger_lab.reports.terminal.request import Program, flag

_SHOWN_ROWS = 500
"""Largest number of rows to print; files get all rows."""


@dataclass(frozen=True, kw_only=True)
class QueryRequest(PricedRequest):
    """What a user asks of ``scripts/report.py query``: each field is an argument or a flag of the same name."""

    program = Program(
        name="report.py query",
        description=(
            "Print the answer to a query of the ledger, in DuckDB's SQL. Without a query, list the tables and their "
            "columns. --json and --csv write the answer to a file. To write whole tables, use scripts/export.py."
        ),
        examples=(
            "report.py query",
            'report.py query "SELECT cell, avg(success::INT) FROM episodes GROUP BY cell ORDER BY 2"',
            'report.py query "FROM runs" COHORT --csv runs.csv',
        ),
    )

    sql: str | None = flag(None, "One statement that reads, such as SELECT.", metavar="SQL", positional=True)
    runs: tuple[str, ...] = runs_flag()
    json: str | None = flag(None, "Write the answer to a JSON file; - means standard output.", metavar="FILE")
    csv: str | None = flag(None, "Write the answer to a CSV file; - means standard output.", metavar="FILE")


@no_collection()
def answer_query(argv: Sequence[str]) -> int:
    """Answer a query as a table on the terminal, or write the answer to files.

    Args:
        argv: Command line without the program's name.

    Returns:
        0, or 1 if damaged runs were left out.

    Raises:
        UserError: If there is no such ledger or run, the query is invalid, or a file can't be written.
    """
    request = QueryRequest.parse(argv)
    if request.sql is None:
        _show_tables()
        return 0
    found = select(request, request.runs)
    answer = query(found.contents, request.sql)
    if request.json is not None:
        write_output(request.json, _json(answer))
    if request.csv is not None:
        write_output(request.csv, _csv(answer))
    if request.json is None and request.csv is None:
        _print(answer)
    return found.status


def _show_tables() -> None:
    """Print all tables with their columns."""
    console = make_console()
    for table in TABLES.values():
        console.print(Text(table.name, style="bold").append(f"  {table.meaning}", style="not bold"))
        grid = Grid(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
        grid.add_column(no_wrap=True)
        grid.add_column(no_wrap=True, style="dim")
        grid.add_column()
        for column in table.columns:
            grid.add_row(f"  {column.name}", column.type, column.meaning)
        console.print(grid)
        console.print()


def _print(answer: Answer) -> None:
    """Draw an answer."""
    console = make_console()
    grid = Grid(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    numbers = [
        all(isinstance(row[index], int | float | Decimal) or row[index] is None for row in answer.rows[:_SHOWN_ROWS])
        for index in range(len(answer.columns))
    ]
    for name, number in zip(answer.columns, numbers, strict=True):
        grid.add_column(name, justify="right" if number else "left", overflow="fold")
    for row in answer.rows[:_SHOWN_ROWS]:
        grid.add_row(*map(_cell, row))
    console.print(grid)
    count = len(answer.rows)
    if count > _SHOWN_ROWS:
        console.print(f"the first {_SHOWN_ROWS} of {count} rows; --csv FILE and --json FILE take all")
    else:
        console.print(f"{count} row{'' if count == 1 else 's'}", style="dim")


def _cell(value: Any) -> str:
    """Return a value as a terminal shows it."""
    if value is None:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _json(answer: Answer) -> str:
    """Encode an answer as a list of objects.

    Raises:
        UserError: If two columns have the same name, or a number is too large for JSON.
    """
    twice = next((name for name in answer.columns if answer.columns.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"query: two columns are called {twice!r}: give one of them another name with AS")
    rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
    try:
        text = orjson.dumps(rows, default=_plain, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS).decode()
    except orjson.JSONEncodeError as error:
        raise UserError(f"query: JSON can't hold the answer ({error}): CAST it to DOUBLE or VARCHAR") from error
    # In ASCII, as all JSON of reports: orjson leaves control characters beyond ASCII, which a terminal would obey.
    return re.sub(r"[^\n -~]", lambda found: json.dumps(found[0])[1:-1], text) + "\n"


def _plain(value: Any) -> Any:
    """Return a JSON value for a DuckDB value that JSON lacks: a number for a decimal, otherwise text."""
    return float(value) if isinstance(value, Decimal) else str(value)


def _csv(answer: Answer) -> str:
    """Encode an answer as CSV; a missing value is an empty field, and no text is a formula."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_STRINGS)  # a text may contain a carriage return
    for row in (answer.columns, *answer.rows):
        writer.writerow(spreadsheet_text(value) if isinstance(value, str) else value for value in row)
    return text.getvalue()
