"""Detectors over time and memory: what gets worse because a training is long, not because it learns badly."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field
from statistics import median

from ledger_lab.meters.health.events import Event, Finding
from ledger_lab.meters.health.seen import Iteration, Spell
from ledger_lab.meters.phases import TRAINING_PHASES, Phase


class Slowdown:
    """Environment steps per second fall, and stay low.

    Compares blocks of at least :attr:`_BLOCK` iterations and :attr:`_BLOCK_S` seconds by their medians, so that a
    neighbour on the machine has to stay for a minute before it is mentioned.
    """

    _BLOCK, _BLOCK_S = 10, 30.0
    _FALL = 1.5
    """Times as long as in the best block; medians of undisturbed blocks differ by up to a fifth."""
    _STEADY = TRAINING_PHASES - {Phase.CHECKPOINT}
    """Phases of every iteration: checkpoints come and go."""

    def __init__(self) -> None:
        """Begin with nothing seen. The first iteration warms caches up, and is left out."""
        self._spell = Spell(patience=2, calm=2)
        self._first = True
        self._block: list[Iteration] = []
        self._block_ns = 0
        self._best: _Block | None = None

    def look(self, seen: Iteration) -> Finding | None:
        """Take an iteration."""
        if self._first:
            self._first = False
            return None
        self._block.append(seen)
        self._block_ns += sum(seen.phase_ns.get(phase, 0) for phase in self._STEADY)
        if len(self._block) < self._BLOCK or self._block_ns < self._BLOCK_S * 1e9:
            return None
        block = _Block(self._block, self._STEADY)
        self._block, self._block_ns = [], 0
        best = self._best
        if best is None or block.step_ns < best.step_ns:
            self._best = block
        if not self._spell.begins(best is not None and block.step_ns > self._FALL * best.step_ns):
            return None
        assert best is not None
        return Finding(
            Event.SLOWDOWN,
            f"{1e9 / block.step_ns:.3g} environment steps per second, against {1e9 / best.step_ns:.3g} at best; "
            f"{self._cause(block, best)}",
            self._advice(block, best),
        )

    @staticmethod
    def _cause(block: _Block, best: _Block) -> str:
        """Return where the time went."""
        phase, times = block.grown(best)
        if phase is None:
            return "all phases alike"
        return f"most of it is {phase}, {times:.1f} times as long as before"

    @staticmethod
    def _advice(block: _Block, best: _Block) -> str:
        """Return what to look at, by the phase that grew."""
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
        if phase == Phase.LOG:
            return "look for metrics that grow with the training, and at the disk that the logs go to"
        return f"look at what the phase {phase} keeps from one iteration to the next"


class _Block:
    """Some iterations by their medians."""

    _MOST = 0.6
    """Least share of the lost time for which a phase is named."""

    def __init__(self, iterations: list[Iteration], phases: frozenset[Phase]) -> None:
        """Summarize.

        Args:
            iterations: At least one.
            phases: Phases to look at.
        """
        steps = median(each.env_steps for each in iterations)
        self.phase_ns = {
            phase: median(each.phase_ns.get(phase, 0) for each in iterations) / max(steps, 1) for phase in phases
        }
        """Nanoseconds per environment step."""
        self.step_ns = max(
            median(sum(each.phase_ns.get(phase, 0) for phase in phases) for each in iterations) / max(steps, 1), 1e-9
        )

    def grown(self, best: _Block) -> tuple[Phase | None, float]:
        """Find the phase that most of the lost time went into.

        Args:
            best: The block to compare with.

        Returns:
            The phase and its growth; ``None`` and the growth of the whole where no phase stands out.
        """
        lost = Counter({phase: ns - best.phase_ns[phase] for phase, ns in self.phase_ns.items()})
        (phase, most), *_ = lost.most_common(1)
        times = self.phase_ns[phase] / best.phase_ns[phase] if best.phase_ns[phase] > 0 else float("inf")
        whole = self.step_ns / best.step_ns
        # The largest phase takes the largest part of any loss: it is to blame only if it grew more than the others did.
        if most > self._MOST * (self.step_ns - best.step_ns) and times > 1.2 * whole:
            return phase, times
        return None, whole


class MemoryGrowth:
    """Memory grows, block after block, by about as much each time.

    What a training allocates as it warms up grows fast and then ever slower; only a leak goes on. A fast one shows
    within a few short blocks. A slow one is looked for in longer ones, which are made of the shorter.
    """

    _BLOCK, _BLOCKS = 20, 7
    """Iterations of the shortest block, and blocks to look at; the first block of a training is left out."""
    _LONGER = 4
    """Blocks that make one of the next length."""
    _STEADY = 0.6
    """Least growth in the later half of the blocks, for each unit in the earlier one."""
    _LEAST_BYTES, _LEAST_SHARE = 100e6, 0.05
    """Least growth over all blocks that is worth a word."""

    def __init__(self, event: Event, max_iterations: int) -> None:
        """Begin with nothing seen.

        Args:
            event: Host or device memory.
            max_iterations: Iterations of the whole training.
        """
        self._event, self._max_iterations = event, max_iterations
        self._block: list[int] = []
        self._scales: list[_Scale] = []
        self._warm = False

    def look(self, seen: Iteration) -> Finding | None:
        """Take an iteration."""
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
        return Finding(
            self._event,
            f"{what} memory grew from {first / 1e9:.2f} to {last / 1e9:.2f} GB in {passed} iterations, "
            f"{pace / 1e6:.2g} MB each: {end / 1e9:.3g} GB at the end of the budget",
            f"look for terms and loggers that keep tensors or lists ({where} names where they come from); until then "
            "a smaller --max_iterations ends before the memory does",
        )

    def _add(self, level: float, place: int) -> _Scale | None:
        """Take a block's level on one scale, and pass it on to the longer ones.

        Returns:
            The scale that shows a leak which is to be told now.
        """
        if place == len(self._scales):
            iterations = self._BLOCK * self._LONGER**place
            self._scales.append(_Scale(iterations, Spell(patience=1, calm=self._BLOCKS)))
        scale = self._scales[place]
        scale.levels = [*scale.levels[1 - self._BLOCKS :], level]
        scale.blocks += 1
        known = any(each.spell.told for each in self._scales)  # longer blocks show the same leak, only later
        found = scale if scale.spell.begins(self._leaks(scale.levels)) and not known else None
        if scale.blocks % self._LONGER == 0:
            found = self._add(median(scale.levels[-self._LONGER :]), place + 1) or found
        return found

    def _leaks(self, levels: list[float]) -> bool:
        """Tell whether all blocks rise, at a pace that doesn't slow down."""
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
    spell: Spell
    levels: list[float] = field(default_factory=list)
    """Of the newest blocks."""
    blocks: int = 0
    """Blocks so far."""
