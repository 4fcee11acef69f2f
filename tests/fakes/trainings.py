"""Trainings as streams of figures, for the detectors of health: without a simulation, and with noise."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace

from ledger_lab.ledger import PanelResult
from ledger_lab.training.health import Detection, Event, HealthMonitor, Iteration, Settings
from tests.fakes.ledgers import outcomes, result

MB = 1_000_000
BUDGET = 400
SETTINGS = Settings({"learning_rate": "agent.algorithm.learning_rate", "entropy_coef": "agent.algorithm.entropy_coef"})


def healthy(iterations: int = BUDGET, first: int = 1, seed: int = 0) -> Iterator[Iteration]:
    """Yield a training that goes well: the return rises, the loss falls by a thousand, the noise to a tenth."""
    chance = random.Random(seed)
    for n in range(first, first + iterations):
        learned = 1 / (1 + math.exp(-(n - 80) / 15))
        noisy = lambda value, by=0.3: value * math.exp(chance.gauss(0, by))  # noqa: E731
        yield Iteration(
            iterations=n,
            env_steps=8192,
            figures={
                "value_loss": noisy(0.3 * math.exp(-5 * learned), 0.8),
                "policy_loss": chance.gauss(0, 0.01),
                "entropy": 1.42 + math.log(0.1) * learned,
                "action_std": noisy(0.1**learned, 0.02),
                "kl": noisy(0.01, 0.5),
                "grad_norm": noisy(0.5, 0.6),
                "learning_rate": 10 ** chance.uniform(-5, -2),
                "mean_return": -3 + 8 * learned + chance.gauss(0, 0.1),
                "mean_episode_steps": 300 * learned,
            },
            phase_ns={
                "simulate": round(noisy(2.0e9, 0.1)),
                "manage": round(noisy(0.5e9, 0.1)),
                "learn": round(noisy(1.0e9, 0.1)),
                "checkpoint": 10**10 if n % 50 == 0 else 0,
                "evaluate": round(noisy(1e9, 1.0)),
            },
            host_memory_bytes=round(2000 * MB + 500 * MB * (1 - math.exp(-n / 60)) + chance.gauss(0, MB)),
            device_memory_bytes=round(4000 * MB + chance.uniform(0, 50) * MB),
        )


def monitor(budget: int = BUDGET, target: float = 0.9) -> HealthMonitor:
    """Return a monitor that knows the names of two settings."""
    return HealthMonitor(budget, target, SETTINGS)


def detections(stream: Iterator[Iteration], watch: HealthMonitor | None = None) -> list[tuple[int, Detection]]:
    """Return what is told of a stream, with the iterations at which it is told."""
    watch = watch or monitor()
    return [(seen.iterations, found) for seen in stream for found in watch.on_iteration(seen)]


def told(stream: Iterator[Iteration]) -> list[tuple[int, Event]]:
    """Return which events are told of a stream, and when."""
    return [(when, found.event) for when, found in detections(stream)]


def check(successes: int, episodes: int = 256) -> PanelResult:
    """Return the check of some checkpoint."""
    return replace(result("aa", "model.pt", 1, purpose="check"), outcomes=outcomes(successes, episodes))
