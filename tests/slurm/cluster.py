"""A real Slurm cluster of two nodes on this machine: each node has its own network, host name and process ids.

The controller is in a namespace of its own, too. All processes of a namespace end with its first process, so that
:meth:`Cluster.stop` leaves none behind.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

NODES = ("node1", "node2")
_PROGRAMS = ("slurmctld", "slurmd", "sbatch", "scontrol", "munged", "ip", "unshare", "nsenter", "setpriv")
_ENDS_WITH_US = ("setpriv", "--pdeathsig", "KILL")
"""Beginning of a command that the kernel kills when this process ends, however it ends."""

_CONF = """\
ClusterName=tests
SlurmctldHost=control({net}.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
SlurmdTimeout=10
KillWait=30
MinJobAge=600
SchedulerParameters=sched_interval=5,batch_sched_delay=1,bf_interval=5
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=node1 NodeAddr={net}.11 CPUs=4 RealMemory=4000 State=UNKNOWN
NodeName=node2 NodeAddr={net}.12 CPUs=4 RealMemory=4000 State=UNKNOWN
PartitionName=low Nodes=ALL Default=YES MaxTime=60 PriorityTier=1 PreemptMode=REQUEUE State=UP
PartitionName=patient Nodes=ALL MaxTime=60 PriorityTier=1 PreemptMode=REQUEUE GraceTime=60 State=UP
PartitionName=cancelling Nodes=ALL MaxTime=60 PriorityTier=1 PreemptMode=CANCEL State=UP
PartitionName=closed Nodes=ALL MaxTime=60 AllowAccounts=rich State=UP
PartitionName=high Nodes=ALL MaxTime=60 PriorityTier=10 PreemptMode=OFF State=UP
"""


def why_not() -> str | None:
    """Return why no cluster can run on this machine; ``None`` if one can."""
    if missing := [program for program in _PROGRAMS if shutil.which(program) is None]:
        return f"{', '.join(missing)} not found: install slurm-wlm, munge and iproute2"
    if os.geteuid() != 0:
        return "namespaces of networks and processes need root"
    tried = subprocess.run(["unshare", "--net", "--pid", "--mount", "--uts", "--fork", "true"], capture_output=True)
    if tried.returncode:
        return f"namespaces are not allowed here: {tried.stderr.decode().strip()}"
    if not Path("/sys/fs/cgroup/freezer").is_dir():
        return "slurmd of Debian needs the control groups of version 1, which are not mounted"
    return None


class Cluster:
    """A controller and two nodes."""

    def __init__(self, folder: Path) -> None:
        """Make configuration and keys.

        Args:
            folder: Where to keep them, with the logs.
        """
        self.folder = folder
        self._spaces: dict[str, subprocess.Popen[bytes]] = {}
        self._munged: subprocess.Popen[bytes] | None = None
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        net = "10.77.77"
        (folder / "state").mkdir()
        (folder / "slurm.conf").write_text(_CONF.format(folder=folder, net=net))
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")
        self._addresses = {"control": f"{net}.1", "node1": f"{net}.11", "node2": f"{net}.12"}
        for here in self._addresses:  # as Debian writes it, with an address for the own name that no other node reaches
            hosts = {**self._addresses, "localhost": "127.0.0.1", here: "127.0.1.1"}
            (folder / f"hosts-{here}").write_text("".join(f"{address} {name}\n" for name, address in hosts.items()))
        key = folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        self.environ = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}

    def start(self) -> None:
        """Start all daemons, and wait until both nodes are idle."""
        socket = self.folder / "munge.socket"
        self._munged = subprocess.Popen(
            [
                *_ENDS_WITH_US,
                *("munged", "--foreground", "--force", f"--socket={socket}", f"--key-file={self.folder}/munge.key"),
                *(f"--pid-file={self.folder}/munged.pid", f"--seed-file={self.folder}/munged.seed"),
                f"--log-file={self.folder}/munged.log",
            ],
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / "munged.err").open("wb"),
        )
        wait_until(socket.exists, "munged opens its socket", 60)
        for name in self._addresses:
            self._open_space(name)
        control = self._spaces["control"].pid
        self.inside("control", "ip", "link", "add", "bridge", "type", "bridge")
        self.inside("control", "ip", "address", "add", f"{self._addresses['control']}/24", "dev", "bridge")
        self.inside("control", "ip", "link", "set", "bridge", "up")
        for name in NODES:
            self._connect(name, control)
        self._start_daemon("control", "slurmctld")
        wait_until(lambda: "UP" in self.tried("scontrol", "ping"), "slurmctld answers", 60)
        for name in NODES:
            self.start_node(name)
        self.wait_for_nodes()

    def wait_for_nodes(self) -> None:
        """Wait until both nodes take jobs."""
        wait_until(
            lambda: (
                set(self.tried("sinfo", "--noheader", "--Node", "--format=%t").split()) <= {"idle", "mix", "alloc"}
                and "idle" in self.tried("sinfo", "--noheader", "--Node", "--format=%t")
            ),
            "both nodes are up",
            120,
        )

    def _open_space(self, name: str) -> None:
        """Start the first process of a namespace, which holds it open."""
        begin = (
            f"hostname {name} && mount --bind {shlex.quote(str(self.folder / f'hosts-{name}'))} /etc/hosts"
            " && ip link set lo up && exec sleep infinity"
        )
        unshared = ("--net", "--uts", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc")
        self._spaces[name] = process = subprocess.Popen([*_ENDS_WITH_US, "unshare", *unshared, "bash", "-c", begin])
        wait_until(lambda: self._first_process(process) is not None, f"the namespace of {name} is open", 30)

        def ready() -> bool:
            return name in self.inside(name, "hostname")

        wait_until(ready, f"{name} has its name", 30)

    def _first_process(self, unshare: subprocess.Popen[bytes]) -> int | None:
        """Return the id of the child of ``unshare``, the first process in the namespace."""
        children = Path(f"/proc/{unshare.pid}/task/{unshare.pid}/children").read_text().split()
        return int(children[0]) if children else None

    def _connect(self, name: str, control: int) -> None:
        """Connect a node to the bridge of the controller."""
        first, other = (self._first_process(self._spaces[each]) for each in ("control", name))
        self.inside("control", "ip", "link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0")
        # The peer moves into the node's network; both ends come up there.
        subprocess.run(
            ["nsenter", f"--net=/proc/{first}/ns/net", "ip", "link", "set", "eth0", "netns", str(other)], check=True
        )
        self.inside("control", "ip", "link", "set", f"to-{name}", "master", "bridge", "up")
        self.inside(name, "ip", "address", "add", f"{self._addresses[name]}/24", "dev", "eth0")
        self.inside(name, "ip", "link", "set", "eth0", "up")

    def _enter(self, name: str) -> list[str]:
        """Return the beginning of a command that runs in a namespace."""
        return ["nsenter", f"--target={self._first_process(self._spaces[name])}", "--all"]

    def inside(self, name: str, *command: str) -> str:
        """Run a command in the namespace of a node, and return what it printed."""
        finished = subprocess.run([*self._enter(name), *command], capture_output=True, text=True, env=self.environ)
        assert finished.returncode == 0, f"{name}: {shlex.join(command)}: {finished.stdout}{finished.stderr}"
        return finished.stdout

    def tried(self, *command: str) -> str:
        """Run a command in the namespace of the controller, and return all that it printed, whatever its status."""
        finished = subprocess.run([*self._enter("control"), *command], capture_output=True, text=True, env=self.environ)
        return finished.stdout + finished.stderr

    def script(
        self, *command: str, cwd: Path | None = None, environ: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the namespace of the controller to its end, with further environment variables."""
        return subprocess.run(
            [*self._enter("control"), *command],
            capture_output=True,
            text=True,
            env={**self.environ, **(environ or {})},
            cwd=cwd,
        )

    def has_ended(self, job: str) -> bool:
        """Tell whether no task of a job waits or runs."""
        return not self.inside("control", "squeue", "--noheader", f"--jobs={job}").strip()

    def _start_daemon(self, space: str, *command: str) -> None:
        """Start a daemon in a namespace."""
        log = (self.folder / f"{space}-{command[0]}.err").open("ab")
        self._daemons[space] = subprocess.Popen(
            [*self._enter(space), *command, "-D"], stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=self.environ
        )

    def start_node(self, name: str) -> None:
        """Start the daemon of a node; the namespace of a dead node is opened again first."""
        if self._spaces[name].poll() is not None:
            self._open_space(name)
            self._connect(name, self._spaces["control"].pid)
        self._start_daemon(name, "slurmd", "-N", name)

    def kill_node(self, name: str) -> None:
        """End all processes of a node at once, as if it had lost power."""
        _kill(self._spaces[name])
        self._daemons.pop(name).wait(timeout=60)

    def stop(self) -> None:
        """End every process of the cluster."""
        for process in self._spaces.values():
            _kill(process)
        for process in self._daemons.values():
            process.wait(timeout=60)
        if self._munged is not None:
            _kill(self._munged)

    def job(self, job: str) -> Mapping[str, str]:
        """Return the fields of a job or an array task, as ``scontrol`` shows them."""
        line = self.tried("scontrol", "show", "job", "--oneliner", job)
        return dict(re.findall(r"(\S+?)=(\S*)", line))


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that this module started, and wait for it."""
    process.kill()
    process.wait(timeout=60)


def wait_until(
    what: Callable[[], bool], said: str, limit_s: float, every_s: float = 0.5, shown: Callable[[], str] = str
) -> None:
    """Wait until something is true; if it does not become true, show why."""
    deadline = time.monotonic() + limit_s
    while not what():
        assert time.monotonic() < deadline, f"not within {limit_s:g} s: {said}\n{shown()[-4000:]}"
        time.sleep(every_s)


@contextmanager
def running_cluster(folder: Path) -> Iterator[Cluster]:
    """Run a cluster within the context."""
    cluster = Cluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
