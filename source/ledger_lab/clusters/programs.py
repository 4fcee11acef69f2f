"""Runs the command-line programs of schedulers, and checks the form of what they print."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from ledger_lab.clusters.submission_folders import job_name
from ledger_lab.errors import UserError
from ledger_lab.names import visible

SUBMIT_SCRIPT = "submit.sh"
"""Name of the script in the folder of a submission that submits its files."""
_LONGEST_REASON = 400
"""Characters of a message that are shown."""
_LOOKS, _LOOK_S = 100, 0.001
"""How often, and after which pauses, an empty command line is read [1, s]."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_BEGINNING = re.compile(r"^\S+: error: ")
"""How programs of Slurm begin their messages."""
_CHAINED = re.compile("(?:The above exception was the direct cause|During handling of the above exception).*:\n")
"""Lines between the messages of a chain of Python's exceptions."""


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
        try:
            finished = subprocess.run(
                [self.name, *arguments],
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=limit_s,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                env={**self._inherited(), **self.environment},
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
            raise AskedInVainError(f"{self.name}: {said[:_LONGEST_REASON]}{way}")
        return _COLOUR.sub("", finished.stdout)

    def _inherited(self) -> dict[str, str]:
        """Return the environment variables of this process that the program gets."""
        hidden = self.withheld
        return {name: value for name, value in os.environ.items() if hidden is None or not hidden.match(name)}

    def read[Answer](self, said: str, kind: type[Answer]) -> Answer:
        """Check an answer in JSON field by field.

        Args:
            said: What the program printed.
            kind: What it must be.

        Raises:
            UserError: If it is anything else. A training that is missed here would be submitted again.
        """
        try:
            return msgspec.json.decode(said, type=kind)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise UserError(
                f"{self.name} printed {said[:80]!r}, which LedgerLab does not understand ({error}): check its version"
            ) from error


def submit_script(what: str, command: Sequence[str]) -> str:
    """Return a script that submits the files beside it.

    Args:
        what: What it submits, for people.
        command: The command.
    """
    return f"#!/bin/bash\n# Submits {what}; run it in this folder.\nexec {shlex.join(command)}\n"


def read_submit_script(folder: Path) -> list[str]:
    """Return the command of a script of :func:`submit_script`.

    Raises:
        UserError: If it is missing or was changed.
    """
    try:
        *_, last = read_submitted(folder, SUBMIT_SCRIPT).splitlines()
        begin, *command = shlex.split(last)
    except ValueError as error:
        raise changed(folder, SUBMIT_SCRIPT) from error
    if begin != "exec" or not command:
        raise changed(folder, SUBMIT_SCRIPT)
    return command


def read_submitted(folder: Path, name: str) -> str:
    """Return the content of a file of a submission.

    Args:
        folder: Folder of the submission.
        name: Name of the file.

    Raises:
        UserError: If it is missing or can't be read.
    """
    try:
        return (folder / name).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise UserError(f"{folder / name} can't be read ({error}): {_way_out(folder)}") from error


def changed(folder: Path, name: str) -> UserError:
    """Return the error about a file of a submission that is not as it was written.

    Args:
        folder: Folder of the submission.
        name: Name of the file.
    """
    return UserError(f"{folder / name} was changed: {_way_out(folder)}")


def _way_out(folder: Path) -> str:
    """Return what to do about a submission whose files are damaged."""
    return f"restore it; or cancel the job {job_name(folder)}, if there is one, and remove the folder"


def programs_in(folder: Path) -> dict[int, str]:
    """Return the command lines of the programs of this machine that work in a folder, by process id.

    Programs that submit run in the folder of the submission. They may go on when the program that started them is
    killed.

    Args:
        folder: The folder.
    """
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it belongs to another user, or has ended
            if int(process.name) != os.getpid() and (process / "cwd").samefile(folder):
                command = _command_line(process).replace(b"\0", b" ")
                found[int(process.name)] = command.decode(errors="replace")
    return found


def _command_line(process: Path) -> bytes:
    """Return the command line of a process. While a process becomes another program, it is empty for an instant.

    Args:
        process: Its folder below ``/proc``.

    Raises:
        OSError: If it has ended.
    """
    for _ in range(_LOOKS):
        if command := (process / "cmdline").read_bytes():
            return command
        time.sleep(_LOOK_S)
        (process / "cwd").stat()  # a process that has ended has none
    return b""


def _one_line(said: str) -> str:
    """Return a message as one line without control characters; of a chain of Python's exceptions, the last message."""
    lines = [line.strip() for line in _CHAINED.split(_COLOUR.sub("", said))[-1].splitlines() if line.strip(" *")]
    if any(line.startswith("Traceback (most recent call last)") for line in lines):
        lines = lines[-1:]
    return visible("; ".join(dict.fromkeys(_BEGINNING.sub("", line) for line in lines)))


def first_line(text: str | None) -> str:
    """Return the first line of a text for people, without control characters; empty if there is none."""
    return _one_line(text.strip().partition("\n")[0])[:_LONGEST_REASON] if text else ""


def without_nulls[Key, Value](table: Mapping[Key, Value | None]) -> dict[Key, Value]:
    """Return a table without the entries that have no value."""
    return {key: value for key, value in table.items() if value is not None}
