"""A real Ray cluster of three nodes on this machine: a head without processors, and two nodes.

The cluster has a network of its own, whose only address is that of loopback: Ray listens on all interfaces otherwise.
All of its processes end with the first process of their namespace, so that :meth:`Cluster.stop` leaves none behind.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conftest import ROOT
from tests.fakes.waiting import wait_until

RAY = ROOT / ".venv-engines" / "bin"
PORT = 6399
NODES = ("one", "two")


def why_not() -> str | None:
    """Return why no cluster can run on this machine; ``None`` if one can."""
    if not (RAY / "python").exists():
        return "needs .venv-engines, which .ci/run builds from tools/requirements/engines.lock"
    if missing := [program for program in ("ip", "unshare", "nsenter", "setpriv") if shutil.which(program) is None]:
        return f"{', '.join(missing)} not found: install iproute2 and util-linux"
    tried = subprocess.run(["unshare", "--net", "--pid", "--mount", "--fork", "true"], capture_output=True)
    return f"namespaces are not allowed here: {tried.stderr.decode().strip()}" if tried.returncode else None


class Cluster:
    """A head and two nodes."""

    address = f"127.0.0.1:{PORT}"

    def __init__(self, folder: Path) -> None:
        """Make the token without which Ray takes no command.

        Args:
            folder: Where Ray keeps its sockets and logs; a short path.
        """
        self.folder = folder
        (folder / "token").write_text(secrets.token_hex(32))
        (folder / "token").chmod(0o600)
        self.environ = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")} | {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(folder / "token"),
            "RAY_USAGE_STATS_ENABLED": "0",
            # On a busy machine, all of this takes its time.
            "RAY_raylet_start_wait_time_s": "300",
            "RAY_agent_register_timeout_ms": "300000",
            "PYTHONPATH": str(ROOT / "source"),
        }
        self._space: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start all nodes."""
        # bash takes the end of processes that have lost their parents. Ray takes a dead raylet that nobody has waited
        # for as alive.
        first = "ip link set lo up && while :; do sleep 3600 & wait $!; done"
        unshared = ("--net", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc")
        self._space = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "unshare", *unshared, "bash", "-c", first])
        wait_until(lambda: self._first_process() is not None, "the namespace is open", 30)
        wait_until(lambda: "LOOPBACK,UP" in self.inside("ip", "link", "show", "lo").stdout, "loopback is up", 30)
        self._start_node(
            "head", 0, "--head", f"--port={PORT}", "--include-dashboard=false", f"--temp-dir={self.folder}"
        )
        for name in NODES:  # one after the other, because they choose names of sockets in the same folder
            self.start_node(name)

    def start_node(self, name: str) -> None:
        """Start a node with two processors."""
        self._start_node(name, 2, f"--address={self.address}")

    def _start_node(self, name: str, processors: int, *options: str) -> None:
        """Start a node."""
        finished = self.inside(
            *(str(RAY / "ray"), "start", f"--node-name={name}", "--node-ip-address=127.0.0.1", *options),
            *(f"--num-cpus={processors}", "--num-gpus=0", "--object-store-memory=80000000"),
            PYTHONPATH="",  # the nodes have no LedgerLab in Ray's Python
        )
        logs = sorted(self.folder.glob("session_latest/logs/raylet*"), key=lambda path: path.stat().st_mtime)
        said = "".join(path.read_text(errors="replace")[-2000:] for path in logs[-2:])
        assert finished.returncode == 0, finished.stdout + finished.stderr + said

    def _first_process(self) -> int | None:
        """Return the id of the first process in the namespace."""
        assert self._space is not None
        children = Path(f"/proc/{self._space.pid}/task/{self._space.pid}/children").read_text().split()
        return int(children[0]) if children else None

    def inside(self, *command: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the namespace to its end."""
        return subprocess.run(
            ["nsenter", f"--target={self._first_process()}", "--all", f"--wd={ROOT}", *command],
            capture_output=True,
            text=True,
            env={**self.environ, **environ},
        )

    def processes(self, pattern: str) -> list[int]:
        """Return the ids of the processes in the namespace whose command line matches a pattern."""
        return [int(pid) for pid in self.inside("pgrep", "--full", "--", pattern).stdout.split()]

    def kill(self, pattern: str, signal: str = "KILL") -> None:
        """Send a signal to the only process in the namespace whose command line matches a pattern."""
        (pid,) = self.processes(pattern)
        self.inside("kill", f"-{signal}", str(pid))

    def kill_node(self, name: str) -> None:
        """Kill the raylet of a node."""
        self.kill(f"/raylet .*--node-name={name}( |$)")

    def stop(self) -> None:
        """End every process of the cluster."""
        if self._space is not None:
            self._space.kill()
            self._space.wait(timeout=60)


@contextmanager
def running_cluster() -> Iterator[Cluster]:
    """Run a cluster within the context."""
    with tempfile.TemporaryDirectory(prefix="ray_", ignore_cleanup_errors=True) as folder:  # sockets need a short path
        cluster = Cluster(Path(folder))
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()
