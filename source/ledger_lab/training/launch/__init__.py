"""Starts the processes of a run. What this module exports needs neither torch nor Isaac Lab."""

from ledger_lab.training.launch.start import requested_processes, torchrun_argv, torchrun_environ
from ledger_lab.training.launch.world import World, read_world

__all__ = ["World", "read_world", "requested_processes", "torchrun_argv", "torchrun_environ"]
