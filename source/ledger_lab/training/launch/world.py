"""The processes of a run, as the launcher describes them in environment variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ledger_lab.errors import UserError

_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""Environment variables that torchrun sets for each process."""

STORE = "LEDGER_LAB_STORE"
"""Environment variable with the file through which the processes of one machine find each other."""


@dataclass(frozen=True, kw_only=True)
class World:
    """The processes of a training, and the rank of this process. By default, there is one process."""

    rank: int = 0
    """Rank of this process, counted from 0."""
    size: int = 1
    """Number of all processes."""
    local_rank: int = 0
    """Rank of this process on its machine, counted from 0."""
    local_size: int = 1
    """Number of processes on its machine."""

    def __post_init__(self) -> None:
        """Refuse ranks that are out of range.

        Raises:
            ValueError: If a number is out of range.
        """
        if not (0 <= self.local_rank < self.local_size <= self.size and self.local_rank <= self.rank < self.size):
            raise ValueError(
                f"RANK {self.rank} of WORLD_SIZE {self.size} and LOCAL_RANK {self.local_rank} of LOCAL_WORLD_SIZE "
                f"{self.local_size} contradict each other"
            )

    @property
    def first(self) -> bool:
        """Whether this is the process that decides and reports."""
        return self.rank == 0

    @property
    def machines(self) -> int:
        """Number of machines. All have the same number of processes, except the last machine, which may have fewer."""
        return -(-self.size // self.local_size)

    @property
    def one_machine(self) -> bool:
        """Whether all processes are on this machine."""
        return self.machines == 1


def read_world(environ: Mapping[str, str], *, distributed: bool) -> World:
    """Return the processes that the environment variables describe.

    Args:
        environ: The environment.
        distributed: Whether ``--distributed`` was given.

    Raises:
        UserError: If flag and environment contradict each other.
    """
    if not distributed:
        if environ.get("WORLD_SIZE", "1") != "1":
            raise UserError(
                f"WORLD_SIZE is {environ['WORLD_SIZE']}: pass --distributed to train in that many processes, or "
                "unset it"
            )
        return World()
    missing = [name for name in _VARIABLES if not environ.get(name)]
    if missing:
        raise UserError(
            f"--distributed: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set: start with torchrun, "
            "which sets them, or use --nproc N instead"
        )
    try:
        rank, size, local_rank, local_size = (int(environ[name]) for name in _VARIABLES[:4])
        return World(rank=rank, size=size, local_rank=local_rank, local_size=local_size)
    except ValueError as error:
        raise UserError(f"--distributed: {error}: let torchrun set them") from error
