"""Runs the command-line programs of schedulers, and checks the form of what they print."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from ledger_lab.errors import UserError
from ledger_lab.names import visible

_LONGEST_REASON = 400
"""Characters of a message that are shown."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_BEGINNING = re.compile(r"^\S+: error: ")
"""How programs of Slurm begin their messages."""
_UNCLEAR = re.compile(
    r"timed? ?out|Zero Bytes|receive failure|shutdown failure|reset by peer|EOF|etcdserver", re.IGNORECASE
)
"""Messages after which a cluster may still do what it was asked for."""


class AskedInVainError(UserError):
    """A cluster refuses, or does not answer; it may do what it was asked for later."""


class NoAnswerError(AskedInVainError):
    """A cluster did not answer in time; it may still do what it was asked for."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """Command-line programs of a scheduler."""

    name: str = ""
    """Name for people; empty for that of the command."""
    install: str
    """What to do if it is not installed."""
    answer_s: float
    """Longest time that it may take [s]."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that it gets besides those of this process."""
    withheld: re.Pattern[str] | None = None
    """Beginnings of environment variables of this process that it does not get; ``None`` if it gets all."""
    ways_out: Mapping[str, str] = field(default_factory=dict)
    """Parts of its messages, with what to do."""
    unclear: re.Pattern[str] | None = _UNCLEAR
    """Messages after which it may still do what it was asked for; ``None`` if only no answer means that."""

    def ask(self, *command: str, cwd: Path | None = None, answer_s: float | None = None) -> str:
        """Run a command, and return what it printed on standard output, without colours.

        Args:
            command: The command.
            cwd: Where to run it; ``None`` for here.
            answer_s: Longest time that it may take [s]; ``None`` for that of the program.

        Raises:
            AskedInVainError: If it does not answer, or refuses.
            UserError: If it is not installed.
        """
        name, limit_s = self.name or command[0], self.answer_s if answer_s is None else answer_s
        kept = {key: value for key, value in os.environ.items() if not self.withheld or not self.withheld.match(key)}
        try:
            finished = subprocess.run(
                command,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=limit_s,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                env={**kept, **self.environment},
            )
        except FileNotFoundError as error:
            raise UserError(f"{name} is not installed here: {self.install}") from error
        except OSError as error:
            raise UserError(f"{name} can't be started ({error.strerror}): {self.install}") from error
        except subprocess.TimeoutExpired as error:
            raise NoAnswerError(
                f"{name} timed out after {limit_s:g} s: try again later, or ask the administrators"
            ) from error
        if finished.returncode:
            printed = finished.stderr or finished.stdout
            said = _one_line(printed) or f"exit status {finished.returncode}"
            way = next((f": {way}" for part, way in self.ways_out.items() if part in printed), "")
            kind = NoAnswerError if self.unclear and self.unclear.search(said) else AskedInVainError
            named = said if name in said else f"{name}: {said}"
            raise kind(f"{named[:_LONGEST_REASON]}{way}")
        return _COLOUR.sub("", finished.stdout)

    def read[Answer](self, said: str, kind: type[Answer]) -> Answer:
        """Check an answer in JSON field by field. Other messages may precede it.

        Args:
            said: What the program printed.
            kind: What it must be.

        Raises:
            UserError: If it is anything else. A training that is missed here would be submitted again.
        """
        begin = re.search(r"^[\[{]", said, re.MULTILINE)
        try:
            return msgspec.json.decode(said[begin.start() :] if begin else said, type=kind)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise UserError(
                f"{self.name or 'it'} printed {said[:80]!r}, which LedgerLab does not understand ({error}): check its "
                "version"
            ) from error


def _one_line(said: str) -> str:
    """Return a message as one line without control characters.

    Of programs in Python, it is the error that LedgerLab tells, or the last line of a traceback.
    """
    lines = [line.strip() for line in _COLOUR.sub("", said).splitlines() if re.search(r"\w", line)]
    if told := [line for line in lines if line.startswith("error: ")]:
        lines = [told[-1].removeprefix("error: ")]
    elif any(line.startswith("Traceback (most recent call last)") for line in lines):
        lines = lines[-1:]
    return visible("; ".join(dict.fromkeys(_BEGINNING.sub("", line) for line in lines)))


def first_line(text: str | None) -> str:
    """Return the first line of a text for people, without control characters; empty if there is none."""
    return _one_line(text.strip().partition("\n")[0])[:_LONGEST_REASON] if text else ""


def without_nulls[Key, Value](table: Mapping[Key, Value | None]) -> dict[Key, Value]:
    """Return a table without the entries that have no value."""
    return {key: value for key, value in table.items() if value is not None}
