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
    """A command-line program of a scheduler."""

    name: str
    """Its name on the ``PATH``."""
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

    def ask(self, *arguments: str, cwd: Path | None = None, answer_s: float | None = None) -> str:
        """Run the program, and return what it printed on standard output, without colours.

        Args:
            arguments: Its arguments.
            cwd: Where to run it; ``None`` for here.
            answer_s: Longest time that it may take [s]; ``None`` for that of the program.

        Raises:
            AskedInVainError: If it does not answer, or refuses.
            UserError: If it is not installed.
        """
        limit_s = self.answer_s if answer_s is None else answer_s
        kept = {name: value for name, value in os.environ.items() if not self.withheld or not self.withheld.match(name)}
        try:
            finished = subprocess.run(
                [self.name, *arguments],
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=limit_s,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                env={**kept, **self.environment},
            )
        except FileNotFoundError as error:
            raise UserError(f"{self.name} is not installed here: {self.install}") from error
        except OSError as error:
            raise UserError(f"{self.name} can't be started ({error.strerror}): {self.install}") from error
        except subprocess.TimeoutExpired as error:
            raise NoAnswerError(
                f"{self.name} timed out after {limit_s:g} s: try again later, or ask the administrators"
            ) from error
        if finished.returncode:
            said = _one_line(finished.stderr or finished.stdout) or f"exit status {finished.returncode}"
            way = next((f": {way}" for part, way in self.ways_out.items() if part in said), "")
            kind = NoAnswerError if _UNCLEAR.search(said) else AskedInVainError
            raise kind(f"{self.name}: {said[:_LONGEST_REASON]}{way}")
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
                f"{self.name} printed {said[:80]!r}, which LedgerLab does not understand ({error}): check its version"
            ) from error


def _one_line(said: str) -> str:
    """Return a message as one line without control characters; of a traceback of Python, the last line."""
    lines = [line.strip() for line in _COLOUR.sub("", said).splitlines() if line.strip(" *")]
    if any(line.startswith("Traceback (most recent call last)") for line in lines):
        lines = lines[-1:]
    return visible("; ".join(dict.fromkeys(_BEGINNING.sub("", line) for line in lines)))


def first_line(text: str | None) -> str:
    """Return the first line of a text for people, without control characters; empty if there is none."""
    return _one_line(text.strip().partition("\n")[0])[:_LONGEST_REASON] if text else ""


def without_nulls[Key, Value](table: Mapping[Key, Value | None]) -> dict[Key, Value]:
    """Return a table without the entries that have no value."""
    return {key: value for key, value in table.items() if value is not None}
