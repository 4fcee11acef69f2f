"""Predicts the speed of the physics by MuJoCo's C code on machines with more cores, by a simulation of the threads.

A run with one thread measures the time of each part of the physics: what only one thread can do, the steps of the
single environments, and the kernels whose items the threads share. The simulation hands blocks of environments to
threads, as the solver does: a thread that is ready takes the next block.

It leaves out that cores share caches and memory, and may run more slowly if all are busy.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence
from dataclasses import dataclass

from ledger_lab.mujoco_cpu.step import block_size

HANDOVER_US = 20.0
"""Time until all threads have a task, and until its end is known [us]; assumed."""


@dataclass(frozen=True)
class Physics:
    """The physics of an environment step, measured with one thread. Times are processor time [us]."""

    worlds: int
    whole_us: float
    """All of the physics."""
    divisible_us: float
    """The part of ``whole_us`` that several threads can share."""
    mujoco_us: float
    """The part of ``divisible_us`` in which MuJoCo steps single environments."""
    tasks: float
    """How often the threads are given work."""
    steps: int
    """How often each environment is stepped by MuJoCo."""
    world_us: Sequence[float]
    """Times of such a step: quantiles of equal probability."""

    @property
    def serial_share(self) -> float:
        """Share of the time that only one thread can work."""
        return 1.0 - self.divisible_us / self.whole_us

    def most(self, threads: int) -> float:
        """Return the largest possible speed-up: Amdahl's law.

        Args:
            threads: Number of threads.
        """
        return 1.0 / (self.serial_share + (1.0 - self.serial_share) / threads)

    def simulated(self, threads: int, seed: int = 0) -> float:
        """Return the simulated speed-up, with blocks of environments and handing over.

        Args:
            threads: Number of threads.
            seed: Of the drawn times.
        """
        drawn = random.Random(seed)
        scale = self.mujoco_us / (self.steps * self.worlds * sum(self.world_us) / len(self.world_us))
        block = block_size(self.worlds, threads)
        us = self.whole_us - self.divisible_us + (self.divisible_us - self.mujoco_us) / threads
        us += self.tasks * HANDOVER_US
        for _ in range(self.steps):
            times = [scale * drawn.choice(self.world_us) for _ in range(self.worlds)]
            ready = [0.0] * threads
            for first in range(0, self.worlds, block):
                heapq.heapreplace(ready, ready[0] + sum(times[first : first + block]))
            us += max(ready)
        return self.whole_us / us
