"""Divides the time of a gradient step of SAC and TD3 into its parts."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.off_policy_learner import Case, Learner, Turns, learner_threads

PARTS = ("sampling", "normalization", "targets", "critics", "actor", "entropy", "soft update", "report")
"""Parts of a gradient step, in their order. ``normalization`` normalizes the observations, and updates their running
mean and variance. ``report`` computes the figures that the library writes to TensorBoard."""

PUBLISHED = {"actor": 0.44, "critics": 0.36, "targets": 0.15, "soft update": 0.042, "entropy": 0.008, "sampling": 0.002}
"""Shares of a gradient step of SAC in rlox, for the pendulum on an Apple CPU
(https://riserally.github.io/rlox/python/profiling-report). We have not repeated the measurement."""


def parts_ms(case: Case, turns: Turns) -> dict[str, float]:
    """Return the median time of each part per gradient step [ms].

    Args:
        case: The learner.
        turns: How much is measured.
    """
    rounds: list[dict[str, float]] = []
    with learner_threads(case, turns.device), tempfile.TemporaryDirectory() as folder:
        learner = Learner.of(case, Path(folder), turns.device)
        learner.run(turns.updates)  # warms up
        for _ in range(turns.rounds):
            marks = PartMarks(learner.synchronize)
            with marks.attached(learner.agent):
                marks.start()
                for _ in range(turns.updates):
                    learner.update()
                marks.begin("report")
            rounds.append({part: 1e3 * spent_s / turns.steps(case) for part, spent_s in marks.spent_s.items()})
            learner.agent.tracking_data.clear()
    medians = {part: statistics.median(each[part] for each in rounds) for part in PARTS}
    return {part: spent_ms for part, spent_ms in medians.items() if spent_ms}


class PartMarks:
    """Divides the time of gradient steps into parts, by the callables that the library calls in turn."""

    def __init__(self, synchronize: Callable[[], None]) -> None:
        """Begin without a part.

        Args:
            synchronize: Waits until the device has finished.
        """
        self._synchronize = synchronize
        self._part, self._began = "report", 0.0
        self.spent_s = dict.fromkeys(PARTS, 0.0)

    def begin(self, part: str) -> None:
        """End a part, and begin the next one."""
        self._synchronize()
        now = time.perf_counter()
        self.spent_s[self._part] += now - self._began
        self._part, self._began = part, now

    def start(self) -> None:
        """Leave out the time until now."""
        self._synchronize()
        self._part, self._began = "report", time.perf_counter()

    @contextmanager
    def attached(self, agent: Any) -> Iterator[None]:  # noqa: ANN401 - the library's own type
        """Mark the parts of the updates inside the context."""
        from ledger_lab.training.runners.recorded_calls import replaced

        models = agent.models
        last_target = models.get("target_policy", agent.target_critic_2)
        has_entropy = hasattr(agent, "entropy_optimizer")
        with ExitStack() as stack:

            def mark(owner: object, name: str, *, before: Mapping[str, str], after: str | None = None) -> None:
                """Let a callable begin a part, depending on the part before, and perhaps another one at its end."""
                function = getattr(owner, name)

                def marked(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passes through
                    if (part := before.get(self._part)) is not None:
                        self.begin(part)
                    result = function(*args, **kwargs)
                    if after is not None:
                        self.begin(after)
                    return result

                stack.enter_context(replaced(owner, **{name: marked}))

            mark(agent.memory, "sample", before=dict.fromkeys(PARTS, "sampling"), after="normalization")
            mark(models.get("target_policy", agent.policy), "act", before={"normalization": "targets"})
            if "target_policy" in models:
                mark(agent.policy, "act", before={"report": "actor"})
            mark(agent.critic_1, "act", before={"targets": "critics"})
            # TD3 does not update its policy in every gradient step.
            mark(agent.critic_optimizer, "step", before={}, after="actor" if has_entropy else "report")
            mark(agent.policy_optimizer, "step", before={}, after="entropy" if has_entropy else "soft update")
            mark(agent.target_critic_1, "update_parameters", before={"entropy": "soft update"})
            mark(last_target, "update_parameters", before={}, after="report")
            yield
