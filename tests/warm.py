"""Starts scripts from a process that has already imported what they import.

:func:`warm` returns a server that forks a process for each script. The forked process does all that Python does with a
script, but finds the libraries imported. The server runs one script at a time.
"""

from __future__ import annotations

import atexit
import importlib
import importlib.util
import json
import os
import pkgutil
import runpy
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn

from ledger_lab.cli.programs import known_commands
from ledger_lab.wings import wing_part

ROOT = Path(__file__).parents[1]
HEAVY = ("gymnasium", "isaaclab", "matplotlib", "mujoco", "newton", "pandas", "pxr", "scipy", "torch", "warp")
"""Packages that no script imports before it has read its command line."""

type Kind = Literal["simulation", "reading"]
"""What a server imports: torch, Warp and Isaac Lab, which takes 6 s; or what all scripts import before they read their
command lines, which takes half a second."""
_READ_BY_IMPORTS = ("LD_LIBRARY_PATH", "PYTHONPATH")
"""Environment variables that decide which libraries a server imports.

A script gets all variables. Libraries change some in this process: Isaac Lab writes each seed into ``PYTHONHASHSEED``.
"""
_IMPORTED_LATE = (
    "isaaclab.sim.spawners.from_files.from_files",
    "isaaclab_experimental.envs.manager_based_rl_env_warp",
    "isaaclab_newton.assets.articulation.articulation",
    "isaaclab_newton.cloner.replicate",
    "ledger_lab.mujoco_cpu.solver",
    "newton._src.utils.import_usd",
)
"""What Isaac Lab and the default engine import as they make an environment."""


class Warm:
    """A server that imports libraries in the environment of its start."""

    def __init__(self, kind: Kind) -> None:
        """Start the server.

        Args:
            kind: What it imports.
        """
        self._ours, theirs = socket.socketpair()
        program = [sys.executable, "-m", "tests.warm", kind]
        with theirs:
            self._server = subprocess.Popen(program, cwd=ROOT, stdin=theirs, stdout=subprocess.DEVNULL)
        atexit.register(self.end)

    def run(self, program: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run a script to its end.

        Args:
            program: Path of the script.
            arguments: Its arguments.
            cwd: Folder in which it starts.
        """
        asked = json.dumps({"argv": [program, *arguments], "cwd": str(cwd), "environ": dict(os.environ)}).encode()
        with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
            try:
                socket.send_fds(self._ours, [len(asked).to_bytes(8)], [stdout.fileno(), stderr.fileno()])
                self._ours.sendall(asked)
                status = os.waitstatus_to_exitcode(int.from_bytes(_read(self._ours, 8)))
            except BaseException:  # a script that hangs would keep the server from running others
                self._server.kill()
                raise
            stdout.seek(0)
            stderr.seek(0)
            return subprocess.CompletedProcess([program, *arguments], status, stdout.read(), stderr.read())

    def runs(self) -> bool:
        """Tell whether the server has not been killed."""
        return self._server.poll() is None

    def end(self) -> None:
        """End the server."""
        atexit.unregister(self.end)
        self._ours.close()
        self._server.wait()


_servers: dict[tuple[Kind, tuple[str | None, ...]], Warm] = {}
"""By what they import, and by the environment of their start."""


def warm(kind: Kind) -> Warm:
    """Return the server that has imported libraries in the environment of this process, and start it if needed.

    A module of tests may have an environment of its own. At most one server of each kind stays for such tests, because
    each that simulates takes 0.6 GB of memory.

    Args:
        kind: What it imports.
    """
    key = kind, tuple(map(os.environ.get, _READ_BY_IMPORTS))
    if key not in _servers or not _servers[key].runs():
        for other in [each for each in _servers if each[0] == kind][1:]:
            _servers.pop(other).end()
        _servers[key] = Warm(kind)
    return _servers[key]


def _read(connection: socket.socket, count: int) -> bytes:
    """Read an exact number of bytes.

    Raises:
        EOFError: If the connection ends before.
    """
    read = b""
    while len(read) < count:
        if not (more := connection.recv(count - len(read))):
            raise EOFError
        read += more
    return read


def _serve() -> None:
    """Import the libraries, and fork a process for each script that is asked for, until nobody can ask any more."""
    from ledger_lab.training.supervision.start import end_with

    connection, server_pid = socket.socket(fileno=os.dup(0)), os.getpid()
    {"simulation": _import_libraries, "reading": _import_scripts}[sys.argv[1]]()
    sys.stdout.flush()  # a script would write what is left in the buffer to its own output
    while True:
        head, streams, _, _ = socket.recv_fds(connection, 8, 2)
        if not head:
            return
        asked = json.loads(_read(connection, int.from_bytes(head)))
        with warnings.catch_warnings(category=DeprecationWarning, action="ignore"):
            pid = os.fork()  # Python warns of a thread that USD keeps
        if not pid:
            connection.close()
            end_with(server_pid)
            _become(asked, streams)
        for stream in streams:
            os.close(stream)
        status = os.waitpid(pid, 0)[1]
        connection.sendall(status.to_bytes(8))


def _import_libraries() -> None:
    """Import what a training with the default engine imports, and nothing that starts threads."""
    from ledger_lab.ledger.cores import imports
    from ledger_lab.reports.terminal.script import compile_forward_only

    with imports():
        compile_forward_only()
        import ledger_lab.tasks.registered  # noqa: F401
        import ledger_lab.training.evaluation.run  # noqa: F401
        import ledger_lab.training.final_report  # noqa: F401
        import ledger_lab.training.run  # noqa: F401
        from ledger_lab.training.runners.configs import resolve_configs
        from ledger_lab.training.runners.lean_imports import import_environment

        cfg, _ = resolve_configs("LedgerLab-Cartpole", "rsl_rl", [])
        import_environment(cfg)
        for name in _IMPORTED_LATE:
            if importlib.util.find_spec(name.rpartition(".")[0]) is not None:  # the folder of a wing may be missing
                importlib.import_module(name)


def _import_scripts() -> None:
    """Import what all scripts import before they read their command lines."""
    for command in known_commands().values():
        pkgutil.resolve_name(command.request or command.target)
    _import_starts()


def _import_starts() -> None:
    """Import what a script that simulates imports to start another process, or a job."""
    import ledger_lab.cli.first_look
    import ledger_lab.training.launch.start
    import ledger_lab.training.supervision.start  # noqa: F401

    wing_part("submission")


def _become(asked: Mapping[str, Any], streams: Sequence[int]) -> NoReturn:
    """Do what Python does with a script, in a forked process."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, stream in enumerate((nothing, *streams)):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(asked["environ"])
    os.chdir(asked["cwd"])
    sys.argv = asked["argv"]
    sys.orig_argv = [sys.executable, *sys.argv]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    status: Any = 1
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
        status = 0
    except SystemExit as end:
        status = end.code
        if status is not None and not isinstance(status, int):
            print(status, file=sys.stderr)
            status = 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status or 0)


if __name__ == "__main__":
    _serve()
