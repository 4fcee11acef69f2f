"""Requests: what a user asks of a program, as a dataclass whose fields are the program's flags.

A flag is declared once, as a field, and read where it is used. Nothing here needs torch or Isaac Lab.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from types import NoneType
from typing import Any, ClassVar, Literal, NoReturn, Self, cast, get_args, get_origin, get_type_hints

from ledger_lab.errors import UserError, nearest
from ledger_lab.names import as_started

DEFAULT_TASK = "LedgerLab-Cartpole"

_ANSWERS = {
    "checkpoint": "name the checkpoint file, or its run, without a flag",
    "disable_fabric": "the override env.sim.use_fabric=False",
    "enable_cameras": "leave it out, because the cameras of a task are always on",
    "experiment_name": "--log_root chooses the root folder, and --cohort NAME names a group of runs",
    "export_io_descriptors": "scripts/export_policy.py RUN describes inputs and outputs in contract.json",
    "external_callback": "leave it out: tasks of installed packages are found by their entry point isaaclab.tasks",
    "gpus num_gpus": "--nproc N trains in N processes, each on a GPU of its own",
    "headless real_time": "leave it out, because no window opens without --viz NAME",
    "learning_rate sigma": "an override such as agent.algorithm.learning_rate=1e-3 sets it",
    "load_run use_last_checkpoint": "train.py takes --resume RUN or --checkpoint RUN, other programs RUN alone",
    "log_dir": "--log_root chooses the root folder",
    "log_project_name wandb_project wandb_project_name": "scripts/log_run.py RUN --to wandb --project NAME",
    "logger": "scripts/train.py --logger NAME and scripts/log_run.py RUN --to NAME send a run to a dashboard",
    "ml_framework": "leave it out, because SKRL trains with torch",
    "resume_optimizer_state": "--resume RUN continues a run with the state of its optimizer",
    "run_name wandb_name": "each run has an id, and --cohort NAME names a group of runs",
    "steps": "--max_iterations N ends a training after N iterations",
    "track wandb": "--logger wandb",
    "use_pretrained_checkpoint": "scripts/play.py --task TASK --pretrained plays the policy that comes with a task",
    "video video_interval video_length": "scripts/play.py RUN --video films a policy of a run",
    "wandb_entity": "set the environment variable WANDB_ENTITY",
}
HABITS = {name: answer for names, answer in _ANSWERS.items() for name in names.split()}
"""What to do instead of flags that Isaac Lab's own scripts take, or that people try."""


def unknown_argument(argument: str, parser: Parser) -> str:
    """Return what to say of an argument that a program does not take.

    Args:
        argument: The argument.
        parser: The command line of the program.
    """
    flag = argument.partition("=")[0]
    name, known = flag.lstrip("-").replace("-", "_"), [each[2:] for each in parser._option_string_actions if each[2:]]
    if not name or not flag.startswith("-"):
        return f"unknown argument {argument!r}: see {parser.whole_help}"
    if name in HABITS and name not in known:
        return f"unknown argument {flag!r}: {HABITS[name]}"
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
    return f"unknown argument {flag!r}: {f'did you mean --{close[0]}?' if close else f'see {parser.whole_help}'}"


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


