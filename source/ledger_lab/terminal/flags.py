"""Flags that several programs share, and their help, which needs neither torch nor Isaac Lab."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

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


def examples(*commands: str) -> str:
    """Return the epilog of a parser that shows commands.

    Args:
        commands: Each the name of a script with its arguments, like ``report.py --checkpoints``.
    """
    return "\n".join(["examples:", *(f"  ./isaaclab.sh -p scripts/{command}" for command in commands)])


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


def answer_help(make_parser: Callable[[], argparse.ArgumentParser], argv: Sequence[str], *, launcher: bool) -> None:
    """Print the help and exit if it was asked for, before Isaac Lab is imported.

    With ``--task``, the help also lists the presets of that task, which takes Isaac Lab: then this function returns.

    Args:
        make_parser: Makes the parser of the program.
        argv: Command line without the name of the program.
        launcher: Whether the program takes the flags of Isaac Lab's launcher.

    Raises:
        SystemExit: With status 0, after the help was printed.
    """
    names = [argument.partition("=")[0] for argument in argv]
    if not {"-h", "--help"} & {*names} or (launcher and "--task" in names):
        return
    parser = make_parser()
    if launcher:
        group = parser.add_argument_group(
            "Isaac Lab's launcher", "`--task TASK --help` shows Isaac Lab's full text and the presets of the task."
        )
        for flags, metavar, text in LAUNCHER_FLAGS:
            if metavar is None:
                group.add_argument(*flags, action="store_true", help=text)
            else:
                group.add_argument(*flags, metavar=metavar, help=text)
        parser.add_argument_group(
            "overrides",
            "physics=NAME, renderer=NAME and presets=NAME[,NAME] choose presets; scripts/list_envs.py lists the "
            "physics presets of each task. env.PATH=VALUE and agent.PATH=VALUE set single values.",
        )
    parser.print_help()
    sys.exit(0)
