"""How the processes of a training are started. Pure functions that need neither torch nor Isaac Lab."""

from ledger_lab.launch.torchrun import asks_to_resume, requested_processes, torchrun_argv, torchrun_environ
from ledger_lab.launch.world import World, read_world

__all__ = ["World", "asks_to_resume", "read_world", "requested_processes", "torchrun_argv", "torchrun_environ"]
