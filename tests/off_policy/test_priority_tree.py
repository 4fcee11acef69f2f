"""A tree of sums draws leaves in proportion to their priorities, however many leaves it has."""

from __future__ import annotations

import pytest
import torch

from ledger_lab.off_policy.priority_tree import PriorityTree

SIZES = [1, 2, 31, 32, 33, 64, 200]


def filled(leaves: int) -> tuple[PriorityTree, torch.Tensor]:
    """Return a tree with whole numbers, whose sums are exact, and these numbers; some are zero."""
    torch.manual_seed(leaves)
    tree = PriorityTree(leaves, torch.device("cpu"))
    priorities = torch.randint(0, 5, (leaves,)).double()
    priorities[0] = 2.0
    tree.set_range(0, leaves, priorities)
    return tree, priorities


def require_sums(tree: PriorityTree) -> None:
    """Check that every sum is that of the leaves below it, as if they were set together."""
    assert torch.equal(tree._sums, tree._blocks.sum(dim=1))


@pytest.mark.parametrize("leaves", SIZES)
def test_every_sum_is_right_after_every_kind_of_change(leaves: int) -> None:
    tree, priorities = filled(leaves)
    require_sums(tree)
    assert tree._sums.sum() == priorities.sum()
    for first in range(0, leaves, 50):
        last = min(leaves, first + 70)
        tree.set_range(first, last, torch.tensor(7.0))
        priorities[first:last] = 7.0
        require_sums(tree)
    index = torch.randint(leaves, (2 * leaves,))
    tree.set(index, torch.full((2 * leaves,), 3.0))
    priorities[index] = 3.0
    require_sums(tree)
    assert torch.equal(tree.priorities, priorities) and tree._sums.sum() == priorities.sum()


@pytest.mark.parametrize("leaves", SIZES)
def test_draws_are_those_of_a_plain_loop(leaves: int) -> None:
    tree, priorities = filled(leaves)
    torch.manual_seed(1)
    drawn = tree.draw(40)
    torch.manual_seed(1)
    shares = torch.rand(40, dtype=torch.float64)
    total = float(priorities.sum())
    for place, leaf in enumerate(drawn.tolist()):
        rest = (place + float(shares[place])) / 40 * total
        for candidate in range(leaves):
            rest -= float(priorities[candidate])
            if rest < 0:
                break
        assert leaf == candidate


def test_leaves_are_drawn_in_proportion_to_their_priorities() -> None:
    tree, priorities = filled(130)
    counts = torch.bincount(tree.draw(13_000), minlength=130).double()
    assert torch.allclose(counts, 13_000 * priorities / priorities.sum(), atol=2.0), "each part of the sum has one draw"


def test_rounding_leads_to_no_leaf_of_priority_zero() -> None:
    tree = PriorityTree(400, torch.device("cpu"))
    some = torch.arange(3, 390, 7)
    for scale in (1e-17, 0.1, 1e17):
        tree.set(some, scale * torch.rand(len(some)))
        for _ in range(50):
            assert set(tree.draw(100).tolist()) <= set(some.tolist())


def test_a_share_of_the_whole_sum_leads_to_the_last_leaf(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = PriorityTree(200, torch.device("cpu"))
    tree.set(torch.tensor([2, 70]), torch.tensor([0.1, 0.3]))
    monkeypatch.setattr(torch, "rand", lambda count, **_: torch.ones(count, dtype=torch.float64))
    assert tree.draw(1).tolist() == [70]


def test_sums_of_changed_leaves_equal_those_of_all_leaves_bit_for_bit() -> None:
    tree = PriorityTree(1000, torch.device("cpu"))
    for _ in range(20):
        index = torch.randint(1000, (30,))
        tree.set(index, torch.rand(30))
    restored = PriorityTree(1000, torch.device("cpu"))
    restored.set_range(0, 1000, tree.priorities.clone())
    assert torch.equal(tree._sums, restored._sums)


def test_of_a_leaf_that_is_listed_twice_the_larger_priority_counts() -> None:
    tree = PriorityTree(4, torch.device("cpu"))
    tree.set(torch.tensor([1, 1, 3, 1]), torch.tensor([2.0, 5.0, 1.0, 3.0]))
    assert tree.priorities.tolist() == [0.0, 5.0, 0.0, 1.0] and float(tree._sums.sum()) == 6.0
