"""Flags that several programs share, and their help, which needs neither torch nor Isaac Lab."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import NoReturn

from ledger_lab.errors import UserError

DEFAULT_TASK = "LedgerLab-Cartpole"


class HelpFormatter(argparse.HelpFormatter):
    """Formatter of ``--help`` that wraps paragraphs and prints indented lines, such as examples, as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Wrap the paragraphs of a description or an epilog.

        Args:
            text: Paragraphs and indented lines, separated by line breaks.
            width: Length of a line [characters].
            indent: What each line begins with.
        """
        wrap = super()._fill_text
        lines = (line if line[:1].isspace() else wrap(line, width, indent) for line in text.splitlines())
        return "\n".join(lines)


class Parser(argparse.ArgumentParser):
    """Parser that refuses a command line with an error of one line."""

    def error(self, message: str) -> NoReturn:
        """Refuse a command line.

        Raises:
            UserError: Always.
        """
        raise UserError(f"{message}; see --help")


@dataclass(frozen=True, kw_only=True)
class Program:
    """A script, as its ``--help`` describes it."""

    name: str
    """File name of the script, such as ``play.py``."""
    description: str
    """What the script does."""
    examples: tuple[str, ...]
    """Commands to show, each the name of a script with its arguments, like ``report.py --checkpoints``."""
    usage: str | None = None
    """First lines of the help, if the flags do not say all."""

    def parser(self) -> Parser:
        """Return a parser without flags."""
        return Parser(
            prog=self.name,
            usage=self.usage,
            description=self.description,
            epilog="\n".join(["examples:", *(f"  ./isaaclab.sh -p scripts/{each}" for each in self.examples)]),
            formatter_class=HelpFormatter,
        )


LAUNCHER_FLAGS = (
    (
        ("--device",),
        "DEVICE",
        "Device of the simulation: cpu, cuda or cuda:N (default: a CUDA device, if there is one).",
    ),
    (("--visualizer", "--viz"), "NAME[,NAME]", "Viewers to open: newton_gl, kit, rerun, viser (default: none)."),
    (("--verbose",), None, "Show detailed messages of the libraries."),
    (("--info",), None, "Show messages of the libraries."),
    (("--deterministic",), None, "Render deterministically."),
    (
        ("--livestream",),
        "{0,1,2}",
        "Live stream of Isaac Sim: 0 off, 1 public network, 2 private network (default: 0).",
    ),
    (("--xr",), None, "Start Isaac Sim in XR mode."),
    (("--experience",), "FILE", "Experience file of Isaac Sim."),
    (("--kit_args",), "ARGS", "Arguments for Omniverse Kit, as one string."),
    (("--anim_recording_enabled",), None, "Record USD animations of PhysX simulations."),
    (("--anim_recording_start_time",), "S", "Start of that recording [s]."),
    (("--anim_recording_stop_time",), "S", "End of that recording [s]."),
    (("--max_visible_envs",), "N", "Largest number of environments to show in viewers."),
)
"""Flags of Isaac Lab's launcher, with their help in short. Isaac Lab itself parses them."""
