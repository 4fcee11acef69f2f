"""Chains of runs and chosen panels stay within one error budget."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.error_budget import CHAINS, CHOICES, examine_branches, examine_chain, examine_sizes
from ledger_lab.ledger.costs.few_runs import lower_bound
from ledger_lab.panels.verdict import VerdictRule

RULE = VerdictRule(0.9)
CUT = "panels cut after their outcomes are seen"


def exceeds(count: int, of: int) -> bool:
    """Tell whether more runs passed than the error budget allows, beyond chance."""
    return lower_bound(count, of, 0.9999) > RULE.error_budget


@pytest.mark.parametrize("same_outcomes", [False, True])
@pytest.mark.parametrize("policies", CHAINS)
def test_a_chain_of_runs_passes_below_the_target_no_more_often_than_one_run_may(
    policies: str, same_outcomes: bool
) -> None:
    found = examine_chain(policies, 3, 10, same_outcomes, RULE, 1000, np.random.default_rng(7))
    assert not exceeds(found.false_passes, found.chains)


def test_with_new_budgets_a_chain_would_exceed_its_own() -> None:
    found = examine_chain("stays just below", 3, 10, False, RULE, 2000, np.random.default_rng(7))
    assert exceeds(found.false_passes_with_new_budgets, found.chains) and not exceeds(found.false_passes, found.chains)


def test_branches_are_within_the_bound_for_all_their_runs() -> None:
    found = examine_branches(RULE, 2000, np.random.default_rng(7))
    assert RULE.error_budget < found.bound < RULE.error_budget * (1 + found.branches)
    assert lower_bound(found.false_passes, found.trees, 0.9999) <= found.bound


@pytest.mark.parametrize("choice", CHOICES)
def test_sizes_that_are_chosen_before_outcomes_are_known_do_not_matter(choice: str) -> None:
    found = examine_sizes(choice, RULE, 1000, np.random.default_rng(7))
    assert exceeds(found.false_passes, found.runs) == (choice == CUT)
