"""Columns of the ledger's tables, each declared once.

The terminal, the page, SQL, JSON, exports and the reference of the documentation are made from these declarations.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

Type = Literal["VARCHAR", "BIGINT", "DOUBLE", "BOOLEAN", "TIMESTAMP"]
"""Types of columns, by their names in SQL. Timestamps are in UTC. Any value may be missing."""

_SQL_TYPES: dict[type, Type] = {str: "VARCHAR", int: "BIGINT", float: "DOUBLE", bool: "BOOLEAN"}

Style = Literal["", "good", "short", "running", "bad"]


@dataclass(frozen=True)
class TableCell:
    """A figure in a table that people read. All of it is plain text."""

    text: str
    beside: str = ""
    """Text beside the figure, such as its interval."""
    details: tuple[str, ...] = ()
    """Further lines, which only the page shows."""
    sign: str = ""
    """A sign with the meaning of the style, for readers who cannot distinguish colours."""
    style: Style = ""


@dataclass(frozen=True)
class Shown:
    """How a column is shown in the tables that people read."""

    title: str
    denominator: str
    """Denominator of the figure, in a few words."""
    cell: Callable[[Any], TableCell | str]
    """Takes the row, and returns the figure to show."""
    priority: int = 0
    """Position from the left. A narrow terminal drops the last columns."""
    align: Literal["left", "right"] = "right"
    if_measured: bool = False
    """Whether the column is left out when no row has the figure."""

    def show(self, row: object) -> TableCell:
        """Return a row's cell."""
        cell = self.cell(row)
        return cell if isinstance(cell, TableCell) else TableCell(cell)


@dataclass(frozen=True, kw_only=True)
class Column[Row]:
    """A column of a table."""

    name: str
    """Its name in SQL, and its key in JSON."""
    type: Type | None
    """``None`` for a nested value, which only JSON can hold."""
    meaning: str
    """One sentence, with the unit; empty if the name says all."""
    read: Callable[[Row], Any]
    """Takes the row, and returns the value."""
    shown: Shown | None = None


def column[Row](declaration: str, read: Callable[[Row], Any] | str) -> Column[Row]:
    """Declare a column that is not a field of a dataclass.

    Args:
        declaration: Its name, its type and its meaning, as ``"wall_s DOUBLE age of the attempt [s]"``.
        read: Takes the row, and returns the value; or the attribute with the value, as ``"attempt.ended.reason"``.
    """
    name, kind, meaning = (*declaration.split(maxsplit=2), "")[:3]
    reader = functools.partial(_plain_attribute, read) if isinstance(read, str) else read
    return Column(name=name, type=typing.cast(Type, kind), read=reader, meaning=meaning)


def figure[Source, Value](read: Callable[[Source], Value], shown: Shown | None = None) -> Value:
    """Declare a field of a dataclass as a column. The docstring below the field is its meaning.

    Args:
        read: Computes the value from the object that the dataclass summarizes.
        shown: How the column is shown in the tables that people read; ``None`` if it is not shown.

    Returns:
        The field, typed as its value.
    """
    return typing.cast(Value, field(metadata={"read": read, "shown": shown}))


def summarize[Summary](kind: type[Summary], source: object) -> Summary:
    """Make a dataclass whose fields are all declared by :func:`figure`.

    Args:
        kind: The dataclass.
        source: The object from which its fields are computed.
    """
    return kind(**{name: read(source) for name, read in _readers(kind)})  # type: ignore[arg-type]  # a class is hashable


@functools.cache
def _readers(kind: type) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    """Return name and reader of each field of a dataclass."""
    return tuple((each.name, each.metadata["read"]) for each in fields(kind))


@functools.cache
def columns_of(kind: type) -> tuple[Column[Any], ...]:
    """Return a column for each field of a dataclass; the docstring below a field is the column's meaning."""
    docs, hints = attribute_docs(kind), typing.get_type_hints(kind)
    return tuple(
        Column(
            name=each.name,
            type=_sql_type(hints[each.name]),
            meaning=in_one_line(docs.get(each.name, "")),
            read=functools.partial(_plain_attribute, each.name),
            shown=each.metadata.get("shown"),
        )
        for each in fields(kind)
    )


