"""Makes the gradient steps of an environment step while the simulation takes the next one, on the cores of a CPU.

A training with a replay memory takes turns: the policy acts, the simulation takes a step of all environments, its
transitions are stored, and the learner makes gradient steps. Here, the gradient steps run beside the next step of the
simulation::

    main thread       act   step 1 ......   store   act   step 2 ......   store   act
    learner's thread        update 0 ....                 update 1 ....

So the policy that acts has not learned from the newest step yet: each update comes one step later than without overlap.
An update that is due after the last step of the training is not made.

Both threads meet at the end of each step. Transitions are stored, and the policy acts and is saved, while the learner
rests. The policies in the held-out slots act within the step, as copies that the learner does not change. The learner
has a random stream of its own, because the order in which two threads draw from one stream depends on their speed. So a
training depends on its seed alone, bit for bit.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Self

import torch

from ledger_lab.errors import UserError
from ledger_lab.ledger.meters import Phase
from ledger_lab.training.runners.threads import torch_threads
from ledger_lab.wings import wing_part

if TYPE_CHECKING:
    from ledger_lab.ledger.meters import PhaseClock
    from ledger_lab.off_policy.replay_memory import ReplayMemory


def _at_most_threads(count: int) -> AbstractContextManager[Callable[[], None]]:
    """Limit the threads of MuJoCo's C code within the context, which yields a function that lifts the limit."""
    limit = wing_part("native threads")
    limited: AbstractContextManager[Callable[[], None]] = nullcontext(lambda: None) if limit is None else limit(count)
    return limited


def require_cpu(setting: str, device: torch.device) -> None:
    """Refuse to overlap where physics and learner share a GPU.

    Args:
        setting: Setting of the agent's configuration that asks for it.
        device: Device of the training.

    Raises:
        UserError: If the training is on a GPU.
    """
    if device.type != "cpu":
        raise UserError(
            f"{setting} True: physics and learner take turns on {device}, so nothing would overlap: leave it out, or "
            "use --device cpu"
        )


class Overlap:
    """The thread of the learner, and the update that is due. Use it as a context around the training loop."""

    def __init__(
        self, update: Callable[..., object], updates_per_step: int, replay: ReplayMemory, clock: PhaseClock
    ) -> None:
        """Begin without an update that is due. The seed of the learner's stream comes from the process's stream.

        Args:
            update: Makes the gradient steps of one environment step; it must draw from :attr:`stream` alone.
            updates_per_step: How many these are.
            replay: The memory that they draw from.
            clock: Gets the time that the main thread waits for the learner, as
            :attr:`~ledger_lab.ledger.meters.Phase.LEARN`.
        """
        self._update, self._updates_per_step, self._replay, self._clock = update, updates_per_step, replay, clock
        self.stream = torch.Generator().manual_seed(int(torch.randint(2**62, ())))
        """Random stream of the learner."""
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="learner")
        self._learner_threads = self._step_threads = 1
        self._due: dict[str, int] = {}
        """Arguments of the update that is due; empty if none is."""
        self._learned_until: int | None = None
        """Steps that the memory had received when the last finished update began."""
        self._overlapped_ns = 0
        self.update_ms: float | None = None
        """Time that the last finished update took on the learner's thread [ms]; ``None`` before the first one."""

    def __enter__(self) -> Self:
        """Do nothing: the thread starts with the first update."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the learner's thread."""
        self._thread.shutdown()

    @property
    def has_learned(self) -> bool:
        """Whether an update has finished in this process."""
        return self._learned_until is not None

    def divide_cores(self, cores: int, learner_threads: int) -> None:
        """Divide the cores between simulation and learner, which compute at the same time.

        The physics has the cores without threads of the learner, and at least one. When the learner has finished, the
        rest of the step has all cores.

        Args:
            cores: Cores of this process.
            learner_threads: Threads of torch for the learner.
        """
        self._learner_threads, self._step_threads = learner_threads, max(1, cores - learner_threads)

    def schedule_update(self, **when: int) -> None:
        """Make an update due, which the next step of the environment brings.

        Args:
            when: Arguments of the update.
        """
        self._due = when

    def with_update(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that takes a step of the environment, and meanwhile makes the update that is due.

        If both fail, it raises the error of the step.

        Args:
            step: Takes a step of all environments.
        """

        @functools.wraps(step)
        def step_and_update(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passes through
            if not self._due:
                return step(*args, **kwargs)
            when, self._due = self._due, {}
            with _at_most_threads(self._step_threads) as lift:
                learning = self._thread.submit(self._learn, when, lift)
                try:
                    stepped = step(*args, **kwargs)
                except BaseException:
                    wait([learning])  # the learner rests before anything else happens
                    raise
                self.finish(learning)
            return stepped

        return step_and_update

    def finish(self, learning: Future[int]) -> None:
        """Wait for the learner; raise its error if it failed.

        Args:
            learning: Its work; the result is how long it took [ns].
        """
        with self._clock.window(Phase.LEARN):
            began_ns = time.perf_counter_ns()
            learned_ns = learning.result()
            waited_ns = time.perf_counter_ns() - began_ns
        self._overlapped_ns += max(0, learned_ns - waited_ns)
        self.update_ms = learned_ns / 1e6

    def take_figures(self) -> dict[str, float]:
        """Return the figures of an iteration, by the names of :data:`ledger_lab.ledger.FIGURES`.

        Call it after the transitions of the last step were stored.
        """
        if self._learned_until is None:
            return {}
        overlapped_s, self._overlapped_ns = self._overlapped_ns / 1e9, 0
        return {
            "overlapped_s": overlapped_s,
            "policy_lag_steps": float(self._replay.added - self._learned_until),
            "policy_lag_updates": float(self._updates_per_step if self._due else 0),
        }

    def state(self) -> dict[str, Any]:
        """Return the state of the learner's stream, and which update is due."""
        return {"stream": self.stream.get_state(), "due": dict(self._due)}

    def restore(self, state: Mapping[str, Any], *, refills: bool) -> None:
        """Load a state.

        Args:
            state: Result of :meth:`state`.
            refills: Whether the replay memory is empty. Then no update is due.
        """
        self.stream.set_state(state["stream"])
        self._due = {} if refills else dict(state["due"])

    def _learn(self, when: Mapping[str, int], lift: Callable[[], None]) -> int:
        """Make an update on the learner's thread; return how long it took [ns].

        Args:
            when: Its arguments.
            lift: Called at its end, so that the rest of the step has all cores.
        """
        began_ns, until = time.perf_counter_ns(), self._replay.added
        with torch_threads(self._learner_threads):
            self._update(**when)
        self._learned_until = until
        lift()
        return time.perf_counter_ns() - began_ns
