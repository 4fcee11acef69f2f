"""What LedgerLab asks of an RL library, and what all adapters share."""

from __future__ import annotations

import contextlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ledger_lab.files import whole_file
from ledger_lab.ledger.libraries import algorithm_of, part_of, require_library
from ledger_lab.ledger.meters.phases import Phase
from ledger_lab.ledger.meters.probes import Part
from ledger_lab.tasks.recipes.settings import count, read_setting, write_setting
from ledger_lab.training.runners.lean_imports import postpone_compiler
from ledger_lab.training.runners.threads import Threads, in_threads

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

    from ledger_lab.ledger import CheckpointSaved
    from ledger_lab.ledger.meters.phases import PhaseClock
    from ledger_lab.off_policy.replay_memory import ReplayMemory
    from ledger_lab.off_policy.replay_plan import ReplayPlan
    from ledger_lab.tasks.recipes import Dialect
    from ledger_lab.training.runners.checkpoint_file import ActingModule
    from ledger_lab.training.runners.collectives import GradientAveraging


@dataclass(frozen=True, kw_only=True)
class BatchPlan:
    """How a library splits a batch into gradient steps."""

    max_iterations: int
    horizon: int
    """Environment steps per iteration and environment."""
    epochs: int
    minibatches: int | None = None
    """Number of minibatches per batch; ``None`` if the library fixes their size."""
    minibatch_size: int | None = None
    """Samples per minibatch, if the library fixes the size and not the number."""
    minibatch_setting: str
    """Setting of the agent's configuration for the minibatches, like ``agent.algorithm.num_mini_batches``."""
    save_interval: int
    """Iterations between two checkpoints."""
    rows_per_env: bool = False
    """Whether the setting of the minibatches holds the steps of an environment in each, in place of their number."""
    replay: ReplayPlan | None = None
    """The replay memory. With one, an iteration has one epoch, and a minibatch for each gradient step; ``None`` if the
    learner uses only the samples of the iteration."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: If a count is not a whole number of at least 1, or minibatches are given by both or neither of
                their number and their size.
        """
        if (self.minibatches is None) == (self.minibatch_size is None):
            raise ValueError("minibatches have either a number or a size")
        for name in ("max_iterations", "horizon", "epochs", "minibatches", "minibatch_size", "save_interval"):
            if (value := getattr(self, name)) is not None and (wrong := count(value)):
                raise ValueError(f"{name} {value!r}: {wrong}")

    def effective_batch(self, num_envs: int) -> int:
        """Return the samples that the gradient steps of one iteration use, counted again in each epoch.

        With a replay memory, these are the samples that one process draws.

        Args:
            num_envs: Number of environments of all processes.
        """
        if self.replay is not None:
            return self.minibatches_of(num_envs) * self.replay.batch_size
        return num_envs * self.horizon * self.epochs

    def minibatches_of(self, num_envs: int) -> int:
        """Return the number of minibatches per batch.

        Args:
            num_envs: Number of environments per process, a multiple of :meth:`num_envs_step`.
        """
        return self.minibatches or num_envs * self.horizon // (self.minibatch_size or 1)

    def minibatch_value(self, minibatches: int, samples: int) -> int | None:
        """Return what the setting of the minibatches must hold for a number of them.

        Args:
            minibatches: The number.
            samples: Samples of one process's batch, a multiple of it.

        Returns:
            The value; ``None`` if no value gives that number.
        """
        if self.minibatch_size is not None:
            return samples // minibatches
        if not self.rows_per_env:
            return minibatches
        return None if self.horizon % minibatches else self.horizon // minibatches

    def num_envs_step(self) -> int:
        """Return the number of environments per process whose multiples fill equal minibatches."""
        if self.replay is not None:
            return 1
        if self.minibatches is not None:
            return self.minibatches // math.gcd(self.horizon, self.minibatches)
        assert self.minibatch_size is not None
        return self.minibatch_size // math.gcd(self.horizon, self.minibatch_size)


type OnIteration = Callable[[int, Mapping[str, float]], bool]
"""Called inside the training loop after each iteration; returns whether to continue the training.

Arguments: the number of completed iterations, and the figures of the last iteration by the names of
:data:`ledger_lab.ledger.FIGURES`. Figures that the library does not compute are left out."""

type RecordCheckpoint = Callable[[Path, int], CheckpointSaved]
"""Called when a policy is complete on disk under its final name; returns the row of the checkpoint.

Arguments: the file, and the number of completed iterations."""


class Stop(Exception):  # noqa: N818 - no error
    """Raised to end the training loop of a library."""


@dataclass(frozen=True)
class Step:
    """A callable of a training loop."""

    owner: Any
    """Object that holds it."""
    name: str
    """Name under which its callers look it up."""
    phase: Phase | None = None
    """Phase that its time counts for; ``None`` for that of its caller."""
    title: str | None = None
    """Name in a profile; ``None`` if profiles leave it out."""
    yields: bool = False
    """Whether it is a generator; a profile then shows the work on each item."""