def sql_columns(kind: type, find: Callable[[Any], object | None], *, but: Sequence[str] = ()) -> Iterator[Column[Any]]:
    """Yield the columns of a dataclass that SQL can hold, for a table whose rows hold the dataclass.

    Args:
        kind: The dataclass.
        find: Takes a row of the table, and returns its instance of the dataclass, if it has one.
        but: Fields to leave out.
    """

    def through(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda row: None if (found := find(row)) is None else read(found)

    for each in columns_of(kind):
        if each.type is not None and each.name not in but:
            yield Column(name=each.name, type=each.type, read=through(each.read), meaning=each.meaning)


def shown_columns(kind: type | Mapping[str, Shown]) -> list[tuple[str, Shown]]:
    """Return the columns of a table that people read, by their names, in order.

    Args:
        kind: The dataclass that declares them; or the columns by the attributes of the rows.
    """
    if isinstance(kind, Mapping):
        return [*kind.items()]
    found = [(each.name, each.metadata["shown"]) for each in fields(kind) if each.metadata.get("shown")]
    return sorted(found, key=lambda each: each[1].priority)


def shown_table[Row](
    kind: type[Row] | Mapping[str, Shown], rows: Sequence[Row]
) -> tuple[list[tuple[str, Shown]], list[list[TableCell]]]:
    """Return a table that people read.

    Args:
        kind: As in :func:`shown_columns`.
        rows: The rows.

    Returns:
        Columns by their names; and the cells of each row, in the order of the columns.
    """
    kept: list[tuple[str, Shown]] = []
    by_column: list[list[TableCell]] = []
    for name, shown in shown_columns(kind):
        if not shown.if_measured or any(getattr(row, name) is not None for row in rows):
            kept.append((name, shown))
            by_column.append([shown.show(row) for row in rows])
    return kept, [list(cells) for cells in zip(*by_column, strict=True)]


def attribute_docs(kind: type) -> dict[str, str]:
    """Return the docstrings below the fields of a class, or below the members of an enumeration."""
    body = typing.cast(ast.ClassDef, ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]).body
    docs = {}
    for statement, below in zip(body, body[1:], strict=False):
        target = statement.target if isinstance(statement, ast.AnnAssign) else None
        if isinstance(statement, ast.Assign):
            target = typing.cast(Any, statement.targets[0])
        text = below.value if isinstance(below, ast.Expr) else None
        if isinstance(target, ast.Name) and isinstance(text, ast.Constant):
            docs[target.id] = str(text.value)
    return docs


def in_one_line(docstring: str, code: str = "") -> str:
    """Return a docstring as a single line.

    Args:
        docstring: The docstring.
        code: Characters around code, in place of backquotes.
    """
    for role in (":class:", ":attr:", ":func:", ":data:", ":meth:", ":mod:"):
        docstring = docstring.replace(role, "")
    return " ".join(docstring.replace("``", "`").replace("`", code).split())


def _sql_type(hint: Any) -> Type | None:
    """Return the SQL type of an annotation; ``None`` for a nested value."""
    options = typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)
    known = [option for option in options if option is not types.NoneType]
    if len(known) == 1 and typing.get_origin(known[0]) is Literal:
        known = [type(typing.get_args(known[0])[0])]
    return _SQL_TYPES.get(known[0]) if len(known) == 1 else None


def _plain_attribute(path: str, row: object) -> Any:
    """Return an attribute, or one of an attribute, and so on; ``None`` if one of them is ``None``.

    For a member of an enumeration, it is its value.
    """
    value: Any = row
    for name in path.split("."):
        value = None if value is None else getattr(value, name)
    return str(value) if isinstance(value, str) else value