class _Help(argparse.Action):
    """Prints the help, and ends the program."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        """Print the help; ``--help`` leaves out rare flags."""
        sys.stdout.write(cast(Parser, parser).format_help(everything=self.dest == "help_all"))
        sys.exit(0)


class Parser(argparse.ArgumentParser):
    """Parser that refuses a command line with an error of one line."""

    def __init__(self, everyday: Sequence[str] = (), **settings: Any) -> None:  # noqa: ANN401 - argparse's own
        """Create a parser with ``--help`` and ``--help_all``.

        Args:
            everyday: Names of the flags that ``--help`` shows, in this order; all own flags if empty.
            **settings: What argparse's parser takes.
        """
        super().__init__(**settings, add_help=False)
        self.everyday = everyday
        self.rare: set[str] = set()
        """Names of the flags that only ``--help_all`` shows."""
        hidden: dict[str, Any] = {"action": _Help, "nargs": 0, "default": argparse.SUPPRESS, "help": argparse.SUPPRESS}
        self.add_argument("-h", "--help", **{**hidden, "help": "Show this help."})
        self._help_all = self.add_argument("--help_all", **hidden)

    def error(self, message: str) -> NoReturn:
        """Refuse a command line.

        Raises:
            UserError: Always.
        """
        unknown = message.partition("unrecognized arguments: ")[2]
        message = re.sub(": ignored explicit argument (.*)", r" takes no value, and \1 was given", message)
        raise UserError(unknown_argument(unknown.split()[0], self) if unknown else f"{message}; see {self.whole_help}")

    @property
    def whole_help(self) -> str:
        """The flag that explains all flags."""
        return "--help_all" if self.rare else "--help"

    def format_help(self, *, everything: bool = False) -> str:
        """Return the help, which names commands as the user has started this one.

        Args:
            everything: Whether to explain rare flags, too.
        """
        if self.rare:
            self._help_all.help = f"Show {len(self.rare)} more flags."
        if everything or not self.rare:
            return as_started(super().format_help())
        order = {name: number for number, name in enumerate(self.everyday)}
        shown = [each for each in self._actions if each.dest not in self.rare]
        shown.sort(key=lambda action: (bool(action.option_strings), order.get(action.dest, -1)))
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, shown, [])
        formatter.add_text(self.description)
        for title, flags in (("positional arguments", False), ("options", True)):
            formatter.start_section(title)
            formatter.add_arguments([each for each in shown if bool(each.option_strings) == flags])
            formatter.end_section()
        formatter.add_text(self.epilog)
        return as_started(formatter.format_help())


@dataclass(frozen=True, kw_only=True)
class Program:
    """A script, as its ``--help`` describes it."""

    name: str
    """File name of the script, such as ``play.py``."""
    description: str
    """What the script does."""
    examples: tuple[str, ...]
    """Commands to show, each the name of a script with its arguments, like ``report.py --details``."""
    everyday: tuple[str, ...] = ()
    """Flags that ``--help`` shows, in this order, while ``--help_all`` shows all; all own flags if empty."""

    def parser(self) -> Parser:
        """Return a parser without flags."""
        prog = as_started(f"scripts/{self.name}").removeprefix("scripts/")
        return Parser(
            self.everyday,
            prog=prog,
            description=f"{self.description}\n\ndocs/glossary.md defines all terms.",
            epilog="\n".join(["examples:", *(f"  ./isaaclab.sh -p scripts/{each}" for each in self.examples)]),
            formatter_class=HelpFormatter,
        )


def _viewers(text: str) -> list[str]:
    """Read ``--visualizer``."""
    return [] if text == "none" else text.split(",")


_SWITCH = {"action": "store_true"}

LAUNCHER_FLAGS: tuple[tuple[tuple[str, ...], dict[str, Any], str], ...] = (
    (
        ("--device",),
        {"metavar": "DEVICE"},
        "Device of simulation and policy: cpu, cuda or cuda:N (default: cuda if there is one).",
    ),
    (
        ("--visualizer", "--viz"),
        {"metavar": "NAME[,NAME]", "type": _viewers},
        "Viewers to open: newton_gl, kit, rerun, viser (default: none).",
    ),
    (("--verbose",), _SWITCH, "Print all log messages of Isaac Lab and its libraries."),
    (("--info",), _SWITCH, "Print log messages of Isaac Lab and its libraries, from level info upwards."),
    (("--deterministic",), _SWITCH, "Make rendering repeatable."),
    (
        ("--livestream",),
        {"type": int, "choices": (0, 1, 2)},
        "Stream Isaac Sim's view: 0 off, 1 publicly, 2 in a private network (default: 0).",
    ),
    (("--xr",), _SWITCH, "Start Isaac Sim in XR mode."),
    (("--experience",), {"metavar": "FILE"}, "Isaac Sim experience (.kit file) to start (default: automatic)."),
    (("--kit_args",), {"metavar": "ARGS"}, "Arguments for Omniverse Kit, in one quoted string."),
    (("--anim_recording_enabled",), _SWITCH, "Record a PhysX simulation as a USD animation."),
    (
        ("--anim_recording_start_time",),
        {"metavar": "S", "type": float},
        "Simulated time at which the animation starts [s].",
    ),
    (("--anim_recording_stop_time",), {"metavar": "S", "type": float}, "Simulated time at which it ends [s]."),
    (("--max_visible_envs",), {"metavar": "N", "type": int}, "Largest number of environments that viewers show."),
)
"""Flags of Isaac Lab's launcher, with how argparse reads them."""