class Trainer(ABC):
    """Training loop of a library, ready to run once.

    It is the library's own loop, with phases around its callables; no step of it is copied.
    """

    suffix = ".pt"
    """Suffix of checkpoints."""
    replay: ReplayMemory | None = None
    """The replay memory, which is not part of :meth:`state`; ``None`` if the learner has none."""
    entropy_target: float | None = None
    """Entropy per action that the learner aims at, of actions as shares of their bound [nat]; ``None`` if it aims at
    none."""
    iterations = 0
    """Iterations completed."""

    def __init__(
        self,
        env: ManagerBasedRLEnv,
        agent_cfg: Any,
        batch: BatchPlan,
        run_dir: Path,
        clock: PhaseClock,
        record: RecordCheckpoint,
    ) -> None:
        """Build the library's runner, and instrument it.

        Args:
            env: The environment, or the part of it that the learner sees.
            agent_cfg: The library's configuration.
            batch: The batch arithmetic.
            run_dir: Folder for checkpoints and TensorBoard files.
            clock: Opens the phases.
            record: Records each checkpoint that is saved.
        """
        self._env, self._agent_cfg, self._batch = env, agent_cfg, batch
        self._run_dir, self._clock, self._record = run_dir, clock, record
        self._saved: CheckpointSaved | None = None
        self._steps = (*self._build(), Step(env.unwrapped.sim, "step", Phase.SIMULATE))
        for step in self._steps:
            if step.phase is not None:
                clock.instrument(step.owner, step.name, step.phase)

    def compute_in(self, threads: Threads) -> None:
        """Let torch compute each phase in its number of threads. Call it once, before :meth:`train`.

        Args:
            threads: The numbers of threads.
        """
        for step in self._steps:
            if step.phase is not None:
                computed = in_threads(getattr(step.owner, step.name), threads.of(step.phase))
                setattr(step.owner, step.name, computed)

    @abstractmethod
    def _build(self) -> Sequence[Step]:
        """Build the library's runner.

        Returns:
            Its callables that are metered, or that a profile shows.
        """

    def train(self, on_iteration: OnIteration) -> None:
        """Train to the end, or until ``on_iteration`` stops it, and save the last policy.

        Args:
            on_iteration: Called after each iteration; ends the training if it returns ``False``.
        """
        self._on_iteration = on_iteration
        try:
            if self.iterations < self._batch.max_iterations:
                with contextlib.suppress(Stop):
                    self._run()
            self.save()
        finally:
            self._close()

    @abstractmethod
    def _run(self) -> None:
        """Run the library's loop, which calls :meth:`_report` after each iteration."""

    @abstractmethod
    def _close(self) -> None:
        """Close the library's TensorBoard files."""

    def _report(self, iterations: int, figures: Mapping[str, float]) -> None:
        """Report a completed iteration.

        Args:
            iterations: Iterations completed.
            figures: Its figures, by the ledger's names.

        Raises:
            Stop: If no further iteration is to be trained.
        """
        self.iterations = iterations
        if not self._on_iteration(iterations, figures) or iterations >= self._batch.max_iterations:
            raise Stop

    def save(self) -> CheckpointSaved:
        """Save the policy of the last iteration, unless it is saved already. Call it between two iterations.

        Returns:
            The checkpoint, complete on disk under the iteration's number, counted from 0, and recorded.
        """
        if self._saved is None or self._saved.iteration != self.iterations:
            path = self._run_dir / f"model_{self.iterations - 1}{self.suffix}"
            with self._clock.window(Phase.CHECKPOINT):
                with whole_file(path) as unfinished:
                    self._write(unfinished)
                self._saved = self._record(path, self.iterations)
        return self._saved

    @abstractmethod
    def _write(self, path: Path) -> None:
        """Write a checkpoint of the library to a file."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return the state of the learner between two iterations.

        Returns:
            Parameters, normalizers, optimizer, schedule and counters, equal on every rank. Only types that
            ``torch.load(weights_only=True)`` reads.
        """

    @abstractmethod
    def begin(self, checkpoint: Path) -> None:
        """Load the networks of a checkpoint instead of random ones. Call it before :meth:`train`.

        Args:
            checkpoint: A checkpoint of the library, with networks of the same layers. Its observations must be the
                first ones of the present networks; the weights of further observations are zero.

        Raises:
            UserError: If its networks do not fit.
        """

    @abstractmethod
    def restore(self, state: Mapping[str, Any]) -> None:
        """Load a state. Call it before :meth:`train`, which then trains the remaining iterations.

        If no iterations remain, :meth:`train` returns at once, and :meth:`save` returns the last checkpoint. If the
        replay memory is restored, too, restore it before. Otherwise it is empty, and refills.

        Args:
            state: Result of :meth:`state` of a trainer with the same configuration.
        """

    def averaging(self) -> GradientAveraging | None:
        """Return where the loop averages the gradients of all processes.

        Returns:
            The callables; ``None`` if they are unknown, or average gradients of several losses.
        """
        return None

    def parts(self) -> list[Part]:
        """Return the callables of the loop whose times a profile shows."""
        return [Part(each.owner, each.name, each.title, each.yields) for each in self._steps if each.title is not None]


