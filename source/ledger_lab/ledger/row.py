"""What all kinds of rows have in common: the types of their fields, and the check of a row from a file.

A row is a frozen dataclass; its class name is its kind. Durations are integers in nanoseconds, so that the phases sum
to the wall-clock time exactly. A figure that was not measured is ``None``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar, Self

import msgspec

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

Seed = Annotated[int, msgspec.Meta(ge=-_INT64_MAX, le=_INT64_MAX)]
"""A seed of a generator of random numbers."""

RunId = Annotated[str, msgspec.Meta(pattern=r"\A[\w.+-]{1,128}\Z")]
"""Id of a run."""

PathBelow = Annotated[str, msgspec.Meta(pattern=r"\A(?!/)(?![\s\S]*(?:\A|/)\.\.(?:/|\Z))[^\0]+\Z")]
"""Relative path of a file inside a run's directory; it can't leave the directory."""

_CONTAINERS = frozenset({dict, list})
"""Values of JSON that hold other values."""

_MOST_NESTED = 64
"""Deepest nesting of the fields of a row: recursive functions process them later."""


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
        """Build the row from its JSON value, and check the type and the range of every field.

        Raises:
            ValueError: If a field is missing, or a value has the wrong type or range. The message names the field.
        """
        return msgspec.convert(data, cls)


def require_shallow(*values: Any) -> None:  # noqa: ANN401 - any JSON values
    """Check fields whose types leave their values open.

    Raises:
        ValueError: If they are nested too deep.
    """
    level: Iterable[Any] = values
    for _ in range(_MOST_NESTED + 1):
        containers = [each.values() if type(each) is dict else each for each in level if type(each) in _CONTAINERS]
        if not containers:
            return
        level = [each for inner in containers if not _CONTAINERS.isdisjoint(map(type, inner)) for each in inner]
    raise ValueError(f"its fields are nested more than {_MOST_NESTED} deep")
