"""Flags that several programs share, and their help, which needs neither torch nor Isaac Lab."""

from __future__ import annotations

import argparse
import difflib
from dataclasses import dataclass
from typing import NoReturn

from ledger_lab.errors import UserError
from ledger_lab.names import as_started

DEFAULT_TASK = "LedgerLab-Cartpole"

_HABITS = {
    "enable_cameras": "leave it out, because the cameras of a task are always on",
    "experiment_name": "--log_root chooses the root folder, and --cohort NAME names a group of runs",
    "load_run": "--resume RUN continues a run, and --checkpoint RUN begins with its policy",
    "logger": "--mirror NAME also writes to TensorBoard, Weights & Biases or MLflow",
    "run_name": "each run has an id, and --cohort NAME names a group of runs",
    "video": "scripts/play.py RUN --video films a policy of a run",
    "wandb_project": "scripts/mirror.py RUN --to wandb --project NAME writes to a project of its own",
}
"""What to do instead of flags that users of Isaac Lab's own scripts know."""


def unknown_argument(argument: str, parser: argparse.ArgumentParser) -> str:
    """Return what to say of an argument that a program does not take.

    Args:
        argument: The argument.
        parser: The command line of the program.
    """
    flag = argument.partition("=")[0]
    if not flag.startswith("--"):
        return f"unknown argument {argument!r}: see --help"
    name, known = flag[2:].replace("-", "_"), [each[2:] for each in parser._option_string_actions if each[:2] == "--"]
    if name in _HABITS and "mirror" in known:  # the advice is for train.py
        return f"unknown argument {flag!r}: {_HABITS[name]}"
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
    return f"unknown argument {flag!r}: {f'did you mean --{close[0]}?' if close else 'see --help'}"


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


TERMS = {
    "arm": "one combination of a study's factors; its runs form a cohort",
    "cell": "one test condition of a panel: nominal, or perturbed, for example by pushes",
    "cohort": "a named group of runs that reports show together",
    "confirmed": "a checkpoint is confirmed if its score on fresh seeds proves that it reaches the target",
    "error budget": "largest probability that the confirmations of a run confirm a policy below the target (5 %)",
    "factor": "a setting that a study varies, with its values",
    "fresh seeds": "seeds outside the panel, drawn for one confirmation or comparison; no policy was selected on them",
    "held-out": "used for scoring, never for training",
    "instance": "an entry of a price file: a machine with its price",
    "iteration": "one rollout and one update of the policy",
    "journal": "a file that records what one process of a run does, row by row",
    "ledger": "the journals of all runs, below one root folder",
    "panel": "a fixed set of held-out episodes, with a definition of success and a target",
    "panel id": "a hash of everything that can change an episode of the panel",
    "phase": "a timed part of a training, such as simulation or learning",
    "run": "one training, with all its continuations after interruptions",
    "sealed seeds": "training seeds for the final comparison of a search; its race does not use them",
    "state": "a file with everything that is needed to continue a run",
    "stock recipe": "the recipe that a search begins with, and that it compares the others with",
    "success function": "a Python function that tells which environments have reached the goal",
    "target": "the share of successful episodes that a policy must reach",
    "telemetry": "samples of power, temperature, load and memory during a run",
    "trial": "a recipe that a search tries; trial 0 is the stock recipe",
}
"""Definitions for ``--help``, in one line each. ``docs/glossary.md`` defines all terms."""


def define(*names: str) -> str:
    """Return the end of a description that defines terms; empty without terms.

    Args:
        names: Terms of :data:`TERMS`, in the order to show.
    """
    if not names:
        return ""
    width = max(map(len, names))
    lines = (f"  {name:<{width}}  {TERMS[name]}" for name in names)
    return "\n".join(["", "", "terms (docs/glossary.md defines all of them):", *lines])


class Parser(argparse.ArgumentParser):
    """Parser that refuses a command line with an error of one line."""

    def error(self, message: str) -> NoReturn:
        """Refuse a command line.

        Raises:
            UserError: Always.
        """
        unknown = message.partition("unrecognized arguments: ")[2]
        raise UserError(unknown_argument(unknown.split()[0], self) if unknown else f"{message}; see --help")

    def format_help(self) -> str:
        """Return the help, which names commands as the user has started this one."""
        return as_started(super().format_help())


@dataclass(frozen=True, kw_only=True)
class Program:
    """A script, as its ``--help`` describes it."""

    name: str
    """File name of the script, such as ``play.py``."""
    description: str
    """What the script does."""
    examples: tuple[str, ...]
    """Commands to show, each the name of a script with its arguments, like ``report.py --checkpoints``."""
    terms: tuple[str, ...] = ()
    """Terms to define below the description; see :func:`define`."""
    usage: str | None = None
    """First lines of the help, if the flags do not say all."""

    def parser(self) -> Parser:
        """Return a parser without flags."""
        prog = as_started(f"scripts/{self.name}").removeprefix("scripts/")
        return Parser(
            prog=prog,
            usage=None if self.usage is None else self.usage.replace(self.name, prog),
            description=self.description + define(*self.terms),
            epilog="\n".join(["examples:", *(f"  ./isaaclab.sh -p scripts/{each}" for each in self.examples)]),
            formatter_class=HelpFormatter,
        )


LAUNCHER_FLAGS: tuple[tuple[tuple[str, ...], str | None, str], ...] = (
    (("--device",), "DEVICE", "Device of simulation and policy: cpu, cuda or cuda:N (default: cuda if there is one)."),
    (("--visualizer", "--viz"), "NAME[,NAME]", "Viewers to open: newton_gl, kit, rerun, viser (default: none)."),
    (("--verbose",), None, "Print all log messages of Isaac Lab and its libraries."),
    (("--info",), None, "Print log messages of Isaac Lab and its libraries, from level info upwards."),
    (("--deterministic",), None, "Make rendering repeatable."),
    (("--livestream",), "{0,1,2}", "Stream Isaac Sim's view: 0 off, 1 publicly, 2 in a private network (default: 0)."),
    (("--xr",), None, "Start Isaac Sim in XR mode."),
    (("--experience",), "FILE", "Isaac Sim experience (.kit file) to start (default: chosen by Isaac Lab)."),
    (("--kit_args",), "ARGS", "Arguments for Omniverse Kit, in one quoted string."),
    (("--anim_recording_enabled",), None, "Record a PhysX simulation as a USD animation."),
    (("--anim_recording_start_time",), "S", "Simulated time at which the animation starts [s]."),
    (("--anim_recording_stop_time",), "S", "Simulated time at which the animation ends [s]."),
    (("--max_visible_envs",), "N", "Largest number of environments that viewers show."),
)
"""Flags of Isaac Lab's launcher, with their help in short. Isaac Lab itself parses them."""
