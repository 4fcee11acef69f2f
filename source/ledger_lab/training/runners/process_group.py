"""The processes of one training: they connect, exchange values, and check that their learners stay equal.

Libraries synchronize parameters on the device. The messages here are small, and go from host to host.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _set_pg_timeout

from ledger_lab.errors import UserError, first_line
from ledger_lab.ledger.endings import RanksDifferError
from ledger_lab.training.launch.addresses import (
    bound_listener,
    interface_towards,
    machine_addresses,
    own_address_towards,
    require_private,
)
from ledger_lab.training.launch.world import STORE, World

_JOIN_S = 300.0
"""How long to wait for processes that are still starting [s]."""
_LOOK_S = 0.1
"""Interval between checks whether they are ready [s]."""
_CONNECT_S = 60.0
"""How long processes that are ready may take to connect [s]."""
_PROBE_S = 60.0
"""How long the first collective may take [s]; during it, NCCL searches for paths between all devices."""
_LOOPBACK_INTERFACE = "lo"
"""Network interface for processes of one machine: no other machine can connect to it."""
_PROBE_NUMBERS = 1 << 20
_COLLECTIVE_S = 900.0
"""How long any later collective may take [s]. It is long because a process may compile kernels while the others wait.
Processes that end do not keep the others waiting."""


class ProcessGroup:
    """All processes of a training. Every process calls the same methods in the same order.

    With a single process, each method returns at once.
    """

    def __init__(self, world: World, hosts: list[str], folder: Path) -> None:
        """Describe the processes.

        Args:
            world: The processes, and the rank of this one.
            hosts: Host names, by rank.
            folder: Temporary folder of this process.
        """
        self.world, self.hosts, self._folder = world, hosts, folder

    def gather(self, mine: Any) -> list[Any]:  # noqa: ANN401 - a JSON value
        """Return the values of all processes, by rank.

        Args:
            mine: A JSON value.
        """
        if self.world.size == 1:
            return [mine]
        return [json.loads(each) for each in self.gather_bytes(json.dumps(mine).encode())]

    def gather_bytes(self, mine: bytes) -> list[bytes]:
        """Return the bytes of all processes, by rank.

        Args:
            mine: At least one byte.
        """
        if self.world.size == 1:
            return [mine]
        data = torch.frombuffer(bytearray(mine), dtype=torch.uint8)
        sizes = [torch.zeros(1, dtype=torch.long) for _ in range(self.world.size)]
        dist.all_gather(sizes, torch.tensor([len(data)]))
        padded = torch.zeros(max(int(size) for size in sizes), dtype=torch.uint8)
        padded[: len(data)] = data
        everything = [torch.zeros_like(padded) for _ in sizes]
        dist.all_gather(everything, padded)
        return [each[: int(size)].numpy().tobytes() for each, size in zip(everything, sizes, strict=True)]

    def largest(self, mine: Sequence[int]) -> list[int]:
        """Return the largest of the values of all processes, place by place, in one collective.

        Args:
            mine: Values of this process; equally many in all.
        """
        return self._reduced(mine, dist.ReduceOp.MAX)

    def total(self, mine: Sequence[int]) -> list[int]:
        """Return the sum of the values of all processes, place by place, in one collective.

        Args:
            mine: Values of this process; equally many in all.
        """
        return self._reduced(mine, dist.ReduceOp.SUM)

    def _reduced(self, mine: Sequence[int], operation: Any) -> list[int]:
        """Return the values of all processes, put together place by place."""
        if self.world.size == 1 or not mine:
            return list(mine)
        values = torch.tensor(mine, dtype=torch.long)
        dist.all_reduce(values, op=operation)
        return [int(value) for value in values]

    def any(self, mine: bool) -> bool:
        """Tell whether the value is true in any process."""
        return self.largest([mine]) == [True]

    def all(self, mine: bool) -> bool:
        """Tell whether the value is true in all processes."""
        return not self.any(not mine)

    def agree[T](self, check: Callable[[], T]) -> T:
        """Run a check that may refuse the user's request; if it fails in one process, all processes end.

        Args:
            check: The check.

        Returns:
            Its result in this process.

        Raises:
            UserError: In the first process, if the check fails in any process; with its own reason, if it has one.
            SystemExit: In all other processes then, so that the error is printed once.
        """
        if self.world.size == 1:
            return check()
        values: list[T] = []
        complaint = None
        try:
            values.append(check())
        except UserError as error:
            complaint = str(error)
        complaints = self.gather(complaint)
        for rank, reason in enumerate(complaints):
            if reason is None:
                continue
            if not self.world.first:
                sys.exit(2)
            alone = rank > 0 and complaints.count(reason) < self.world.size
            raise UserError(f"rank {rank} on {self.hosts[rank]}: {reason}" if alone else reason)
        return values[0]

    def first[T](self, make: Callable[[], T]) -> T:
        """Return a value that the first process makes.

        Args:
            make: Called in the first process only; returns a JSON value.

        Raises:
            UserError: In the first process, if ``make`` raises it.
            SystemExit: In all other processes then.
        """
        made = self.agree(lambda: make() if self.world.first else None)
        if self.world.size > 1:
            made = json.loads(self._bytes_of_first(json.dumps(made).encode()))
        return cast("T", made)

    def file(self, path: Path) -> Path:
        """Return a file of the first process, even if this process does not share its disk.

        Args:
            path: Path of the file in the first process.

        Returns:
            The file itself; in other processes, a copy that the next call may replace.
        """
        if self.world.size == 1:
            return path
        content = self._bytes_of_first(path.read_bytes() if self.world.first else b"")
        if self.world.first:
            return path
        copy = self._folder / f"first_{path.name}"
        copy.write_bytes(content)
        return copy

    def folder(self, run_dir: Path) -> Path:
        """Return a folder for a library: the run's directory in the first process, else a temporary folder."""
        return run_dir if self.world.first else self._folder

    def require_equal(self, state: Mapping[str, Any], tell: Callable[[str], None] = lambda _: None) -> None:
        """Check that all processes hold the same numbers, bit for bit.

        Args:
            state: The result of :meth:`ledger_lab.training.runners.adapter.Trainer.state`.
            tell: Called with the SHA-256 of this process's names and numbers, before anything is compared.

        Raises:
            RanksDifferError: If they differ; names the first difference.
        """
        digests = dict(_digests(state, ""))
        whole = hashlib.sha256(json.dumps(digests).encode()).hexdigest()
        tell(whole)
        if len(set(self.gather(whole))) == 1:
            return
        found = self.gather(digests)
        name, rank = next(
            (name, rank)
            for name in dict.fromkeys(name for each in found for name in each)
            for rank, each in enumerate(found)
            if each.get(name) != found[0].get(name)
        )
        raise RanksDifferError(
            f"{name} differs between rank 0 on {self.hosts[0]} and rank {rank} on {self.hosts[rank]}"
        )

    def try_out(self, device: str) -> None:
        """Test the connection: add up numbers of all processes on their devices, before training depends on it.

        Args:
            device: The device of this process.

        Raises:
            UserError: If the test takes too long or fails; names the environment variable to try.
        """
        if self.world.size == 1:
            return
        library = "gloo" if device == "cpu" else "nccl"
        if device != "cpu":
            torch.cuda.set_device(device)
        numbers = torch.full((_PROBE_NUMBERS,), float(self.world.rank + 1), device=device)
        failed: list[RuntimeError] = []

        def add_up() -> None:
            try:
                if device != "cpu":
                    torch.cuda.set_device(device)  # the current device is set per thread
                dist.all_reduce(numbers)
                if not bool((numbers == self.world.size * (self.world.size + 1) / 2).all()):
                    failed.append(RuntimeError("the sum of all ranks is wrong"))
            except RuntimeError as error:
                failed.append(error)

        # NCCL connects within its first collective, and only its own timeout, which is too long for a user, ends that.
        trial = threading.Thread(target=add_up, daemon=True)
        trial.start()
        trial.join(_PROBE_S)
        if trial.is_alive():
            failed.append(RuntimeError(f"no answer within {_PROBE_S:g} s"))
            atexit.register(os._exit, 2)  # exit without waiting for that thread or destroying its group
        if failed:
            raise UserError(_advice(library, failed[0])) from failed[0]

    def _bytes_of_first(self, data: bytes) -> bytes:
        """Return the first process's bytes."""
        size = torch.tensor([len(data)])
        dist.broadcast(size, src=0)
        content = torch.zeros(int(size), dtype=torch.uint8)
        if self.world.first:
            content = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        dist.broadcast(content, src=0)
        return content.numpy().tobytes()


