"""The gradient noise scale, from the norms of gradients before and after they are averaged."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest

from ledger_lab.reports.gradient_noise import gradient_noise_scale
from ledger_lab.studies.scaling.positive_fit import Floats


def norms(scale: float, *, steps: int = 400, processes: int = 4, batch: int = 100) -> tuple[Floats, Floats]:
    """Simulate squared norms of gradients whose true norm is 1 and whose noise scale is known."""
    generator, parameters = np.random.default_rng(3), 50
    true = np.full(parameters, math.sqrt(1 / parameters))
    noise = generator.standard_normal((steps, processes, parameters)) * math.sqrt(scale / batch / parameters)
    gradients = true + noise
    return (gradients**2).sum(axis=2), (gradients.mean(axis=1) ** 2).sum(axis=1)


@pytest.mark.parametrize("scale", [10.0, 1000.0])
def test_the_scale_is_found(scale: float) -> None:
    value, interval = gradient_noise_scale(*norms(scale), 100, block=10)
    low, high = interval or (0, 0)
    assert low < scale < high
    assert value == pytest.approx(scale, rel=0.2)


def test_gradients_without_noise_have_the_scale_zero_and_noise_alone_has_an_infinite_one() -> None:
    assert gradient_noise_scale(np.ones((20, 2)), np.ones(20), 100, block=1)[0] == pytest.approx(0.0)
    assert gradient_noise_scale(np.ones((20, 2)), np.full(20, 0.5), 100, block=1)[0] == math.inf


def test_few_blocks_give_no_interval() -> None:
    assert gradient_noise_scale(*norms(10.0, steps=70), 100, block=10)[1] is None
    assert gradient_noise_scale(*norms(10.0, steps=80), 100, block=10)[1] is not None


def test_the_interval_of_few_blocks_contains_the_scale() -> None:
    generator, missed = np.random.default_rng(5), 0
    for _ in range(500):
        gradients = generator.standard_normal((10, 1, 20)) + generator.standard_normal((10, 2, 20))
        own, average = (gradients**2).sum(axis=2), (gradients.mean(axis=1) ** 2).sum(axis=1)
        low, high = gradient_noise_scale(own, average, 100, block=1)[1] or (0.0, 0.0)
        missed += not low <= 100.0 <= high  # a gradient of 100 samples has as much noise as signal
    assert missed / 500 < 0.07


def test_one_process_is_refused() -> None:
    with pytest.raises(ValueError, match="no two processes to compare"):
        gradient_noise_scale(np.ones((20, 1)), np.ones(20), 100, block=1)


def test_a_long_training_takes_little_memory() -> None:
    generator = np.random.default_rng(4)
    own = 2.0 + 0.1 * generator.standard_normal((20_000, 2))
    tracemalloc.start()
    try:
        value, interval = gradient_noise_scale(own, np.full(20_000, 1.5), 100, block=1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert value == pytest.approx(100.0, rel=0.01) and interval is not None
    assert peak < 100e6