_ROOTS = ("env", "agent", "physics", "renderer", "presets")
"""First words of overrides."""

_OVERRIDES = (
    "Arguments of the form NAME=VALUE change the configuration of the task. physics=NAME, renderer=NAME and "
    "presets=NAME[,NAME] select presets, which are named variants of the configuration. scripts/list_envs.py --long "
    "lists the physics presets of each task. A new run of one of LedgerLab's tasks uses newton_mujoco on a CPU and "
    "newton_mjwarp on a GPU, unless another one is selected; other programs use the physics of the run. "
    "env.PATH=VALUE sets one value of the environment, and agent.PATH=VALUE one value of the agent."
)


@dataclass(frozen=True)
class FlagGroup:
    """Flags that ``--help`` shows together."""

    title: str
    description: str | None = None


def flag(
    default: Any,
    help: str,  # noqa: A002 - argparse calls it so
    *,
    group: FlagGroup | None = None,
    metavar: str | tuple[str, ...] | None = None,
    parse: Callable[[str], Any] | None = None,
    positional: bool = False,
    each_attempt: bool = False,
) -> Any:
    """Declare a field of a request that the flag of the same name sets.

    The type of the field says how the flag is read: ``bool`` is a switch (``--no_NAME`` if the default is true),
    ``Literal`` a choice, and a ``tuple`` can be given repeatedly. A ``tuple`` of choices, and one of fixed length that
    may be ``None``, take several values at once.

    Args:
        default: Value if the flag is left out; ``MISSING`` if it must be given.
        help: What ``--help`` says, with argparse's ``%`` escapes.
        group: Where ``--help_all`` shows this flag and those after it (default: with the flag before it).
        metavar: Name of the value in ``--help``.
        parse: Reads the value if the type of the field does not say how.
        positional: Whether the value is given without a flag; a tuple takes any number of values.
        each_attempt: Whether the flag belongs to one attempt of a run, so that a resumed run may set another value.
    """
    read = {"group": group, "metavar": metavar, "parse": parse, "positional": positional, "each_attempt": each_attempt}
    return field(default=default, metadata={"help": help, **read})


def _flags(request: type[Request]) -> list[Field[Any]]:
    """Return the fields of a request that flags set."""
    return [each for each in fields(request) if "help" in each.metadata]


