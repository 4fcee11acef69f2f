"""How the processes of a run are started. Pure functions that need neither torch nor Isaac Lab."""

from ledger_lab.launch.torchrun import requested_processes, torchrun_argv, torchrun_environ
from ledger_lab.launch.world import World, read_world
from ledger_lab.terminal.exit_status import asks_to_resume

__all__ = ["World", "asks_to_resume", "read_world", "requested_processes", "torchrun_argv", "torchrun_environ"]
