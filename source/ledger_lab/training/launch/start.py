"""Starts a training as its command line asks: in several processes (``--nproc``), or on other machines (``--on``)."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ledger_lab.errors import UserError, as_user_error
from ledger_lab.ledger.cores import usable_cores
from ledger_lab.ledger.meters.process import part_environ
from ledger_lab.reports.terminal.console import tell_error
from ledger_lab.wings import wing_part

_AGENT = "ledger_lab.training.launch.torchrun_agent"
"""Module that runs torchrun and exits with the status of its processes."""

_MOST_DIGITS = 6
"""Largest number of digits of a number of processes: Python refuses to convert thousands of digits."""


def take_flags(argv: Sequence[str], *names: str, switches: Sequence[str] = ()) -> tuple[argparse.Namespace, list[str]]:
    """Split some flags, written in full, from a command line.

    Args:
        argv: Command line without the program's name.
        names: Flags with a value.
        switches: Flags without one.

    Returns:
        Their values, and the other arguments.

    Raises:
        UserError: If a value is missing.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for name in names:
        parser.add_argument(name)
    for name in switches:
        parser.add_argument(name, action="store_true")
    try:
        return parser.parse_known_args(list(argv))
    except argparse.ArgumentError as error:
        raise UserError(f"{error.argument_name}: {error.message}") from error


def requested_processes(argv: Sequence[str]) -> tuple[int | None, list[str]]:
    """Return the value of ``--nproc``, and the command line without the flag.

    Args:
        argv: Command line without the program's name.

    Returns:
        The number of processes (``None`` without the flag), and the other arguments.

    Raises:
        UserError: If the value is not a whole number of at least 1, or contradicts another flag.
    """
    known, others = take_flags(argv, "--nproc")
    if known.nproc is None:
        return None, others
    processes = whole_number("--nproc", known.nproc)
    if "--distributed" in others:
        raise UserError(
            f"--nproc {known.nproc}: --distributed is for processes that another launcher starts: leave one of the two "
            "flags out"
        )
    return processes, others


def whole_number(flag: str, value: str) -> int:
    """Return the number that a flag gives.

    Raises:
        UserError: If it is not a whole number of at least 1, with at most 6 digits.
    """
    if not value.isdecimal() or len(value) > _MOST_DIGITS or int(value) < 1:
        raise UserError(f"{flag} {value[:100]}: must be a whole number of at least 1, of at most 6 digits")
    return int(value)


def torchrun_argv(processes: int, program: str, arguments: Sequence[str]) -> list[str]:
    """Return the command line that runs a program in several processes on this machine.

    The processes find each other through a file that only this user can open. No port is open for the rendezvous, so
    any number of trainings can share a machine.

    Args:
        processes: Number of processes.
        program: Path of a Python program that takes ``--distributed``.
        arguments: Its other arguments.
    """
    return [
        *(sys.executable, "-m", _AGENT),
        *("--standalone", "--nproc-per-node", str(processes)),
        *("--max-restarts", "0"),
        *(program, "--distributed", *arguments),
    ]


def torchrun_nodes_argv(
    nodes: int, processes: int, rendezvous: str, rendezvous_id: str, program: str, arguments: Sequence[str]
) -> list[str]:
    """Return the command line that runs a program on several machines; each of them runs this command.

    Args:
        nodes: Number of machines.
        processes: Number of processes on each machine.
        rendezvous: Host and port where they meet; the host is one of the machines.
        rendezvous_id: Name of this training and start among all that may use the port.
        program: Path of a Python program that takes ``--distributed``.
        arguments: Its other arguments.
    """
    return [
        *(sys.executable, "-m", _AGENT),
        *("--nnodes", str(nodes), "--nproc-per-node", str(processes)),
        *("--rdzv-backend", "c10d", "--rdzv-endpoint", rendezvous, "--rdzv-id", rendezvous_id),
        *("--max-restarts", "0"),
        *(program, "--distributed", *arguments),
    ]


def torchrun_environ(processes: int, cores: int, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for several processes on this machine. They share the cores unless it sets a number.

    Args:
        processes: Number of processes.
        cores: Number of cores to share.
        environ: The environment as it is.
    """
    return {"OMP_NUM_THREADS": str(max(1, cores // processes)), **environ}


def launch_processes() -> None:
    """Become torchrun if ``--nproc`` asks for several processes; otherwise remove the flag and return.

    torchrun then replaces this process: it gets the signals and the terminal, and sets the exit status. The attempt is
    measured from the start of this program.
    """
    program, *argv = sys.argv
    try:
        processes, arguments = requested_processes(argv)
        if processes is not None and os.environ.get("WORLD_SIZE", "1") != "1":
            raise UserError(
                f"--nproc {processes}: WORLD_SIZE is {os.environ['WORLD_SIZE']}, so a launcher has started this "
                "process: use --distributed instead"
            )
    except UserError as error:
        sys.exit(tell_error(error))
    if processes is None or processes == 1:
        sys.argv = [program, *arguments]
        return
    command = torchrun_argv(processes, program, arguments)
    environ = {**part_environ(), **os.environ}
    os.execve(command[0], command, torchrun_environ(processes, usable_cores(), environ))


@dataclass(frozen=True, kw_only=True)
class Elsewhere:
    """Where a training is to run."""

    on: str
    """Name or path of a file of ``config/clusters``."""
    nodes: int = 1
    """Machines of the training."""
    dry_run: bool = False
    """Whether to print the files instead of submitting them."""


def requested_elsewhere(argv: Sequence[str]) -> tuple[Elsewhere | None, list[str]]:
    """Split a command line into the flags of ``--on`` and the arguments of the training.

    Args:
        argv: Command line without the program's name.

    Returns:
        Where the training is to run, or ``None`` without ``--on``; and the arguments of the training.

    Raises:
        UserError: If a value is missing or wrong, or ``--on`` is missing.
    """
    known, others = take_flags(argv, "--on", "--nodes", switches=["--dry_run"])
    if known.on is None:
        given = [f"--{name}" for name in ("nodes", "dry_run") if getattr(known, name)]
        if given:
            raise UserError(f"{given[0]} needs --on CLUSTER")
        return None, others
    return Elsewhere(on=known.on, nodes=whole_number("--nodes", known.nodes or "1"), dry_run=known.dry_run), others


def submit_if_asked(argv: Sequence[str]) -> None:
    """Submit the training of ``train.py --on``, and end the program; without ``--on``, return.

    Args:
        argv: Command line without the program's name.

    Raises:
        SystemExit: After the submission, or with status 2 if it is refused.
    """
    try:
        elsewhere, arguments = requested_elsewhere(argv)
        if elsewhere is None:
            return
        submit = wing_part("submission")
        if submit is None:
            raise UserError(f"--on {elsewhere.on}: this installation of LedgerLab has no folder `clusters`: restore it")
        submit(elsewhere, arguments)
    except (UserError, OSError) as error:
        if as_user_error(error) is None:
            raise
        sys.exit(tell_error(error))
    sys.exit(0)
