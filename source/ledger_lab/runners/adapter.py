"""The contract between LedgerLab and a reinforcement-learning library."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ledger_lab.errors import UserError, nearest

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

    from ledger_lab.ledger import CheckpointSaved
    from ledger_lab.meters import PhaseClock
    from ledger_lab.meters.probes import Part
    from ledger_lab.recipes import Dialect
    from ledger_lab.runners.acting_module import ActingModule


@dataclass(frozen=True, kw_only=True)
class BatchPlan:
    """How a library cuts experience into gradient steps."""

    max_iterations: int
    horizon: int
    """Environment steps per iteration and environment."""
    epochs: int
    minibatches: int | None = None
    """Parts that each batch is cut into; ``None`` where the library fixes their size."""
    minibatch_size: int | None = None
    """Samples of a part, where the library fixes that and not their number."""
    minibatch_setting: str
    """Setting of the agent's configuration that says so, like ``agent.algorithm.num_mini_batches``."""
    save_interval: int
    """Iterations between two checkpoints."""

    def __post_init__(self) -> None:
        """Refuse what no training could run with.

        Raises:
            ValueError: If a count is not a whole number of at least 1, or minibatches are given by both or neither of
                their number and their size.
        """
        if (self.minibatches is None) == (self.minibatch_size is None):
            raise ValueError("minibatches have either a number or a size")
        for name, value in vars(self).items():
            if name == "minibatch_setting":
                continue
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise ValueError(f"{name} must be a whole number of at least 1, not {value!r}")

    def effective_batch(self, num_envs: int) -> int:
        """Return the samples that the gradient steps of one iteration see, each epoch's anew.

        Args:
            num_envs: Environments of all processes.
        """
        return num_envs * self.horizon * self.epochs

    def minibatches_of(self, num_envs: int) -> int:
        """Return the parts that a batch is cut into.

        Args:
            num_envs: Environments per process; a number that fits (see :meth:`num_envs_step`).
        """
        return self.minibatches or num_envs * self.horizon // (self.minibatch_size or 1)

    def num_envs_step(self) -> int:
        """Return the smallest number of environments per process that fills equal minibatches; multiples do, too."""
        if self.minibatches is not None:
            return self.minibatches // math.gcd(self.horizon, self.minibatches)
        assert self.minibatch_size is not None
        return self.minibatch_size // math.gcd(self.horizon, self.minibatch_size)


type OnIteration = Callable[[int, Mapping[str, float]], bool]
"""Called inside the training loop after each iteration; returns whether to go on training.

Gets the number of completed iterations, and the figures of this one by the names of :data:`ledger_lab.ledger.FIGURES`,
as far as the library computes them."""

type RecordCheckpoint = Callable[[Path, int], CheckpointSaved]
"""Called when a policy is whole on disk under its final name; returns the row of the checkpoint.

Gets the file, and the number of completed iterations."""


class Stop(Exception):  # noqa: N818 - no error
    """Leaves a library's loop that knows no other way out."""


