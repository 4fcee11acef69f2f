"""What runs in Ray: a job, which is an actor, and its trainings, which are tasks.

Ray sends this module to its nodes as a pickle, so it uses nothing but the standard library and Ray, and Ray's Python on
the nodes needs no LedgerLab. A training itself is a command: its task starts a process and waits for it.

These facts of Ray determine how:

1. Everything that a process submitted ends with that process. So a detached actor submits the tasks: it belongs to the
   cluster, and Ray starts it on another node if its node is lost.
2. Ray itself retries a task on any node, and does not tell. So tasks have no retries, and the actor submits them again.
3. When a task is cancelled, Ray raises an exception at any point of its code. So only tasks that have not begun are
   cancelled like this; the others ask their job every second whether to end.
4. A task that waits in ``ray.get`` or ``ray.wait`` gives its processors to other tasks. So trainings wait for answers
   of their job in ``future()`` instead.
5. When a worker ends, Ray kills its children. When something kills the worker, its children live on, so the kernel is
   told to send them SIGTERM.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAMESPACE = "ledger_lab"
"""Namespace of the actors in Ray."""
JOB, PART, NODE, QUEUE_S = (f"LEDGER_LAB_RAY_{name}" for name in ("JOB", "PART", "NODE", "QUEUE_S"))
"""Environment variables of a training: id of its job, number of its part from 0, name of its node, and how long it
waited for the node [s]."""
_STARTS_AGAIN = (75, 143)
"""Exit statuses of a training that the system asked to end; see :mod:`ledger_lab.reports.terminal.exit_status`."""
_REFUSED = 2
_LOOK_EVERY_S = 1.0
_SEEN_S = 30.0
"""How long a job that has ended waits for the question with which its submission looks whether it began [s]."""
_ENDS_WITH_PARENT = (
    "import ctypes, os, signal, sys; ctypes.CDLL(None).prctl(1, signal.SIGTERM); "
    "os.getppid() == int(sys.argv[1]) or sys.exit(143); os.execv(sys.argv[2], sys.argv[2:])"
)
"""Program that becomes a command, to which the kernel sends SIGTERM when the parent dies; 1 is ``PR_SET_PDEATHSIG``."""


@dataclass(frozen=True, kw_only=True)
class RayJob:
    """A submission, as ``job.json`` holds it."""

    address: str
    """Host and port of the cluster."""
    name: str
    """Name of the actor; those of its tasks begin with it."""
    trainings: int
    """Number of trainings."""
    at_once: int | None
    """Largest number of trainings that run at the same time; ``None`` without a limit."""
    retries: int
    """How often a training may start again."""
    grace_s: float
    """Time between SIGTERM and SIGKILL when the job is cancelled [s]."""
    command: list[str]
    """Begins the command of a training; folder, index and SHA-256 of the plan follow."""
    plan_sha256: str
    cpus: float
    gpus: float
    memory_bytes: int | None
    resources: dict[str, float]
    """What Ray reserves for each training, besides the keys above: resources of its own."""
    environment: dict[str, str]
    """Environment variables of the trainings."""


@dataclass
class _Training:
    """What the job knows of a training."""

    parts: int
    """How often it was submitted as a task."""
    since_s: float
    """When it began to wait, by the monotonic clock [s]."""
    ended: bool = False
    task: Any = None
    """Reference to its task in Ray; ``None`` if none is submitted."""
    node: str | None = None
    """Id of the node on which the latest part ran."""
    place: str | None = None
    """Name of the node on which it runs; ``None`` if it waits."""
    why: str = ""
    """Why it waits to start again."""


def ending_with_this_process() -> list[str]:
    """Return the beginning of a command that gets SIGTERM when this process dies. A path of a program must follow."""
    return [sys.executable, "-I", "-S", "-c", _ENDS_WITH_PARENT, str(os.getpid())]


def starts_again(status: int | None, parts: int, retries: int) -> bool:
    """Tell whether a training starts again after the end of a part.

    Args:
        status: Exit status; ``None`` if the node or Ray's worker was lost.
        parts: How often it was submitted as a task.
        retries: How often it may start again.
    """
    return (status is None or status in _STARTS_AGAIN) and parts <= retries


class Job:
    """The actor: submits the trainings as tasks, and starts those again that the system has ended."""

    def __init__(self, job: RayJob, folder: str) -> None:
        """Begin, or continue if the node of the actor was lost.

        Args:
            job: The submission.
            folder: Its folder, as all nodes see it.
        """
        _keep_others_from_writing()
        self._job, self._folder = job, Path(folder)
        self._lock = threading.Lock()
        self._mark = self._folder / "cancelled"  # outlives the actor
        self._cancelled = self._mark.exists()
        self._seen = threading.Event()
        self._trainings = [self._remembered(index) for index in range(job.trainings)]
        threading.Thread(target=self._work, daemon=True).start()

    def _remembered(self, index: int) -> _Training:
        """Return what the files tell of a training."""
        parts = int(_read(self._folder / "started" / str(index)) or 0)
        status = _read(self._folder / "exits" / str(index))
        # a part that was lost with its node has no status, and may have been the last one
        ended = not starts_again(None if status is None else int(status), parts, self._job.retries)
        return _Training(parts=parts, since_s=time.monotonic(), ended=ended or self._cancelled)

    def states(self) -> dict[int, tuple[bool, str]]:
        """Return whether each training that has not ended runs, and its state in words, by index."""
        self._seen.set()
        fits = bool(self._fitting_nodes())
        with self._lock:
            return {index: self._state(each, fits) for index, each in enumerate(self._trainings) if not each.ended}

    def _state(self, training: _Training, fits: bool) -> tuple[bool, str]:
        """Return the state of a training that has not ended; ``fits`` tells whether any node can hold it."""
        if training.place is not None:
            return True, f"{'ending' if self._cancelled else 'running'} on {training.place}"
        why = [training.why, "" if fits else "no node of the cluster has what it needs"]
        said = "; ".join(filter(None, why))
        return False, f"waiting ({said})" if said else "waiting"

    def cancel(self) -> None:
        """End all trainings: those that run get SIGTERM, and SIGKILL if they do not end within the grace time."""
        import ray

        with self._lock:
            self._mark.touch()
            self._cancelled = True
            for training in self._trainings:
                if training.task is None:
                    training.ended = True
                elif training.place is None:
                    ray.cancel(training.task)

    def begin(self, index: int, node: str) -> tuple[int, str, float] | None:
        """Note that the task of a training has begun.

        Args:
            index: Index of the training.
            node: Id of the node.

        Returns:
            Number of the part from 0, name of the node, and how long the training waited [s]; ``None`` if the job was
            cancelled.
        """
        with self._lock:
            training = self._trainings[index]
            if self._cancelled:
                return None
            training.node, training.why = node, ""
            training.place = next((each["NodeName"] for each in _nodes() if each["NodeID"] == node), node)
            (self._folder / "exits" / str(index)).unlink(missing_ok=True)
            (self._folder / "started" / str(index)).write_text(f"{training.parts}\n", encoding="ascii")
            return training.parts - 1, training.place, time.monotonic() - training.since_s

    def asks_to_end(self) -> bool:
        """Tell whether the trainings are to end."""
        return self._cancelled

    def _work(self) -> None:
        """Submit tasks until all trainings have ended, and end the actor."""
        import ray

        itself = ray.get_runtime_context().current_actor
        try:
            while True:
                self._submit_some(itself)
                tasks = {each.task: index for index, each in enumerate(self._trainings) if each.task is not None}
                if not tasks:
                    break
                for task in ray.wait(list(tasks), num_returns=1, timeout=_LOOK_EVERY_S)[0]:
                    try:
                        self._note_end(tasks[task], *_result(task))
                    except OSError as error:  # a full disk must not end the other trainings
                        print(f"training {tasks[task]}: {error}", file=sys.stderr, flush=True)
        finally:
            self._seen.wait(_SEEN_S)
            ray.kill(itself, no_restart=True)

    def _submit_some(self, itself: Any) -> None:
        """Submit as many tasks as may run at the same time."""
        import ray

        fitting = self._fitting_nodes()
        with self._lock:
            waiting = [index for index, each in enumerate(self._trainings) if not each.ended and each.task is None]
            running = sum(each.task is not None for each in self._trainings)
            free = len(waiting) if self._job.at_once is None else max(0, self._job.at_once - running)
            for index in waiting[:free]:
                training = self._trainings[index]
                elsewhere = {"ray.io/node-id": f"!{training.node}"} if fitting - {training.node} else None
                task = ray.remote(train).options(
                    name=f"{self._job.name} {index}",
                    num_cpus=self._job.cpus,
                    num_gpus=self._job.gpus,
                    memory=self._job.memory_bytes,
                    resources=self._job.resources,
                    label_selector=elsewhere if training.node is not None else None,
                    max_retries=0,
                )
                training.parts += 1
                training.task = task.remote(itself, self._job, str(self._folder), index)

    def _fitting_nodes(self) -> set[str]:
        """Return the ids of the nodes that have the resources of a training, whether or not these are free."""
        needed = {"CPU": self._job.cpus, "GPU": self._job.gpus, **self._job.resources}
        needed["memory"] = self._job.memory_bytes or 0
        return {
            node["NodeID"]
            for node in _nodes()
            if all(node["Resources"].get(name, 0) >= amount for name, amount in needed.items())
        }

    def _note_end(self, index: int, status: int | None, said: str) -> None:
        """Note the end of a part, and decide what follows.

        Args:
            index: Index of the training.
            status: Exit status; ``None`` if it was lost, or did not begin.
            said: How it ended, in words.
        """
        with self._lock:
            training = self._trainings[index]
            said = f"on {training.place}: {said}" if training.place else said
            training.task = training.place = None
            training.since_s = time.monotonic()
            training.why = f"starts again, {said}"
            again = starts_again(status, training.parts, self._job.retries)
            training.ended = self._cancelled or not again
            if status is not None:
                (self._folder / "exits" / str(index)).write_text(f"{status}\n", encoding="ascii")
            if not self._cancelled and again:
                said += ": the training starts again"
            elif not self._cancelled and (status is None or status in _STARTS_AGAIN):
                said += f", after {training.parts} parts: submit the training again"
            self._say(index, said)

    def _say(self, index: int, text: str) -> None:
        """Add a line to the output of a training."""
        with (self._folder / "output" / f"{index}.log").open("a", encoding="utf-8") as log:
            log.write(f"ray: {text}\n")


def _keep_others_from_writing() -> None:
    """Create no file that every user may write: what a part writes decides what the next one runs."""
    os.umask(os.umask(0o002) | 0o002)


def _read(path: Path) -> str | None:
    """Return the content of a file; ``None`` if it is missing or empty."""
    try:
        return path.read_text(encoding="ascii").strip() or None
    except FileNotFoundError:
        return None


def _nodes() -> list[dict[str, Any]]:
    """Return the nodes of the cluster that are up."""
    import ray

    return [node for node in ray.nodes() if node["Alive"]]


def _result(task: Any) -> tuple[int | None, str]:
    """Return exit status and end of a task that has ended; the status is ``None`` if the node or worker was lost."""
    import ray

    try:
        status = ray.get(task)
    except ray.exceptions.TaskCancelledError:
        return None, "cancelled"
    except ray.exceptions.RayTaskError as error:  # raised by train
        return _REFUSED, f"the training can't be started: {error.cause}: all nodes must see the folder and the program"
    except ray.exceptions.RayError as error:
        return None, f"lost ({type(error).__name__})"
    return (None, "cancelled") if status is None else (status, f"exit status {status}")


def train(job: Any, spec: RayJob, folder: str, index: int) -> int | None:
    """Carry out a training: the task.

    Args:
        job: The actor.
        spec: The submission.
        folder: Its folder.
        index: Index of the training.

    Returns:
        The exit status of the training; ``None`` if the job was cancelled before.
    """
    import ray

    _keep_others_from_writing()
    output = Path(folder, "output", f"{index}.log")
    with output.open("ab") as log:
        begun = job.begin.remote(index, ray.get_runtime_context().get_node_id()).future().result()
        if begun is None:
            return None
        environ = _environ(spec, *begun)
        program = shutil.which(spec.command[0], path=environ.get("PATH"))
        if program is None:
            raise FileNotFoundError(f"{spec.command[0]} is not a program on {begun[1]}")
        process = subprocess.Popen(
            [
                *ending_with_this_process(),
                *(program, *spec.command[1:], folder, str(index), spec.plan_sha256),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environ,
            start_new_session=True,
        )
        asked_s: float | None = None
        answer = job.asks_to_end.remote().future()
        while process.poll() is None:
            time.sleep(_LOOK_EVERY_S)
            if asked_s is None and answer.done():
                if answer.exception() is None and answer.result():
                    asked_s = time.monotonic()
                    process.terminate()
                answer = job.asks_to_end.remote().future()
            elif asked_s is not None and time.monotonic() - asked_s > spec.grace_s:
                os.killpg(process.pid, signal.SIGKILL)
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def _environ(spec: RayJob, part: int, node: str, queue_s: float) -> dict[str, str]:
    """Return the environment of a training: without Ray's own variables, which may hold a secret."""
    kept: Mapping[str, str] = {
        name: value for name, value in os.environ.items() if not name.startswith("RAY_") and name != "PYTHONBREAKPOINT"
    }
    itself = {JOB: f"{spec.address}/{spec.name}", PART: str(part), NODE: node, QUEUE_S: f"{queue_s:.3f}"}
    return {**kept, **spec.environment, **itself}
