"""What all kinds of rows have in common: the types of their fields, and the check of a row from a file.

A row is a frozen dataclass; its class name is its kind. Durations are integers in nanoseconds, so that the phases sum
to the wall-clock time exactly. A figure that was not measured is ``None``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, asdict, dataclass, fields
from functools import cache
from typing import Annotated, Any, ClassVar, Self, get_type_hints

import msgspec
import orjson

_INT64_MAX = (1 << 63) - 1

Count = Annotated[int, msgspec.Meta(ge=0, le=_INT64_MAX)]
"""A non-negative number of things, bytes or nanoseconds. It fits the signed 64-bit integers of SQL."""

Positive = Annotated[int, msgspec.Meta(ge=1, le=_INT64_MAX)]
"""A number of things, at least 1."""

Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
"""A part of a whole, in [0, 1]."""

Measured = Annotated[float, msgspec.Meta(ge=-1e30, le=1e30)]
"""A measured quantity. Its limit is far below the largest float, so that sums and products of measured quantities are
finite."""

Amount = Annotated[float, msgspec.Meta(ge=0.0, le=1e30)]
"""A measured quantity that is never negative."""

Total = Annotated[float, msgspec.Meta(ge=-1e45, le=1e45)]
"""A sum of measured quantities."""

Instant = Annotated[int, msgspec.Meta(ge=-_INT64_MAX, le=_INT64_MAX)]
"""A time relative to another time [ns]; negative if it is earlier."""

Seed = Annotated[int, msgspec.Meta(ge=-_INT64_MAX, le=_INT64_MAX)]
"""A seed of a generator of random numbers."""

RunId = Annotated[str, msgspec.Meta(pattern=r"\A[\w.+-]{1,128}\Z")]
"""Id of a run."""

PathBelow = Annotated[str, msgspec.Meta(pattern=r"\A(?!/)(?![\s\S]*(?:\A|/)\.\.(?:/|\Z))[^\0]+\Z")]
"""Relative path of a file inside a run's directory; it can't leave the directory."""

_CONTAINERS = frozenset({dict, list})
"""Values of JSON that hold other values."""

_MOST_NESTED = 64
"""Deepest nesting of the fields of a row: recursive functions process them."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One immutable record of the ledger."""

    DURABLE: ClassVar[bool] = True
    """Whether the row is on disk before the program goes on. Other rows, such as telemetry, may be written in
    batches."""

    IDENTITY: ClassVar[frozenset[str]] = frozenset(
        {
            "run_id",
            "cohort",
            "task",
            "rl_library",
            "panel",
            "panel_id",
            "checkpoint",
            "checkpoint_sha256",
            "path",
            "sha256",
            "outcomes",
            "anchors",
        }
    )
    """Fields that identify what a row is about. They are never redacted."""

    def to_data(self) -> dict[str, Any]:
        """Return the fields as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        """Build the row from JSON, and check the type and the range of every field.

        Args:
            data: The result of :meth:`to_data`, or any JSON value from an untrusted file.

        Raises:
            ValueError: If the JSON value is not an object, a field is missing or unknown, or a value has the wrong type
                or range. The message names the field.
        """
        if not isinstance(data, dict):
            raise ValueError("its fields are not a JSON object")
        known, untyped = _field_names(cls)  # type: ignore[arg-type]  # a class is hashable, whatever its rows are
        if unknown := data.keys() - known:
            raise ValueError(f"unknown field {min(unknown)!r}")
        if any(_is_nested(data.get(name), _MOST_NESTED) for name in untyped):
            raise ValueError(f"its fields are nested more than {_MOST_NESTED} deep")
        return msgspec.convert(data, cls)


@cache
def _field_names(kind: type[Row]) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the names of all fields of a kind, and of those whose type leaves values open, so that they may nest."""
    names = {each.name: str(each.type) for each in fields(kind)}
    return frozenset(names), tuple(name for name, annotation in names.items() if "Any" in annotation)


def _is_nested(value: Any, depth: int) -> bool:  # noqa: ANN401 - any JSON value
    """Tell whether a JSON value is nested deeper than so many levels."""
    if type(value) not in _CONTAINERS:
        return False
    inner = value.values() if isinstance(value, dict) else value
    return depth == 0 or (
        not _CONTAINERS.isdisjoint(map(type, inner)) and any(_is_nested(each, depth - 1) for each in inner)
    )


def check_fields(kind: type[Row], data: bytes) -> Any:  # noqa: ANN401 - a class of its own per kind
    """Check the type and the range of every field of a row, as :meth:`Row.from_data` does, in half the time.

    Args:
        kind: Kind of the row.
        data: Its fields as JSON.

    Returns:
        An object with the attributes of the row.

    Raises:
        ValueError: If a field is missing or unknown, or a value has the wrong type or range.
    """
    return checker(kind)(data)  # type: ignore[arg-type]  # a class is hashable, whatever its rows are


@cache
def checker(kind: type[Row]) -> Callable[[bytes], Any]:
    """Return what :func:`check_fields` calls for rows of one kind.

    Unlike a dataclass, msgspec's own kind of class refuses fields that it does not know while it parses them.
    """
    if _field_names(kind)[1]:  # type: ignore[arg-type]
        return lambda data: kind.from_data(orjson.loads(data))
    hints = get_type_hints(kind, include_extras=True)
    declared = [
        (each.name, hints[each.name])
        if each.default is each.default_factory is MISSING
        else (each.name, hints[each.name], _default(each.default, each.default_factory))
        for each in fields(kind)
    ]
    checks = {"__post_init__": kind.__post_init__} if hasattr(kind, "__post_init__") else {}
    struct = msgspec.defstruct(kind.__name__, declared, kw_only=True, forbid_unknown_fields=True, namespace=checks)
    return msgspec.json.Decoder(struct).decode


def decode_checked[R: Row](kind: type[R], data: bytes) -> R:
    """Build a row whose fields :func:`check_fields` accepted before. This takes less time than :meth:`Row.from_data`.

    Args:
        kind: Kind of the row.
        data: Its fields as JSON. Names of fields are not compared again.

    Raises:
        ValueError: If a field is missing, or a value has the wrong type or range.
    """
    row: R = _decoder(kind)(data)  # type: ignore[arg-type]
    return row


@cache
def _decoder(kind: type[Row]) -> Callable[[bytes], Any]:
    """Return the decoder of the rows of one kind."""
    return msgspec.json.Decoder(kind).decode


def _default(value: object, factory: Any) -> Any:  # noqa: ANN401 - of any field
    """Return the default of a field in msgspec's terms."""
    return msgspec.field(default=value) if factory is MISSING else msgspec.field(default_factory=factory)
