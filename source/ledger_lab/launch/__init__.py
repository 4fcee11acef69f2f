"""Starts the processes of a run. What this module exports needs neither torch nor Isaac Lab."""

from ledger_lab.launch.addresses import (
    bound_listener,
    hub_address,
    listening_address,
    machine_addresses,
    require_private,
)
from ledger_lab.launch.torchrun import requested_processes, torchrun_argv, torchrun_environ
from ledger_lab.launch.world import STORE, World, read_world

__all__ = [
    "STORE",
    "World",
    "bound_listener",
    "hub_address",
    "listening_address",
    "machine_addresses",
    "read_world",
    "require_private",
    "requested_processes",
    "torchrun_argv",
    "torchrun_environ",
]
