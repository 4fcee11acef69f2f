"""A projected distribution is that of a plain loop, and keeps its mean within the range."""

from __future__ import annotations

import math

import pytest
import torch

from ledger_lab.off_policy.value_distribution import ValueDistribution


def projected(probabilities: list[float], returns: list[float], atoms: list[float]) -> list[float]:
    """Return the projection of one distribution, as Bellemare et al. 2017 define it."""
    gap, result = atoms[1] - atoms[0], [0.0] * len(atoms)
    for probability, value in zip(probabilities, returns, strict=True):
        place = (min(max(value, atoms[0]), atoms[-1]) - atoms[0]) / gap
        lower, upper = math.floor(place), math.ceil(place)
        if lower == upper:
            result[lower] += probability
        else:
            result[lower] += probability * (upper - place)
            result[upper] += probability * (place - lower)
    return result


@pytest.mark.parametrize("atoms", [2, 3, 11, 51])
def test_a_projection_is_that_of_a_plain_loop(atoms: int) -> None:
    torch.manual_seed(atoms)
    distribution = ValueDistribution(-2.0, 3.0, atoms, torch.device("cpu"))
    known = torch.linspace(-2.0, 3.0, atoms)
    assert torch.equal(distribution.returns, known)
    probabilities = torch.softmax(torch.randn(20, atoms), dim=-1)
    moved = torch.cat([0.5 + 0.9 * known.repeat(9, 1), 4.0 * torch.randn(10, atoms), known.unsqueeze(0)])
    found = distribution.project(probabilities, moved)
    for row in range(20):
        expected = projected(probabilities[row].tolist(), moved[row].tolist(), known.tolist())
        assert found[row].tolist() == pytest.approx(expected, abs=1e-5)
    assert torch.allclose(found.sum(dim=-1), torch.ones(20))
    assert torch.allclose(found[19], probabilities[19], atol=1e-5), "returns that stay keep their probabilities"


def test_a_projection_keeps_the_mean_of_returns_within_the_range() -> None:
    distribution = ValueDistribution(-10.0, 10.0, 101, torch.device("cpu"))
    probabilities = torch.softmax(torch.randn(8, 101), dim=-1)
    moved = 0.3 + 0.9 * distribution.returns.repeat(8, 1)
    means = distribution.mean(distribution.project(probabilities, moved))
    assert torch.allclose(means, (probabilities * moved).sum(dim=-1, keepdim=True), atol=1e-5)


def test_returns_outside_the_range_count_as_its_ends() -> None:
    distribution = ValueDistribution(-1.0, 1.0, 3, torch.device("cpu"))
    found = distribution.project(torch.tensor([[0.25, 0.25, 0.5]]), torch.tensor([[-7.0, 9.0, 0.25]]))
    assert found.tolist() == [[0.25, 0.375, 0.375]]
    probabilities = torch.tensor([[0.25, 0.25, 0.5], [0.5, 0.25, 0.25]])
    returns = torch.tensor([[-7.0, 9.0, 0.25], [-1.0, 0.0, 1.0]])
    assert float(distribution.share_beyond(probabilities, returns)) == 0.25


def test_a_nan_return_makes_the_distribution_nan() -> None:
    distribution = ValueDistribution(-1.0, 1.0, 3, torch.device("cpu"))
    even, nan, infinite = [0.25, 0.5, 0.25], float("nan"), float("inf")
    moved = torch.tensor([[nan] * 3, [-1.0, 0.0, 1.0], [infinite] * 3])
    found = distribution.project(torch.tensor([even, even, even]), moved)
    assert found[0].isnan().any() and found[1].tolist() == even and found[2].tolist() == [0.0, 0.0, 1.0]
