"""Connects launchers of several processes without a port that is open to strangers. Imports torch."""

from __future__ import annotations

import os
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch.distributed.elastic.rendezvous import (
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStoreInfo,
    c10d_rendezvous_backend,
    rendezvous_handler_registry,
    static_tcp_rendezvous,
)
from torch.distributed.elastic.rendezvous.utils import parse_rendezvous_endpoint

from ledger_lab.training.launch.addresses import ALLOW, bound_listener, require_private
from ledger_lab.training.launch.world import STORE

_SINGLE = "ledger_lab"
"""Name of the rendezvous of a single launcher."""


class _SingleLauncher(RendezvousHandler):
    """The rendezvous of a single launcher, without other members."""

    def __init__(self, parameters: RendezvousParameters) -> None:
        self._run_id = parameters.run_id

    def get_backend(self) -> str:
        """Return the name of this kind of rendezvous."""
        return _SINGLE

    def next_rendezvous(self) -> RendezvousInfo:
        """Return a world of one launcher."""
        return RendezvousInfo(dist.HashStore(), 0, 1, RendezvousStoreInfo("localhost", 0))

    def is_closed(self) -> bool:
        """Tell whether it is closed to new members."""
        return False

    def set_closed(self) -> None:
        """Close it to new members."""

    def num_nodes_waiting(self) -> int:
        """Return how many launchers wait to join."""
        return 0

    def get_run_id(self) -> str:
        """Return the id of this training in a shared rendezvous."""
        return self._run_id

    def shutdown(self) -> bool:
        """Close all connections, and tell whether that succeeded."""
        return True


class _BoundStore(dist.TCPStore):
    """A store that listens only at the address where others reach it; torch's own store listens at all addresses."""

    def __init__(
        self, host: str, port: int, world_size: int | None = None, is_master: bool = False, *args: Any, **options: Any
    ) -> None:
        if is_master:
            try:
                options["master_listen_fd"] = bound_listener(host, port).detach()
            except RuntimeError as error:
                raise dist.DistNetworkError(str(error)) from error
        super().__init__(host, port, world_size, is_master, *args, **options)


def _host_of(endpoint: str) -> str:
    """Return the host of an endpoint as torch reads it: the port may be missing, brackets surround IPv6 addresses."""
    try:
        return str(parse_rendezvous_endpoint(endpoint, 0)[0])
    except ValueError:
        return ""  # torch refuses it


@contextmanager
def safe_rendezvous(args: Namespace) -> Iterator[None]:
    """Within the context, the launcher of a single machine opens no port; launchers of several use one address only.

    Args:
        args: Parsed command line of torchrun; changed.

    Raises:
        UserError: If a launcher would listen at a public address.
    """
    if not args.standalone:
        where = _host_of(args.rdzv_endpoint) if args.rdzv_endpoint else args.master_addr
        require_private(
            [name for name in (where, args.local_addr) if name],
            allow=ALLOW in args.training_script_args,
        )
        for module in (c10d_rendezvous_backend, static_tcp_rendezvous):
            module.TCPStore = _BoundStore
        os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"  # a shared store would listen at all addresses
        yield
        return
    rendezvous_handler_registry.register(_SINGLE, _SingleLauncher)
    args.standalone, args.rdzv_backend, args.rdzv_endpoint = False, _SINGLE, ""
    args.local_addr = args.local_addr or "localhost"
    with tempfile.TemporaryDirectory(prefix="ledger_lab_") as folder:  # only this user may enter it
        os.environ[STORE] = str(Path(folder) / "store")
        yield
