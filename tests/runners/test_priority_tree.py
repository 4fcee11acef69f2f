"""A tree of sums draws leaves in proportion to their priorities, however many leaves it has."""

from __future__ import annotations

import pytest
import torch

from ledger_lab.runners.priority_tree import PriorityTree

SIZES = [1, 2, 3, 5, 8, 13, 64, 100]


def filled(leaves: int) -> tuple[PriorityTree, torch.Tensor]:
    """Return a tree with whole numbers, whose sums are exact, and these numbers; some are zero."""
    torch.manual_seed(leaves)
    tree = PriorityTree(leaves, torch.device("cpu"))
    priorities = torch.randint(0, 5, (leaves,)).double()
    priorities[0] = 2.0
    tree.set_range(0, leaves, priorities)
    return tree, priorities


def require_sums(tree: PriorityTree, leaves: int) -> None:
    """Check that every inner node holds the sum of its children."""
    for node in range(1, leaves):
        assert tree._sums[node] == tree._sums[2 * node] + tree._sums[2 * node + 1]


@pytest.mark.parametrize("leaves", SIZES)
def test_every_node_holds_the_sum_of_its_children_after_every_kind_of_change(leaves: int) -> None:
    tree, priorities = filled(leaves)
    require_sums(tree, leaves)
    assert tree._sums[1] == priorities.sum()
    for first in range(0, leaves, 3):
        last = min(leaves, first + 4)
        tree.set_range(first, last, torch.tensor(7.0))
        priorities[first:last] = 7.0
        require_sums(tree, leaves)
    index = torch.randint(leaves, (2 * leaves,))
    tree.set(index, torch.full((2 * leaves,), 3.0))
    priorities[index] = 3.0
    require_sums(tree, leaves)
    assert torch.equal(tree.priorities, priorities) and tree._sums[1] == priorities.sum()


@pytest.mark.parametrize("leaves", SIZES)
def test_draws_are_those_of_a_plain_loop(leaves: int) -> None:
    tree, priorities = filled(leaves)
    order = [node - leaves for node in in_order(leaves)]
    torch.manual_seed(1)
    drawn = tree.draw(40)
    torch.manual_seed(1)
    shares = torch.rand(40, dtype=torch.float64)
    total = float(priorities.sum())
    for place, leaf in enumerate(drawn.tolist()):
        rest = (place + float(shares[place])) / 40 * total
        for candidate in order:
            rest -= float(priorities[candidate])
            if rest < 0:
                break
        assert leaf == candidate


def in_order(leaves: int, node: int = 1) -> list[int]:
    """Return the nodes of the leaves from left to right."""
    return [node] if node >= leaves else [*in_order(leaves, 2 * node), *in_order(leaves, 2 * node + 1)]


def test_leaves_are_drawn_in_proportion_to_their_priorities() -> None:
    tree, priorities = filled(13)
    counts = torch.bincount(tree.draw(13_000), minlength=13).double()
    assert torch.allclose(counts, 13_000 * priorities / priorities.sum(), atol=2.0), "each part of the sum has one draw"


def test_rounding_leads_to_no_leaf_of_priority_zero() -> None:
    tree = PriorityTree(7, torch.device("cpu"))
    tree.set(torch.tensor([2, 5]), torch.tensor([0.1, 1e-17]))
    for _ in range(50):
        assert set(tree.draw(100).tolist()) <= {2, 5}


def test_of_a_leaf_that_is_listed_twice_the_larger_priority_counts() -> None:
    tree = PriorityTree(4, torch.device("cpu"))
    tree.set(torch.tensor([1, 1, 3, 1]), torch.tensor([2.0, 5.0, 1.0, 3.0]))
    assert tree.priorities.tolist() == [0.0, 5.0, 0.0, 1.0] and tree._sums[1] == 6.0
