"""Detectors over time and memory, for problems of long trainings that have nothing to do with learning."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field
from statistics import median

from ledger_lab.ledger.health import Event
from ledger_lab.ledger.meters.phases import TRAINING_PHASES, Phase
from ledger_lab.training.health.events import Detection, Settings
from ledger_lab.training.health.iteration import Debounce, Iteration

_REPLAY = frozenset({Phase.REPLAY_WRITE, Phase.REPLAY_SAMPLE})
"""Phases of the replay memory."""

_STEADY = TRAINING_PHASES - {Phase.CHECKPOINT}
"""Phases that occur in every iteration; checkpoints do not."""

_MORE = 1.2
"""A phase is the cause of a loss only if it grew by this factor more than the whole."""


class Slowdown:
    """Environment steps per second fall, and stay low; or the replay memory gets slower while it fills.

    Compares blocks of iterations by their medians, so another program on the machine is reported only if it runs for
    about a minute.
    """

    _FALL = 1.5
    """Factor of the time in the best block; medians of undisturbed blocks differ by up to a fifth."""

    def __init__(self, settings: Settings) -> None:
        """Start without data.

        Args:
            settings: Names of the library's settings, for the advice.
        """
        self._settings = settings
        self._steps, self._replay = Debounce(patience=2, calm=2), Debounce(patience=2, calm=2)
        self._blocks, self._fastest = _Blocks(), _FastestReplay()
        self._best: _Block | None = None

    def look(self, seen: Iteration) -> Detection | None:
        """Examine an iteration."""
        if (block := self._blocks.add(seen)) is None:
            return None
        best, fast = self._best, self._fastest.when_emptier(block)
        if best is None or block.step_ns < best.step_ns:
            self._best = block
        falls = best is not None and fast is None and block.step_ns > self._FALL * best.step_ns
        report_steps, report_replay = self._steps.should_report(falls), self._replay.should_report(fast is not None)
        if report_replay:
            assert fast is not None
            return self._of_replay(block, fast)
        if not report_steps:
            return None
        assert best is not None
        return Detection(
            Event.SLOWDOWN,
            f"{1e9 / block.step_ns:.3g} environment steps per second, against {1e9 / best.step_ns:.3g} at best; "
            f"{self._cause(block, best)}",
            self._advice(block, best),
        )

    def _of_replay(self, block: _Block, fast: _Block) -> Detection:
        """Return that the replay memory has become slower."""
        assert block.fill is not None and fast.fill is not None
        return Detection(
            Event.REPLAY_SLOWDOWN,
            f"the phases replay_write and replay_sample take {block.replay_ns / fast.replay_ns:.1f} times as long with "
            f"a replay memory that is {block.fill:.0%} full as with {fast.fill:.0%}: "
            f"{block.replay_ns / block.step_ns:.0%} of the time of a step, against "
            f"{fast.replay_ns / fast.step_ns:.0%}",
            "look whether the system swaps memory; if so, or if the updates stay slow, hold fewer steps: lower "
            f"{self._settings['replay_steps']}",
        )

    @staticmethod
    def _cause(block: _Block, best: _Block) -> str:
        """Return the phase that takes more time, in words."""
        phase, times = block.grown(best)
        if phase is None:
            return "all phases alike"
        return f"most of it is {phase}, {times:.1f} times as long as before"

    @staticmethod
    def _advice(block: _Block, best: _Block) -> str:
        """Return advice for the phase that takes more time."""
        phase, _ = block.grown(best)
        if phase is None:
            return "look for other programs on the machine, and for a device that throttles (nvidia-smi -q -d CLOCK)"
        if phase in (Phase.SIMULATE, Phase.MANAGE):
            return (
                "look for terms that keep what they computed, and for contacts that pile up as the policy moves; with "
                "fewer env.scene.num_envs the step is shorter"
            )
        if phase in (Phase.INFER, Phase.LEARN):
            return (
                "look for other programs on the machine (on a CPU, one thread of the learner that has to wait holds up "
                "all others), then for a buffer that grows"
            )
        if phase in _REPLAY:
            return "look for other programs that use the memory of the machine, so that the replay memory is swapped"
        if phase == Phase.LOG:
            return "look for metrics that grow with the training, and at the disk that the logs go to"
        return f"look at what the phase {phase} keeps from one iteration to the next"


class _FastestReplay:
    """The block with the fastest replay memory.

    A memory that is larger than the caches of a processor is slower than a small one, which hardly matters beside the
    gradient steps. A memory that the system begins to swap makes a training many times slower.
    """

    _GROWTH = 1.5
    """Factor of the time in the fastest block."""
    _LOST = 0.1
    """Smallest growth that counts, as a share of the time of a whole step then."""

    def __init__(self) -> None:
        """Start without data."""
        self._fastest: _Block | None = None
        self._fast_fill = 0.0
        """Largest filled share of the memory with which it was not slow."""

    def when_emptier(self, block: _Block) -> _Block | None:
        """Add a block; return the fastest block if the memory was emptier then, and is much slower now."""
        if block.fill is None or not block.replay_ns:  # trainers of others may report one without the other
            return None
        if self._fastest is None or block.replay_ns < self._fastest.replay_ns:
            self._fastest = block
        fastest = self._fastest
        times, whole = block.replay_ns / fastest.replay_ns, block.step_ns / fastest.step_ns
        lost_ns = block.replay_ns - fastest.replay_ns
        if times > max(self._GROWTH, _MORE * whole) and lost_ns > self._LOST * fastest.step_ns:
            return fastest if block.fill > self._fast_fill else None
        self._fast_fill = max(self._fast_fill, block.fill)
        return None


class _Blocks:
    """Divides a training into blocks of at least :attr:`_BLOCK` iterations and :attr:`_BLOCK_S` seconds.

    The first iteration warms up caches, and is left out. So are iterations in which a replay memory is filled, and not
    yet used: they have no gradient steps.
    """

    _BLOCK, _BLOCK_S = 10, 30.0

    def __init__(self) -> None:
        """Start without data."""
        self._first = True
        self._block: list[Iteration] = []
        self._block_ns = 0

    def add(self, seen: Iteration) -> _Block | None:
        """Add an iteration; return the block that it completes."""
        uses = seen.phase_ns.get(Phase.REPLAY_SAMPLE, 0) or "overlapped_s" in seen.figures
        fills = seen.phase_ns.get(Phase.REPLAY_WRITE, 0) and not uses
        if self._first or fills:
            self._first = False
            return None
        self._block.append(seen)
        self._block_ns += sum(seen.phase_ns.get(phase, 0) for phase in _STEADY)
        if len(self._block) < self._BLOCK or self._block_ns < self._BLOCK_S * 1e9:
            return None
        block = _Block(self._block)
        self._block, self._block_ns = [], 0
        return block


class _Block:
    """Medians over a block of iterations."""

    _MOST = 0.6
    """A phase is named if it took at least this share of the lost time."""

    def __init__(self, iterations: list[Iteration]) -> None:
        """Summarize.

        Args:
            iterations: At least one.
        """
        steps = max(median(each.env_steps for each in iterations), 1)
        self.phase_ns = {phase: median(each.phase_ns.get(phase, 0) for each in iterations) / steps for phase in _STEADY}
        """Nanoseconds per environment step."""
        self.step_ns = max(
            median(sum(each.phase_ns.get(phase, 0) for phase in _STEADY) for each in iterations) / steps, 1e-9
        )
        self.replay_ns = sum(self.phase_ns[phase] for phase in _REPLAY)
        """Nanoseconds of the replay memory per environment step."""
        fills = [each.figures["replay_fill"] for each in iterations if "replay_fill" in each.figures]
        self.fill = median(fills) if fills else None
        """Share of the replay memory that is filled; ``None`` without one."""

    def grown(self, best: _Block) -> tuple[Phase | None, float]:
        """Return the phase with most of the lost time.

        Args:
            best: The block to compare with.

        Returns:
            The phase and its growth; ``None`` and the growth of the whole time if no phase stands out.
        """
        lost = Counter({phase: ns - best.phase_ns[phase] for phase, ns in self.phase_ns.items()})
        (phase, most), *_ = lost.most_common(1)
        times = self.phase_ns[phase] / best.phase_ns[phase] if best.phase_ns[phase] > 0 else float("inf")
        whole = self.step_ns / best.step_ns
        # The largest phase has the largest part of any loss; it is the cause only if it grew more than the others.
        if most > self._MOST * (self.step_ns - best.step_ns) and times > _MORE * whole:
            return phase, times
        return None, whole


class MemoryGrowth:
    """Memory grows block after block, by about the same amount.

    The memory of a training grows quickly during warm-up, and then more and more slowly; only a leak continues. A fast
    leak shows within a few short blocks. A slow leak is searched in longer blocks, which consist of shorter ones.
    """

    _BLOCK, _BLOCKS = 20, 7
    """Iterations of the shortest block, and number of blocks to compare; the first block of a training is left out."""
    _LONGER = 4
    """Number of blocks that make one block of the next length."""
    _STEADY = 0.6
    """Smallest growth in the later half of the blocks, as a share of that in the earlier half."""
    _LEAST_BYTES, _LEAST_SHARE = 100e6, 0.05
    """Smallest growth over all blocks that is reported [B]."""

    def __init__(self, event: Event, max_iterations: int) -> None:
        """Start without data.

        Args:
            event: Host or device memory.
            max_iterations: Iterations of the whole training.
        """
        self._event, self._max_iterations = event, max_iterations
        self._block: list[int] = []
        self._scales: list[_Scale] = []
        self._warm = False

    def look(self, seen: Iteration) -> Detection | None:
        """Examine an iteration."""
        on_host = self._event is Event.HOST_MEMORY_GROWTH
        held = seen.host_memory_bytes if on_host else seen.device_memory_bytes
        if held is None:
            return None
        self._block.append(held)
        if len(self._block) < self._BLOCK:
            return None
        level, self._block = median(self._block), []
        if not self._warm:
            self._warm = True
            return None
        scale = self._add(level, 0)
        if scale is None:
            return None
        first, last = scale.levels[0], scale.levels[-1]
        passed = (self._BLOCKS - 1) * scale.iterations
        pace = (last - first) / passed
        end = last + pace * max(self._max_iterations - seen.iterations, 0)
        what, where = ("host", "tracemalloc") if on_host else ("device", "torch.cuda.memory_snapshot")
        return Detection(
            self._event,
            f"{what} memory grew from {first / 1e9:.2f} to {last / 1e9:.2f} GB in {passed} iterations, "
            f"{pace / 1e6:.2g} MB each: {end / 1e9:.3g} GB at the end of the budget",
            f"look for terms and loggers that keep tensors or lists ({where} names where they come from); until then "
            "a smaller --max_iterations ends before the memory does",
        )

    def _add(self, level: float, place: int) -> _Scale | None:
        """Add the memory of a block on one scale, and pass it on to the longer scales.

        Returns:
            The scale that shows a leak to report now; ``None`` if there is none.
        """
        if place == len(self._scales):
            iterations = self._BLOCK * self._LONGER**place
            self._scales.append(_Scale(iterations, Debounce(patience=1, calm=self._BLOCKS)))
        scale = self._scales[place]
        scale.levels = [*scale.levels[1 - self._BLOCKS :], level]
        scale.blocks += 1
        known = any(each.debounce.reported for each in self._scales)  # longer blocks would show the same leak later
        found = scale if scale.debounce.should_report(self._leaks(scale.levels)) and not known else None
        if scale.blocks % self._LONGER == 0:
            found = self._add(median(scale.levels[-self._LONGER :]), place + 1) or found
        return found

    def _leaks(self, levels: list[float]) -> bool:
        """Tell whether memory grows in all blocks, without slowing down."""
        if len(levels) < self._BLOCKS or any(after <= before for before, after in itertools.pairwise(levels)):
            return False
        first, middle, last = levels[0], levels[self._BLOCKS // 2], levels[-1]
        steady = last - middle >= self._STEADY * (middle - first)
        return steady and last - first >= max(self._LEAST_BYTES, self._LEAST_SHARE * first)


@dataclass
class _Scale:
    """Memory in blocks of one length."""

    iterations: int
    """Iterations per block."""
    debounce: Debounce
    levels: list[float] = field(default_factory=list)
    """Memory of the newest blocks [B]."""
    blocks: int = 0
    """Number of blocks so far."""
