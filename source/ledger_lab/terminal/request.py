"""Requests: what a user asks of a program, as a dataclass whose fields are the program's flags.

A flag is declared once, as a field, and read where it is used. Nothing here needs torch or Isaac Lab.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from ledger_lab.terminal.flags import DEFAULT_TASK


@dataclass(frozen=True, kw_only=True)
class SimulationRequest:
    """What a user asks of a program that opens a simulation. Each program adds its own flags."""

    device: str | None = None
    """``cpu``, ``cuda`` or ``cuda:N``; ``None`` for CUDA where there is one, else the CPU."""
    launcher: dict[str, Any] = field(default_factory=dict)
    """The other flags of Isaac Lab's launcher, as the launcher takes them."""
    given: tuple[str, ...] = ()
    """Fields that were set on the command line. All others have their defaults."""

    @property
    def quiet_libraries(self) -> bool:
        """Whether the libraries' messages are hidden from the terminal."""
        return not (self.launcher.get("verbose") or self.launcher.get("info"))

    def launcher_args(self, device: str) -> dict[str, Any]:
        """Return a dictionary for Isaac Lab's launcher, which also writes into it.

        Args:
            device: The device that was chosen.
        """
        return {"visualizer": None, **self.launcher, "device": device}


@dataclass(frozen=True)
class FlagGroup:
    """Flags that ``--help`` shows together."""

    title: str
    description: str | None = None


@dataclass(frozen=True, kw_only=True)
class _Flag:
    """How a field is set on the command line, beyond what its type says."""

    help: str
    group: FlagGroup | None
    metavar: str | None
    parse: Callable[[str], Any] | None
    positional: bool
    each_attempt: bool


def flag(
    default: Any,
    help: str,  # noqa: A002 - argparse calls it so
    *,
    group: FlagGroup | None = None,
    metavar: str | None = None,
    parse: Callable[[str], Any] | None = None,
    positional: bool = False,
    each_attempt: bool = False,
) -> Any:
    """Declare a field of a request that the flag of the same name sets.

    The type of the field says how the flag is read: ``bool`` is a switch (with a ``--no-…`` beside it where the default
    is true), ``Literal`` a choice, and a ``tuple`` can be given repeatedly.

    Args:
        default: Value if the flag is left out.
        help: What ``--help`` says, with argparse's ``%`` escapes.
        group: Where ``--help`` shows the flag.
        metavar: Name of the value in ``--help``.
        parse: Reads the value if the type of the field does not say how.
        positional: Whether the value is given without a flag; a tuple takes any number of values.
        each_attempt: Whether the flag belongs to one attempt of a run, so that a resumed run may set another value.
    """
    made = _Flag(help=help, group=group, metavar=metavar, parse=parse, positional=positional, each_attempt=each_attempt)
    return field(default=default, metadata={"flag": made})


def log_root_flag(
    help: str = "Root of the ledger (default: logs).",  # noqa: A002 - argparse calls it so
    *,
    group: FlagGroup | None = None,
    each_attempt: bool = False,
) -> Any:
    """Declare ``--log_root``, of type ``Path``; see :func:`flag`."""
    return flag(Path("logs"), help, group=group, each_attempt=each_attempt)


def checkpoint_flag() -> Any:
    """Declare the one checkpoint that a program takes, of type ``str | None``."""
    return flag(
        None,
        (
            "Checkpoint file, run id or run directory. For a run, the confirmed checkpoint is taken, or the last one "
            "if none was confirmed."
        ),
        metavar="RUN_OR_CHECKPOINT",
        positional=True,
    )


def pretrained_flag() -> Any:
    """Declare ``--pretrained``, of type ``bool``."""
    return flag(
        False,
        (
            "Use the policy of --task that comes with the package. By default, files are written to pretrained/ below "
            "--log_root. Its scores are stored beside a copy of its training's journals, so that reports show both."
        ),
    )


def pretrained_task_flag() -> Any:
    """Declare ``--task`` beside ``--pretrained``, of type ``str | None``."""
    return flag(None, f"With --pretrained: Gymnasium id of the task (default: {DEFAULT_TASK}).")


def trust_run_flag() -> Any:
    """Declare ``--trust_run``, of type ``bool``."""
    return flag(
        False,
        "Run Python code that the run's journal names: the success function of its panel file, and overrides that "
        "may name functions, classes or files. Use this flag only if you trust the authors of the run.",
    )


def add_flags(parser: argparse.ArgumentParser, request: type[SimulationRequest]) -> argparse.ArgumentParser:
    """Add the flags of a request to a parser.

    Args:
        parser: The parser. It sets only what is given: the defaults are those of the fields.
        request: The request.

    Returns:
        The parser.
    """
    groups: dict[FlagGroup | None, argparse._ArgumentGroup | argparse.ArgumentParser] = {None: parser}
    hints = get_type_hints(request)
    for each in fields(request):
        if (declared := each.metadata.get("flag")) is None:
            continue
        group = declared.group
        if group not in groups:
            groups[group] = parser.add_argument_group(group.title, group.description)
        name = each.name if declared.positional else f"--{each.name}"
        options = _options(hints[each.name], each.default, declared)
        groups[group].add_argument(name, default=argparse.SUPPRESS, help=declared.help, **options)
    return parser


def _options(hint: Any, default: Any, declared: _Flag) -> dict[str, Any]:
    """Return how argparse reads a field of some type."""
    named = {} if declared.metavar is None else {"metavar": declared.metavar}
    if declared.parse is not None:
        return {"type": declared.parse, **named}
    if hint is bool:
        return {"action": argparse.BooleanOptionalAction if default else "store_true"}
    if get_origin(hint) is Literal:
        return {"choices": get_args(hint)}
    many = get_origin(hint) is tuple
    kind = next(each for each in (*get_args(hint), hint) if each not in (NoneType, Ellipsis))
    if declared.positional:
        return {"type": kind, "nargs": "*" if many else "?", **named}
    return {"type": kind, **({"action": "append"} if many else {}), **named}


def flag_names(request: type[SimulationRequest], *, each_attempt: bool | None = None) -> tuple[str, ...]:
    """Return the names of the fields that flags set.

    Args:
        request: The request.
        each_attempt: Whether to return only those that belong to one attempt, or only the others.
    """
    flags = {each.name: each.metadata["flag"] for each in fields(request) if "flag" in each.metadata}
    return tuple(name for name, each in flags.items() if each_attempt in (None, each.each_attempt))


def as_given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values for the fields of a request; lists become tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