ALONE = ProcessGroup(World(), [socket.gethostname()], Path())
"""A training in one process."""


@contextmanager
def joined(world: World, *, on_gpu: bool, allow_public_address: bool = False) -> Iterator[ProcessGroup]:
    """Join the processes of a training, until the end of the context.

    The group uses gloo between hosts and NCCL between devices. Libraries that would create a group of their own use
    this one.

    Args:
        world: The processes, and the rank of this one.
        on_gpu: Whether they compute on GPUs.
        allow_public_address: Whether processes of several machines may listen at a public address.

    Raises:
        UserError: If they can't connect, or would listen at a public address.
    """
    if world.size == 1:
        yield ALONE
        return
    if world.one_machine:
        for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
            os.environ.setdefault(variable, _LOOPBACK_INTERFACE)
    else:
        require_private([os.environ["MASTER_ADDR"], *machine_addresses(os.environ)], allow=allow_public_address)
    with tempfile.TemporaryDirectory(prefix="ledger_lab_rank_") as folder:
        try:
            store, addresses = _meet(world)
            if not world.one_machine and "GLOO_SOCKET_IFNAME" not in os.environ:
                if interface := interface_towards(addresses):
                    os.environ["GLOO_SOCKET_IFNAME"] = interface
                require_private(machine_addresses(os.environ), allow=allow_public_address)
            dist.init_process_group(
                "cpu:gloo,cuda:nccl" if on_gpu else "gloo",
                store=store,
                rank=world.rank,
                world_size=world.size,
                timeout=timedelta(seconds=_CONNECT_S),
            )
            _set_pg_timeout(timedelta(seconds=_COLLECTIVE_S))
            group = ProcessGroup(world, [], Path(folder))
            group.hosts = group.gather(socket.gethostname())
        except RuntimeError as error:
            raise UserError(_advice("gloo", error)) from error
        try:
            yield group
        except SystemExit as ending:
            if not ending.code:  # after an error, it might wait for other processes forever
                dist.destroy_process_group()
            raise
        dist.destroy_process_group()


