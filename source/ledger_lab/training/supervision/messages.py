"""The messages between a working process and its supervisor, and between the supervisors of several ranks.

A message travels as one JSON object. Reading checks its kind, its fields and their types before anything acts on it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import NoReturn

import msgspec

from ledger_lab.ledger import AttemptEnded, Status

LARGEST_BYTES = 1 << 16
"""Size of the largest message [B]. Two paths of 4096 bytes each fit, even if JSON escapes all of their characters."""

LONGEST_REASON = 2000
"""Characters of the reason of an end that are passed on to other ranks."""
_LONGEST_HOST = 255
_LARGEST_RANK = 1 << 20
_AGREED = (Status.COMPLETED, Status.TARGET_REACHED, Status.STOPPED, Status.INVALID, Status.LIMIT_REACHED)
"""Statuses that all processes reach together, without a message."""


class MessageError(ValueError):
    """Bytes are not a message of an expected kind."""


@dataclass(frozen=True, kw_only=True)
class Message:
    """One message. Its fields are JSON values, a status, or a row."""

    def encode(self) -> bytes:
        """Return the message as JSON.

        Raises:
            MessageError: If it is larger than :data:`LARGEST_BYTES`.
        """
        data = json.dumps({"kind": type(self).__name__, **asdict(self)}).encode()
        if len(data) > LARGEST_BYTES:
            raise MessageError(f"{type(self).__name__}: {len(data)} bytes are more than a message may have")
        return data


@dataclass(frozen=True, kw_only=True)
class Listen(Message):
    """A process asks its supervisor to let the supervisors of other ranks connect. Answered by :class:`Listening`."""

    address: str
    """Address to listen at."""


@dataclass(frozen=True, kw_only=True)
class Listening(Message):
    """A supervisor listens."""

    port: int


@dataclass(frozen=True, kw_only=True)
class Join(Message):
    """A process asks its supervisor to connect to the supervisor of rank 0; on rank 0, to admit all others."""

    rank: int
    """Rank of the process."""
    ranks: int
    """Number of all processes."""
    address: str
    """Address of the supervisor of rank 0."""
    port: int
    host: str
    """Host name of the machine of rank 0."""
    secret: str
    """Shared by the supervisors of this training; hexadecimal."""

    def __post_init__(self) -> None:
        """Check the ranks.

        Raises:
            ValueError: If they are out of range.
        """
        if not 0 <= self.rank < self.ranks <= _LARGEST_RANK:
            raise ValueError(f"rank {self.rank} of {self.ranks}")


@dataclass(frozen=True, kw_only=True)
class Begin(Message):
    """A process asks its supervisor to create a journal and to write the end of an attempt."""

    journal: str
    """Path of the journal."""
    run_id: str
    attempt: int | None
    """Number of the attempt; ``None`` for a stand-alone evaluation."""
    rank: int
    device: str
    grace_s: float | None
    """How long the process may take to end after a signal [s]; ``None`` for the supervisor's own limit."""
    log: str
    """Path of a file with what the process prints."""


@dataclass(frozen=True, kw_only=True)
class Explain(Message):
    """A process says by which error it is about to end, in case nothing else is known. Answered by :class:`Done`."""

    status: Status
    reason: str
    """The error in one line."""


@dataclass(frozen=True, kw_only=True)
class End(Message):
    """A process says how its attempt ended. Answered by :class:`Ended`."""

    row: AttemptEnded
    exit_status: int
    secondhand: bool
    """Whether the attempt ended because a collective failed. Then, the end of another rank may be the cause."""


@dataclass(frozen=True, kw_only=True)
class Ended(Message):
    """A supervisor has written how the attempt ended."""

    row: AttemptEnded


@dataclass(frozen=True, kw_only=True)
class Done(Message):
    """A supervisor has done what it was asked."""


@dataclass(frozen=True, kw_only=True)
class Failed(Message):
    """A supervisor could not do what it was asked."""

    reason: str
    errno: int | None = None
    """Number of an error of the system."""
    filename: str | None = None
    """File of an error of the system."""


@dataclass(frozen=True, kw_only=True)
class Hello(Message):
    """A supervisor that has proven to belong to the training says which rank it supervises."""

    rank: int
    host: str

    def __post_init__(self) -> None:
        """Check the rank and the length of the name.

        Raises:
            ValueError: If one is out of range.
        """
        if not 0 <= self.rank < _LARGEST_RANK or len(self.host) > _LONGEST_HOST:
            raise ValueError(f"rank {self.rank}, or a host name that is too long")


@dataclass(frozen=True, kw_only=True)
class PeerEnd(Message):
    """How the process of a rank ended."""

    rank: int
    host: str
    status: Status
    reason: str | None
    exit_status: int

    def __post_init__(self) -> None:
        """Check numbers, lengths and the status.

        Raises:
            ValueError: If one is out of range, or the status is reserved for readers of the ledger.
        """
        if self.status in (Status.LOST, Status.RUNNING):
            raise ValueError(f"a process that reports its end is not {self.status}")
        if not (0 <= self.rank < _LARGEST_RANK and 0 <= self.exit_status < 256):
            raise ValueError(f"rank {self.rank}, exit status {self.exit_status}")
        if len(self.host) > _LONGEST_HOST or len(self.reason or "") > LONGEST_REASON:
            raise ValueError("host or reason is too long")

    @property
    def agreed(self) -> bool:
        """Whether all processes reach this status together, without a message."""
        return self.status in _AGREED

    @property
    def in_words(self) -> str:
        """The process and the reason of its end, in one line."""
        return f"rank {self.rank} on {self.host}: {self.reason or self.status.replace('_', ' ')}"[:LONGEST_REASON]


def decode[M: Message](data: bytes, *kinds: type[M]) -> M:
    """Return the message in some bytes. The bytes may come from an unknown sender.

    Args:
        data: The bytes.
        *kinds: Classes of the messages that are expected.

    Raises:
        MessageError: If they are not a message of these kinds.
    """
    try:
        content = json.loads(data, parse_constant=_refuse)  # paths may hold bytes that are not UTF-8
        if not isinstance(content, dict):
            raise MessageError("not an object")
        kind = next((kind for kind in kinds if kind.__name__ == content.get("kind")), None)
        if kind is None:
            raise MessageError("not an expected kind")
        del content["kind"]
        if content.keys() != {field.name for field in fields(kind)}:
            raise MessageError(f"{kind.__name__}: not the expected fields")
        return msgspec.convert(content, kind)
    except (ValueError, RecursionError) as error:
        raise error if isinstance(error, MessageError) else MessageError(f"{type(error).__name__}: {error}") from error


def _refuse(constant: str) -> NoReturn:
    """Refuse a constant that JSON does not have: ``NaN`` and the infinities."""
    raise MessageError(f"{constant} is not JSON")
