"""``python -m ledger_lab.clusters.ray_commands``: asks a Ray cluster, in a process of its own.

Ray's client waits long for a cluster that does not answer, prints a lot, and ends the process on some errors. So
:class:`~ledger_lab.clusters.ray.Ray` asks it through this program, which prints one line of JSON. ``cancel JOB`` is
also for people.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import msgspec

from ledger_lab.clusters import ray_job
from ledger_lab.clusters.ray_job import NAMESPACE, Job, RayJob
from ledger_lab.errors import UserError
from ledger_lab.reports.terminal.script import run_script

_REACHED_S = 5.0
"""Longest time in which a cluster takes a connection [s]."""
_ANSWER_S = 30.0
"""Longest time in which a job answers [s]."""
_LONGEST_ERROR = 400
"""Characters of an error of Ray that are told."""


def ask(argv: Sequence[str]) -> None:
    """Ask the cluster, and print the answer.

    Args:
        argv: ``check ADDRESS``; ``submit FILE``, which takes ``job.json``; ``states JOB`` or ``cancel JOB``.

    Raises:
        UserError: If Ray is not installed or does not answer, or refuses.
    """
    with _apart() as answers:
        match [*argv]:
            case ["check", address]:
                with _connected(address):
                    answer: Any = None
            case ["submit", file]:
                answer = _submit(Path(file).resolve())
            case ["states", job]:
                answer = _of_job(job, "states")
            case ["cancel", job]:
                answer = _of_job(job, "cancel")
            case _:
                raise UserError("use: ray_commands check ADDRESS | submit FILE | states JOB | cancel JOB")
        answers.write(msgspec.json.encode(answer) + b"\n")


@contextmanager
def _apart() -> Iterator[IO[bytes]]:
    """Send what Ray prints to standard error, also from C++, and give standard output for the answer."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with answers:
        yield answers


def _in_one_line(error: Exception) -> str:
    """Return the beginning of an error of Ray; some take pages."""
    return " ".join(str(error).split())[:_LONGEST_ERROR]


@contextmanager
def _connected(address: str) -> Iterator[None]:
    """Connect to a cluster.

    Raises:
        UserError: If there is no Ray here or there, or this machine is not a node of the cluster.
    """
    try:
        import ray
    except ImportError as error:
        raise UserError(
            f"Ray is not installed for {sys.executable}: start study.py with the Python of an environment into which "
            "you have installed ledger_lab[ray]"
        ) from error
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_REACHED_S).close()
    except (OSError, ValueError, OverflowError) as error:
        raise UserError(f"no Ray at {address} ({error}): start it, or correct address in the cluster file") from error
    try:
        # An address that is given here precedes RAY_ADDRESS.
        ray.init(address, namespace=NAMESPACE, log_to_driver=False, logging_level="ERROR")
    except Exception as error:  # of many classes, also of gRPC
        raise UserError(f"Ray at {address} refuses: {_in_one_line(error)}") from error
    try:
        yield
    finally:
        ray.shutdown()


def _submit(file: Path) -> str:
    """Make the actor of a job, wait until it answers, and return its name."""
    job = RayJob(**msgspec.json.decode(file.read_bytes()))  # not by msgspec, whose classes no pickle takes
    with _connected(job.address):
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        ray.cloudpickle.register_pickle_by_value(ray_job)
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
        actor = ray.remote(Job).options(
            name=job.name, lifetime="detached", num_cpus=0, max_restarts=-1, scheduling_strategy=here
        )
        try:
            made = actor.remote(job, str(file.parent))
        except ValueError as error:  # the name is taken
            raise UserError(
                f"Ray runs a job {job.name} already, of a folder that was removed: cancel it first"
            ) from error
        try:
            ray.get(made.states.remote(), timeout=_ANSWER_S)
        except Exception as error:
            ray.kill(made, no_restart=True)
            raise UserError(f"the job does not begin in Ray, and is cancelled: {_in_one_line(error)}") from error
    return job.name


def _of_job(job: str, method: str) -> Any:
    """Call a method of the actor of a job; return ``None`` if the job has ended."""
    address, _, name = job.partition("/")
    with _connected(address):
        import ray

        try:
            actor = ray.get_actor(name)
        except ValueError:  # there is none of this name any more
            return None
        try:
            return ray.get(getattr(actor, method).remote(), timeout=_ANSWER_S)
        except ray.exceptions.ActorDiedError:  # it has just ended
            return None
        except (ray.exceptions.RayError, TimeoutError) as error:
            raise UserError(f"job {job} does not answer ({_in_one_line(error)}): try again in a minute") from error


if __name__ == "__main__":
    run_script(ask)
