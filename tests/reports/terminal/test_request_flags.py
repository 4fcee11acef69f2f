"""Fields of a request are flags: the type determines how a flag is read, and only given flags are set."""

from __future__ import annotations

import argparse
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from ledger_lab.errors import UserError
from ledger_lab.reports.terminal.request import (
    FlagGroup,
    Named,
    Program,
    Request,
    SimulationRequest,
    add_flags,
    as_given,
    flag,
    flag_names,
    log_root_flag,
)

GROUP = FlagGroup("how", "In which way.")


@dataclass(frozen=True, kw_only=True)
class Toy(SimulationRequest):
    """A request of every kind of flag."""

    runs: tuple[str, ...] = flag((), "Runs.", metavar="RUN", positional=True)
    fast: bool = flag(False, "Fast.")
    safe: bool = flag(True, "Safe.")
    mode: Literal["a", "b"] = flag("a", "Mode.")
    to: tuple[str, ...] = flag((), "Where to.", each_attempt=True)
    names: tuple[str, ...] = flag((), "Names.", parse=lambda text: text.split(","))
    log_root: Path = log_root_flag()
    count: int | None = flag(None, "How many.", group=GROUP)
    rate: float = flag(0.5, "How fast.")


def given(*argv: str) -> dict[str, Any]:
    """Return the fields that a command line sets."""
    return as_given(vars(add_flags(argparse.ArgumentParser(), Toy).parse_args(argv)))


def test_only_given_flags_are_recorded() -> None:
    assert given() == {}
    assert Toy(**given()) == Toy()


@pytest.mark.parametrize(
    ("argv", "fields"),
    [
        (["r1", "r2"], {"runs": ("r1", "r2")}),
        (["--count", "3", "--rate", "2"], {"count": 3, "rate": 2.0}),
        (["--fast", "--no_safe"], {"fast": True, "safe": False}),
        (["--mode", "b"], {"mode": "b"}),
        (["--to", "x", "--to", "y"], {"to": ("x", "y")}),
        (["--names", "x,y"], {"names": ("x", "y")}),
        (["--log_root", "elsewhere"], {"log_root": Path("elsewhere")}),
    ],
)
def test_the_type_of_a_field_says_how_its_flag_is_read(argv: list[str], fields: dict[str, Any]) -> None:
    assert given(*argv) == fields


@pytest.mark.parametrize("text", ["9" * 19, "-" + "9" * 19, "9" * 5000, "many"])
def test_integers_that_no_row_can_hold_are_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        given(f"--count={text}")
    assert "is not a whole number of at most 64 bits" in capsys.readouterr().err.splitlines()[-1]
    assert given("--count", str(2**63 - 1)) == {"count": 2**63 - 1}


def test_help_shows_flags_in_their_groups() -> None:
    text = add_flags(argparse.ArgumentParser(), Toy).format_help()
    assert text.index("Safe.") < text.index("how:\n  In which way.") < text.index("How many.") < text.index("How fast.")
    assert flag_names(Toy, each_attempt=True) == ("cpu_threads", "to")
    assert flag_names(Toy)[:3] == ("cpu_threads", "runs", "fast") and "device" not in flag_names(Toy)


@dataclass(frozen=True, kw_only=True)
class Plain(Request):
    """A request that opens no simulation."""

    program = Program(name="plain.py", description="Do it.", examples=("plain.py RUN --to DIR",))
    run: str = flag(MISSING, "Run.", metavar="RUN", positional=True)
    to: Path = flag(MISSING, "Where to.")
    formats: tuple[Literal["a", "b"], ...] = flag(("a",), "In which formats.")
    pair: tuple[str, str] | None = flag(None, "Two of them.", metavar=("A", "B"))
    quick: bool = flag(False, "Quick.")

    def __post_init__(self) -> None:
        self.require_at_most_one("pair", "quick")


def test_a_program_parses_its_request() -> None:
    assert Plain.parse(["r1", "--to", "x"]) == Plain(run="r1", to=Path("x"))
    assert Plain.parse(["--to", "x", "--formats", "b", "a", "--", "r1"]).formats == ("b", "a")
    assert Plain.parse(["r1", "--to", "x", "--pair", "c", "d"]).pair == ("c", "d")
    assert "./isaaclab.sh -p scripts/plain.py RUN --to DIR" in Plain.parser().format_help()
    assert Plain.parse(["r1", "--to", "x"]).named() == Named()


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["r1"], "the following arguments are required: --to; see --help"),
        (["--to", "x"], "the following arguments are required: RUN; see --help"),
        (["r1", "--to", "x", "--formats", "c"], "invalid choice: 'c' .*; see --help"),
        (["r1", "--to", "x", "--pair", "c"], "argument --pair: expected 2 arguments; see --help"),
        (
            ["r1", "--to", "x", "--pair", "c", "d", "--quick"],
            "--pair and --quick cannot be used together",
        ),
    ],
)
def test_a_program_refuses_a_command_line_in_one_line(argv: list[str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        Plain.parse(argv)


@dataclass(frozen=True, kw_only=True)
class Fixed(SimulationRequest):
    """A request that opens a simulation as a run declared it."""

    program = Program(name="fixed.py", description="Do it.", examples=("fixed.py",))


@dataclass(frozen=True, kw_only=True)
class Changed(Fixed):
    """A request that opens a simulation with overrides."""

    overrides: tuple[str, ...] = ()


def test_help_explains_overrides_only_where_a_program_takes_them() -> None:
    shown = {each: "overrides:" in each.parser().format_help(everything=True) for each in (Fixed, Changed)}
    assert shown == {Fixed: False, Changed: True}