@dataclass(frozen=True, kw_only=True)
class Named:
    """What a request names. A name can be checked before torch and Isaac Lab are imported."""

    task: str | None = None
    rl_library: str | None = None
    panel: str | None = None
    loggers: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    """Runs and checkpoints: ids, directories, files, or tasks whose policy comes with the package."""
    log_root: Path = Path("logs")
    """Root of the ledger that holds the runs."""
    instance: str | None = None
    usd_per_hour: float | None = None
    prices: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a user asks of a program. Each program adds its own flags."""

    program: ClassVar[Program]

    @classmethod
    def parser(cls) -> Parser:
        """Return the command line of the program. It sets only what is given: the defaults are those of the fields."""
        return add_flags(cls.program.parser(), cls)

    @classmethod
    def parse(cls, argv: Sequence[str]) -> Self:
        """Parse a command line.

        Args:
            argv: Command line without the program's name.

        Raises:
            SystemExit: If the command line asks for help.
            UserError: If the command line can't be parsed, or is refused.
        """
        return cls(**as_given(vars(cls.parser().parse_intermixed_args(list(argv)))))

    def named(self) -> Named:
        """Return what the request names."""
        return Named()

    def require_at_most_one(self, *names: str) -> None:
        """Refuse flags that exclude each other.

        Raises:
            UserError: If more than one of these fields is set.
        """
        given = [f"--{name}" for name in names if getattr(self, name)]
        if len(given) > 1:
            raise UserError(f"{' and '.join(given)} cannot be used together: give one of them")


@dataclass(frozen=True, kw_only=True)
class SimulationRequest(Request):
    """What a user asks of a program that opens a simulation."""

    device: str | None = None
    """``cpu``, ``cuda`` or ``cuda:N``; ``None`` for CUDA where there is one, else the CPU."""
    cpu_threads: int | None = flag(
        None,
        "Threads that step the environments with physics=newton_mujoco (default: the cores that the process and its "
        "control group may use, divided by the number of training processes on the machine).",
        each_attempt=True,
    )
    launcher: dict[str, Any] = field(default_factory=dict)
    """The other flags of Isaac Lab's launcher, as the launcher takes them."""
    given: tuple[str, ...] = ()
    """Fields that were set on the command line. All others have their defaults."""

    @classmethod
    def takes_overrides(cls) -> bool:
        """Tell whether the request has a field ``overrides`` for Hydra overrides."""
        return any(each.name == "overrides" for each in fields(cls))

    @classmethod
    def parser(cls) -> Parser:
        """Return the command line of the program, with the flags of Isaac Lab's launcher and the help on overrides."""
        parser = super().parser()
        parser.add_argument("--headless", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
        group = parser.add_argument_group("Isaac Lab's launcher")
        for flags, options, text in LAUNCHER_FLAGS:
            action = group.add_argument(*flags, default=argparse.SUPPRESS, help=text, **options)
            if action.dest not in (parser.everyday or ("device", "visualizer")):
                parser.rare.add(action.dest)
        parser.rare.add("cpu_threads")
        if cls.takes_overrides():
            parser.add_argument_group("overrides", _OVERRIDES)
        return parser

    @classmethod
    def parse(cls, argv: Sequence[str]) -> Self:
        """Parse a command line.

        Args:
            argv: Command line without the program's name.

        Raises:
            SystemExit: If the command line asks for help.
            UserError: If the command line can't be parsed, or is refused.
        """
        parser, more = cls.parser(), dict[str, Any]()
        if cls.takes_overrides():
            parsed, overrides = parser.parse_known_args(list(argv))
            for override in overrides:
                _require_override(override, parser)
            more["overrides"] = tuple(overrides)
        else:
            parsed = parser.parse_intermixed_args(list(argv))
        launcher = vars(parsed)
        launcher.pop("headless", None)
        own = {name: launcher.pop(name) for name in (*flag_names(cls), "device") if name in launcher}
        return cls(**as_given(own), **more, launcher=launcher, given=tuple(own))

    @property
    def quiet_libraries(self) -> bool:
        """Whether the libraries' messages are hidden from the terminal."""
        return not (self.launcher.get("verbose") or self.launcher.get("info"))

    def launcher_args(self, device: str) -> dict[str, Any]:
        """Return a dictionary for Isaac Lab's launcher, which also writes into it.

        Args:
            device: The device that was chosen.
        """
        given = {"device": device, "device_explicit": self.device is not None}
        return {"visualizer": None, **self.launcher, **given}


def _require_override(argument: str, parser: Parser) -> None:
    """Refuse an argument that can't be an override."""
    key, equals, _ = argument.partition("=")
    if key.startswith("-"):
        raise UserError(unknown_argument(argument, parser))
    if not equals:
        raise UserError(f"unknown argument {argument!r}: --task names a task, and env.PATH=VALUE is an override")
    if key.partition(".")[0] not in _ROOTS:
        raise UserError(f"override {argument!r} matches nothing: {nearest(key.partition('.')[0], _ROOTS)}")


def log_root_flag(
    help: str = "Root folder of the ledger (default: logs).",  # noqa: A002 - argparse calls it so
    *,
    each_attempt: bool = False,
) -> Any:
    """Declare ``--log_root``, of type ``Path``; see :func:`flag`."""
    return flag(Path("logs"), help, metavar="DIR", each_attempt=each_attempt)


def add_flags[P: argparse.ArgumentParser](parser: P, request: type[Request]) -> P:
    """Add the flags of a request to a parser.

    Args:
        parser: The parser. It sets only what is given: the defaults are those of the fields.
        request: The request.

    Returns:
        The parser.
    """
    groups: dict[FlagGroup | None, argparse._ActionsContainer] = {None: parser}
    hints = get_type_hints(request)
    group: FlagGroup | None = None
    for each in _flags(request):
        group = each.metadata["group"] or group
        if group is not None and group not in groups:
            groups[group] = parser.add_argument_group(group.title, group.description)
        name = each.name if each.metadata["positional"] else f"--{each.name}"
        said, options = each.metadata["help"], _options(hints[each.name], each.default, each.metadata)
        if each.default is True:
            off: dict[str, Any] = {"action": "store_false", "dest": each.name}
            groups[group].add_argument(f"--no_{each.name}", default=argparse.SUPPRESS, help=said, **off)
            said = argparse.SUPPRESS
        groups[group].add_argument(name, default=argparse.SUPPRESS, help=said, **options)
        if isinstance(parser, Parser) and parser.everyday and each.name not in parser.everyday:
            parser.rare.add(each.name)
    return parser


_METAVARS = {int: "N", float: "X", Path: "FILE"}
"""Names of values in the help, by their types; a text has the name of its flag."""


def _options(hint: Any, default: Any, declared: Mapping[str, Any]) -> dict[str, Any]:
    """Return how argparse reads a field of some type."""
    positional, metavar = declared["positional"], declared["metavar"]
    options: dict[str, Any] = {} if metavar is None else {"metavar": metavar}
    if default is MISSING and not positional:
        options["required"] = True
    if hint is bool:
        return {"action": "store_true"}
    if declared["parse"] is not None:
        return {**options, "type": declared["parse"]}
    if get_origin(hint) is Literal:
        return {**options, "choices": get_args(hint)}
    many = get_origin(hint) is tuple
    kind = next(each for each in (*get_args(hint), hint) if each not in (NoneType, Ellipsis))
    if get_origin(kind) is Literal:
        return {**options, "choices": get_args(kind), **({"nargs": "+"} if many else {})}
    if get_origin(kind) is tuple:
        return {**options, "nargs": len(get_args(kind))}
    if not positional:
        options = {"metavar": _METAVARS.get(kind), **options}
    kind = _whole_number if kind is int else kind
    if not positional:
        return {**options, "type": kind, **({"action": "append"} if many else {})}
    if many:
        options["nargs"] = "+" if default is MISSING else "*"
    elif default is not MISSING:
        options["nargs"] = "?"
    return {**options, "type": kind}


def _whole_number(text: str) -> int:
    """Read an integer that the rows of the ledger can hold.

    Raises:
        ArgumentTypeError: If it is no integer, or needs more than 64 bits.
    """
    with suppress(ValueError):
        if abs(number := int(text)) < 1 << 63:
            return number
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at most 64 bits")


def flag_names(request: type[Request], *, each_attempt: bool | None = None) -> tuple[str, ...]:
    """Return the names of the fields that flags set.

    Args:
        request: The request.
        each_attempt: Whether to return only those that belong to one attempt, or only the others.
    """
    return tuple(each.name for each in _flags(request) if each_attempt in (None, each.metadata["each_attempt"]))


def as_given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values for the fields of a request; lists become tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
