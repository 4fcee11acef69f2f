"""Flags that several programs share, and their help, which needs neither torch nor Isaac Lab."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

DEFAULT_TASK = "LedgerLab-Cartpole"

LAUNCHER_FLAGS = (
    (("--device",), "DEVICE", "Device of the simulation: cpu, cuda or cuda:N (default: CUDA where there is one)."),
    (("--visualizer", "--viz"), "NAME[,NAME]", "Isaac Lab's viewers: newton_gl, kit, rerun, viser."),
    (("--verbose",), None, "Show the libraries' messages, in detail."),
    (("--info",), None, "Show the libraries' messages."),
    (("--deterministic",), None, "Ask for rendering that repeats."),
    (("--livestream",), "{0,1,2}", "Isaac Sim's live stream."),
    (("--xr",), None, "Isaac Sim's XR mode."),
    (("--experience",), "FILE", "Isaac Sim's experience file."),
    (("--kit_args",), "ARGS", "Arguments for Omniverse Kit, in one string."),
    (("--anim_recording_enabled",), None, "Record USD animations of PhysX simulations."),
    (("--anim_recording_start_time",), "S", "When that recording starts [s]."),
    (("--anim_recording_stop_time",), "S", "When that recording stops [s]."),
    (("--max_visible_envs",), "N", "Most environments that the viewers show."),
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
            "Isaac Lab's launcher", "`--task TASK --help` shows Isaac Lab's own text, and the presets of the task."
        )
        for flags, metavar, text in LAUNCHER_FLAGS:
            if metavar is None:
                group.add_argument(*flags, action="store_true", help=text)
            else:
                group.add_argument(*flags, metavar=metavar, help=text)
        parser.add_argument_group(
            "overrides",
            "physics=NAME, renderer=NAME and presets=NAME[,NAME] choose presets (scripts/list_envs.py lists the "
            "physics of each task); env.PATH=VALUE and agent.PATH=VALUE set single values.",
        )
    parser.print_help()
    sys.exit(0)
