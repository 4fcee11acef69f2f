"""Starts the processes of a run. What this module exports needs neither torch nor Isaac Lab."""

from ledger_lab.training.launch.addresses import (
    bound_listener,
    hub_address,
    interface_towards,
    listening_address,
    machine_addresses,
    own_address_towards,
    require_private,
)
from ledger_lab.training.launch.torchrun import requested_processes, torchrun_argv, torchrun_environ
from ledger_lab.training.launch.world import STORE, World, read_world

__all__ = [
    "STORE",
    "World",
    "bound_listener",
    "hub_address",
    "listening_address",
    "interface_towards",
    "machine_addresses",
    "own_address_towards",
    "read_world",
    "require_private",
    "requested_processes",
    "torchrun_argv",
    "torchrun_environ",
]