class Adapter(ABC):
    """One RL library."""

    dialect: Dialect
    """Names of the library, and of the fields of a recipe in its configuration."""
    trainer_type: type[Trainer]
    """Training loop of the library."""
    optional: ClassVar[Mapping[str, Any]] = {}
    """Settings that a configuration of nested dictionaries may leave out, by dotted path, with their defaults. They can
    still be overridden; :meth:`prepare` fills them in."""
    circumstances: Sequence[str]
    """Dotted paths in the configuration that do not affect what is learned, such as device, length or name. Runs that
    differ only in these have the same agent."""

    @property
    def library(self) -> str:
        """Name on the command line and in the log directory."""
        return self.dialect.library

    def prepare(
        self, agent_cfg: Any, device: str, *, seed: int | None = None, max_iterations: int | None = None
    ) -> Any:  # noqa: ANN401 - the library's own type
        """Adapt a resolved configuration to this machine and run. Call it once.

        Args:
            agent_cfg: The library's configuration.
            device: Device of the agent.
            seed: Training seed that replaces the seed in the configuration.
            max_iterations: Number of iterations that replaces the number in the configuration.

        Raises:
            UserError: If LedgerLab cannot train this configuration.
        """
        cfg = self._adapt(agent_cfg, device)
        if seed is not None:
            write_setting(cfg, self.dialect.seed, seed)
        if max_iterations is not None:
            write_setting(cfg, self.dialect.overrides["max_iterations"], max_iterations * self._counted(cfg))
        return cfg

    @abstractmethod
    def _adapt(self, agent_cfg: Any, device: str) -> Any:  # noqa: ANN401 - the library's own type
        """Check a resolved configuration, and adapt it to a device; see :meth:`prepare`."""

    def _counted(self, agent_cfg: Any) -> int:  # noqa: ANN401 - the library's own type
        """Return what the library counts in place of an iteration: 1, or the steps of an iteration."""
        return 1

    @abstractmethod
    def refuse_activation(self, value: Any) -> str | None:  # noqa: ANN401 - any value of a configuration
        """Check an activation with the library.

        Args:
            value: Value in a configuration.

        Returns:
            The reason against it, as the end of a sentence; ``None`` if the library supports it.
        """

    def symmetry(self, agent_cfg: Any) -> str | None:  # noqa: ANN401 - the library's own type
        """Return the setting that lets an agent also learn from mirrored samples; ``None`` if it does not.

        Args:
            agent_cfg: The library's configuration.
        """
        return None

    @abstractmethod
    def plan(self, agent_cfg: Any) -> BatchPlan:  # noqa: ANN401 - the library's own type
        """Read the batch arithmetic from the library's configuration.

        Raises:
            ValueError: If a value is invalid.
        """

    def seed(self, agent_cfg: Any) -> int:  # noqa: ANN401 - the library's own type
        """Read the training seed."""
        seed: int = read_setting(agent_cfg, self.dialect.seed)
        return seed

    def with_seed(self, agent_cfg: Any, seed: int) -> Any:  # noqa: ANN401 - the library's own type
        """Return a prepared configuration with another seed; each process of a training has its own."""
        write_setting(agent_cfg, self.dialect.seed, seed)
        return agent_cfg

    def experiment(self, agent_cfg: Any) -> str:  # noqa: ANN401 - the library's own type
        """Read the name of the runs' folder below ``<log_root>/<library>/``."""
        return read_setting(agent_cfg, self.dialect.overrides["experiment_name"]) or ""

    def trainer(
        self, env: ManagerBasedRLEnv, agent_cfg: Any, run_dir: Path, clock: PhaseClock, record: RecordCheckpoint
    ) -> Trainer:
        """Build the library's runner around an environment.

        Args:
            env: The environment, or the part of it that the learner sees.
            agent_cfg: The library's configuration.
            run_dir: Folder for checkpoints and TensorBoard files. Each process has its own; only that of the first one
                is kept.
            clock: Opens the phases.
            record: Records each checkpoint that the trainer saves.
        """
        return self.trainer_type(env, agent_cfg, self.plan(agent_cfg), run_dir, clock, record)

    @abstractmethod
    def load_policy(self, checkpoint: Path, env: ManagerBasedRLEnv, agent_cfg: Any) -> ActingModule:
        """Load the frozen policy of a checkpoint, with its frozen observation normalizer, as a :data:`Policy`.

        Args:
            checkpoint: The file.
            env: The environment that it will act in.
            agent_cfg: The library's configuration that the checkpoint was trained with.

        Raises:
            UserError: If the file is not a checkpoint of this library and network.
        """


def load_adapter(library: str, agent: str | None = None) -> Adapter:
    """Return the adapter of a library.

    Args:
        library: Its name.
        agent: Key of the agent's configuration, which may name another algorithm than PPO.

    Raises:
        UserError: If the library is unknown.
    """
    require_library(library)
    postpone_compiler()
    adapter: Adapter = part_of(library, algorithm_of(library, agent), "adapter")
    return adapter
