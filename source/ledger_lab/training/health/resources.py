"""Detectors over time and memory, for problems of long trainings that have nothing to do with learning."""

from __future__ import annotations

import itertools
from statistics import median

from ledger_lab.ledger.meters.phases import TRAINING_PHASES, Phase
from ledger_lab.ledger.rows import Event
from ledger_lab.training.health.detector import Detection, Detector, Iteration, Settings

_STEADY = TRAINING_PHASES - {Phase.CHECKPOINT}
"""Phases that occur in every iteration; checkpoints do not."""


class Slowdown(Detector):
    """Environment steps per second fall, and stay low.

    Compares blocks of iterations by their medians, so another program on the machine is reported only if it runs for
    about a minute. The first iteration warms up caches, and is left out. So are iterations in which a replay memory is
    filled, and not yet used: they have no gradient steps.
    """

    event, patience, calm = Event.SLOWDOWN, 2, 2

    _BLOCK, _BLOCK_S = 10, 30.0
    """Least number of iterations of a block, and least time [s]."""
    _FALL = 1.5
    """Factor of the time in the best block; medians of undisturbed blocks differ by up to a fifth."""
    _MOST, _MORE = 0.6, 1.2
    """A phase is named as the cause if it took at least this share of the lost time, and grew by this factor more than
    the whole: the largest phase has the largest part of any loss."""

    def __init__(self, settings: Settings) -> None:
        """Start without data."""
        super().__init__(settings)
        self._block: list[Iteration] = []
        self._block_ns = 0
        self._warm = False
        self._best: dict[Phase, float] | None = None
        """Time of each phase in the fastest block [ns per environment step]."""

    def look(self, seen: Iteration) -> Detection | None:
        """Examine an iteration."""
        fills = seen.phase_ns.get(Phase.REPLAY_WRITE, 0) and not seen.phase_ns.get(Phase.REPLAY_SAMPLE, 0)
        if not self._warm or fills:
            self._warm = True
            return None
        self._block.append(seen)
        self._block_ns += sum(seen.phase_ns.get(phase, 0) for phase in _STEADY)
        if len(self._block) < self._BLOCK or self._block_ns < self._BLOCK_S * 1e9:
            return None
        steps = max(median(each.env_steps for each in self._block), 1)
        now = {phase: median(each.phase_ns.get(phase, 0) for each in self._block) / steps for phase in _STEADY}
        self._block, self._block_ns = [], 0
        best = self._best or now
        now_ns, best_ns = _whole(now), _whole(best)
        if now_ns <= best_ns:
            self._best = now
        if not self.is_due(now_ns > self._FALL * best_ns):
            return None
        phase = max(now, key=lambda each: now[each] - best[each])
        times = now[phase] / best[phase] if best[phase] > 0 else float("inf")
        most = now[phase] - best[phase] > self._MOST * (now_ns - best_ns) and times > self._MORE * now_ns / best_ns
        cause = f"most of it is {phase}, {times:.1f} times as long as before" if most else "all phases alike"
        grows = f", then for what the phase {phase} keeps from one iteration to the next" if most else ""
        return self.detection(
            f"{1e9 / now_ns:.3g} environment steps per second, against {1e9 / best_ns:.3g} at best; {cause}",
            "look for other programs on the machine, memory that is swapped, and a device that throttles "
            f"(nvidia-smi -q -d CLOCK){grows}",
        )


def _whole(phase_ns: dict[Phase, float]) -> float:
    """Return the time of all phases, which is never 0 [ns]."""
    return max(sum(phase_ns.values()), 1e-9)


class MemoryGrowth(Detector):
    """Memory grows block after block, by about the same amount.

    The memory of a training grows quickly during warm-up, and then more and more slowly; only a leak continues. A fast
    leak shows within a few short blocks. A slow leak is searched in longer blocks, which consist of shorter ones.
    """

    calm = 7

    _BLOCK, _BLOCKS = 20, 7
    """Iterations of the shortest block, and number of blocks to compare; the first block of a training is left out."""
    _LONGER = 4
    """Number of blocks that make one block of the next length."""
    _STEADY = 0.6
    """Smallest growth in the later half of the blocks, as a share of that in the earlier half."""
    _LEAST_BYTES, _LEAST_SHARE = 100e6, 0.05
    """Smallest growth over all blocks that is reported [B]."""

    def __init__(self, event: Event, settings: Settings, max_iterations: int) -> None:
        """Start without data.

        Args:
            event: Growth of the memory of the process, or of its memory on the device.
            settings: Names of the library's settings.
            max_iterations: Iterations of the whole training.
        """
        super().__init__(settings)
        self.event, self._on_host = event, event is Event.HOST_MEMORY_GROWTH
        self._max_iterations = max_iterations
        self._block: list[int] = []
        self._levels: list[float] = []
        """Memory in each of the shortest blocks [B], with the block that is left out."""

    def look(self, seen: Iteration) -> Detection | None:
        """Examine an iteration."""
        held = seen.host_memory_bytes if self._on_host else seen.device_memory_bytes
        if held is None:
            return None
        self._block.append(held)
        if len(self._block) < self._BLOCK:
            return None
        self._levels.append(median(self._block))
        self._block = []
        leak = self._leak()
        if not self.is_due(leak is not None) or leak is None:
            return None
        length, first, last = leak
        passed = (self._BLOCKS - 1) * length * self._BLOCK
        pace = (last - first) / passed
        end = last + pace * max(self._max_iterations - seen.iterations, 0)
        what, where = (
            ("host", "tracemalloc")
            if self.event is Event.HOST_MEMORY_GROWTH
            else ("device", "torch.cuda.memory_snapshot")
        )
        return self.detection(
            f"{what} memory grew from {first / 1e9:.2f} to {last / 1e9:.2f} GB in {passed} iterations, "
            f"{pace / 1e6:.2g} MB each: {end / 1e9:.3g} GB at the end of the budget",
            f"look for terms and loggers that keep tensors or lists ({where} names where they come from); until then "
            "a smaller --max_iterations ends before the memory does",
        )

    def _leak(self) -> tuple[int, float, float] | None:
        """Return the length of the shortest blocks that show a leak, and the memory in the first and last of them."""
        levels, length = self._levels[1:], 1
        while len(levels) >= self._BLOCKS:
            recent = levels[-self._BLOCKS :]
            if self._grows(recent):
                return length, recent[0], recent[-1]
            whole = len(levels) // self._LONGER * self._LONGER
            levels = [median(levels[at : at + self._LONGER]) for at in range(0, whole, self._LONGER)]
            length *= self._LONGER
        return None

    def _grows(self, levels: list[float]) -> bool:
        """Tell whether memory grows in all blocks, without slowing down."""
        first, middle, last = levels[0], levels[len(levels) // 2], levels[-1]
        steady = last - middle >= self._STEADY * (middle - first)
        enough = last - first >= max(self._LEAST_BYTES, self._LEAST_SHARE * first)
        return steady and enough and all(before < after for before, after in itertools.pairwise(levels))