class Trainer(Protocol):
    """A library's training loop, ready to run once."""

    def train(self, on_iteration: OnIteration) -> None:
        """Train to the end, opening phases around the library's own callables.

        Args:
            on_iteration: Called after each iteration; ends the training if it returns ``False``.
        """

    def save(self) -> CheckpointSaved:
        """Save the policy of the last iteration, unless that is done; to be called between two iterations.

        Returns:
            The checkpoint, whole on disk and recorded.
        """

    def state(self) -> dict[str, Any]:
        """Return what the learner goes on from, as it is between two iterations.

        Returns:
            Parameters, normalizers, optimizer, schedule and counts, on every rank the same; nothing but what
            ``torch.load(weights_only=True)`` reads.
        """

    def begin(self, checkpoint: Path) -> None:
        """Take the networks of a checkpoint in place of random ones; to be called before :meth:`train`.

        Args:
            checkpoint: A checkpoint of the library, whose networks have the same layers. What they see comes first in
                what these see; weights of what they have not seen are zero.

        Raises:
            UserError: If its networks don't fit.
        """

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state; to be called before :meth:`train`, which then trains what is left of all iterations.

        What is left may be nothing: then :meth:`train` returns at once, and :meth:`save` returns the last checkpoint.

        Args:
            state: What :meth:`state` returned, by a trainer of the same configuration.
        """

    def carried(self) -> Sequence[tuple[object, Sequence[str]]] | None:
        """Return where the loop keeps what it carries from step to step, like the returns of running episodes.

        Returns:
            Objects with the names of those of their attributes that are to be saved and put back with the simulation's;
            ``None`` if the loop can't go on in the middle of episodes, because networks remember what they saw in them.
        """

    def parts(self) -> list[Part]:
        """Return the callables of the loop that are worth a line of their own in a profile."""


class Adapter(Protocol):
    """One library."""

    library: str
    """Name on the command line and in the log directory."""
    dialect: Dialect
    """How it says what a recipe says."""
    optional: Mapping[str, Any]
    """Settings that a configuration of nested dictionaries may leave out, by their dotted paths, and what they are
    then. They can be overridden all the same, and :meth:`prepare` writes them down."""
    circumstances: Sequence[str]
    """Dotted paths into the configuration that say where, how long or under which name something is learned, not what:
    runs that differ in these alone have the same agent."""

    def prepare(
        self, agent_cfg: Any, device: str, *, seed: int | None = None, max_iterations: int | None = None
    ) -> Any:  # noqa: ANN401 - the library's own type
        """Make a freshly resolved configuration ready for this machine and run. To be called once.

        Args:
            agent_cfg: The library's configuration.
            device: Where the agent computes.
            seed: Seed of the training in place of the configuration's.
            max_iterations: Iterations in place of the configuration's.

        Raises:
            UserError: If LedgerLab can't train what it describes.
        """

    def refuse_activation(self, value: Any) -> str | None:  # noqa: ANN401 - whatever stands in a configuration
        """Ask the library for an activation.

        Args:
            value: What a configuration says.

        Returns:
            What speaks against it, as the end of a sentence; ``None`` if the library has it.
        """

    def require_memoryless(self, agent_cfg: Any) -> None:  # noqa: ANN401 - the library's own type
        """Refuse a policy whose actions depend on what it has seen before: nobody keeps that for it.

        Args:
            agent_cfg: The library's configuration.

        Raises:
            UserError: If it describes one.
        """

    def plan(self, agent_cfg: Any) -> BatchPlan:  # noqa: ANN401 - the library's own type
        """Read the batch arithmetic from the library's configuration.

        Raises:
            ValueError: If there is something in it that no training could run with.
        """

    def seed(self, agent_cfg: Any) -> int:  # noqa: ANN401 - the library's own type
        """Read the seed of the training."""

    def with_seed(self, agent_cfg: Any, seed: int) -> Any:  # noqa: ANN401 - the library's own type
        """Return a prepared configuration with another seed: each process of a training has its own."""

    def experiment(self, agent_cfg: Any) -> str:  # noqa: ANN401 - the library's own type
        """Read the folder of the runs below ``<log_root>/<library>/``."""

    def trainer(
        self, env: ManagerBasedRLEnv, agent_cfg: Any, run_dir: Path, clock: PhaseClock, record: RecordCheckpoint
    ) -> Trainer:
        """Build the library's runner around an environment.

        Args:
            env: The environment, or the part of it that the learner may see.
            agent_cfg: The library's configuration.
            run_dir: Where checkpoints and TensorBoard files go; of several processes, each has a folder of its own,
                and that of the first one is kept.
            clock: Opens the phases.
            record: Records each checkpoint that the trainer saves.
        """

    def load_policy(self, checkpoint: Path, env: ManagerBasedRLEnv, agent_cfg: Any) -> ActingModule:
        """Load the frozen policy of a checkpoint, with its frozen observation normalizer, as a :data:`Policy`.

        Args:
            checkpoint: The file.
            env: The environment that it is going to act in.
            agent_cfg: The library's configuration, as the checkpoint was trained with.

        Raises:
            UserError: If the file is not a checkpoint of this library and network.
        """


def require_library(library: str) -> None:
    """Refuse an unknown library.

    Args:
        library: Its name.

    Raises:
        UserError: If there is none of this name.
    """
    if library not in LIBRARIES:
        raise UserError(f"unknown library {library!r}: {nearest(library, LIBRARIES)}")


def load_adapter(library: str) -> Adapter:
    """Return the adapter of a library.

    Args:
        library: Its name.

    Raises:
        UserError: If there is none.
    """
    require_library(library)
    module, _, name = LIBRARIES[library].partition(":")
    adapter: Adapter = getattr(importlib.import_module(module), name)()
    return adapter


LIBRARIES = {
    "rsl_rl": "ledger_lab.runners.rsl_rl.adapter:RslRlAdapter",
    "rl_games": "ledger_lab.runners.rl_games.adapter:RlGamesAdapter",
    "skrl": "ledger_lab.runners.skrl.adapter:SkrlAdapter",
}
"""Where the adapter of each library is found; it is imported when it is asked for."""