def _meet(world: World) -> tuple[dist.Store, list[str]]:
    """Wait until all processes have connected.

    Returns:
        Their common store, and the address from which each process reaches the first one; empty where none does.
    """
    server = _server(world)
    store = dist.PrefixStore(f"ledger_lab/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", server)
    keys = [f"joined/{rank}" for rank in range(world.size)]
    deadline_s = time.monotonic() + _JOIN_S
    try:
        store.set(keys[world.rank], "" if world.one_machine else _address_towards_first())
        while not store.check(keys):  # the store's own wait ignores Ctrl-C
            if time.monotonic() > deadline_s:
                missing = [str(rank) for rank, key in enumerate(keys) if not store.check([key])]
                raise UserError(
                    f"of {world.size} processes, rank {', '.join(missing)} did not connect within {_JOIN_S:g} s: look "
                    "at the messages on their machines"
                )
            time.sleep(_LOOK_S)
        return store, [store.get(key).decode() for key in keys]
    except RuntimeError as error:
        raise UserError(
            f"the rendezvous store of the processes is gone ({first_line(error)}): look at the messages of rank 0"
        ) from error


def _address_towards_first() -> str:
    """Return the address from which this machine reaches the first one; empty if there is none."""
    with suppress(OSError):
        return own_address_towards(os.environ["MASTER_ADDR"])
    return ""


def _server(world: World) -> dist.Store:
    """Open the store through which the processes connect: a file on one machine, else a server in the first process.

    A server that is started here listens at one address only; torch's own server listens at all addresses.
    """
    patience = timedelta(seconds=_JOIN_S)
    if STORE in os.environ:
        store = dist.FileStore(os.environ[STORE], world.size)
        store.set_timeout(patience)
        return store
    address, port = os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]
    agents = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"  # then torchrun itself hosts the store
    hosts = world.first and not agents
    try:
        listener = bound_listener("127.0.0.1" if world.one_machine else address, int(port)).detach() if hosts else None
        return dist.TCPStore(
            address, int(port), is_master=hosts, timeout=patience, wait_for_workers=False, master_listen_fd=listener
        )
    except (RuntimeError, ValueError) as error:
        if "EADDRINUSE" in str(error):
            raise UserError(
                f"MASTER_PORT {port} is in use on this machine: choose another port, or use --nproc, which needs no "
                "port"
            ) from error
        raise UserError(
            f"MASTER_ADDR {address} MASTER_PORT {port} cannot be reached: {first_line(error)}: set torchrun's "
            "--local-addr to the address at which other machines reach the first machine"
        ) from error


def _digests(value: Any, name: str) -> Iterator[tuple[str, str]]:
    """Yield every number inside a value by name, and for tensors the hash of their content."""
    if isinstance(value, torch.Tensor):
        content = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        yield name, f"{value.dtype}{tuple(value.shape)}:{hashlib.sha256(content).hexdigest()}"
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _digests(each, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple):
        for index, each in enumerate(value):
            yield from _digests(each, f"{name}.{index}")
    else:
        yield name, repr(value)


def _advice(library: str, error: Exception) -> str:
    """Return why the processes may not reach each other, and what to try."""
    interfaces = ", ".join(name for _, name in socket.if_nameindex())
    variable = f"{library.upper()}_SOCKET_IFNAME"
    now = f"; it is {os.environ[variable]} now" if variable in os.environ else ""
    way_out = f"set {variable} to the network interface that connects the machines (here: {interfaces}{now})"
    if library == "nccl":
        way_out += (
            "; on one machine try NCCL_P2P_DISABLE=1, across machines NCCL_IB_DISABLE=1; NCCL_DEBUG=INFO says more"
        )
    return f"the processes do not reach each other with {library}: {first_line(error)}: {way_out}"
