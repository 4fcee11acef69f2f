"""Held-out episodes that are divided among several processes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ledger_lab.errors import UserError
from ledger_lab.panels import Cell, load_panel
from ledger_lab.training.ranks import merged, require_divisible, share_of
from tests.fakes.ledgers import outcomes


def test_the_shares_of_all_processes_form_the_panel() -> None:
    two_cells = replace(load_panel("cartpole_v1"), seeds=tuple(range(8)), cells=(Cell("a"), Cell("b")))
    for panel in (two_cells, two_cells.confirmation("aaaaaaaa", 1)):
        shares = [share_of(panel, rank, 4) for rank in range(4)]
        episodes = [episode for share in shares for episode in share.episodes]
        assert sorted(episodes) == sorted(panel.episodes)
        assert {len(share.episodes) for share in shares} == {4}
        assert all([cell for cell, _ in share.episodes] == ["a", "a", "b", "b"] for share in shares)
        columns = [
            replace(
                outcomes(rank, 4),
                cell=[cell for cell, _ in share.episodes],
                seed=[seed for _, seed in share.episodes],
                steps=[100 * seed for _, seed in share.episodes],
            )
            for rank, share in enumerate(shares)
        ]
        whole = merged(columns, panel.episodes)
        assert list(zip(whole.cell, whole.seed, strict=True)) == list(panel.episodes)
        assert whole.steps == [100 * seed for seed in whole.seed]
        assert whole.successes == 0 + 1 + 2 + 3
    assert share_of(two_cells, 0, 1) == two_cells


def test_seeds_that_cannot_be_divided_are_refused_with_numbers_that_work() -> None:
    panel = load_panel("cartpole_v1")
    require_divisible(panel, 4)
    complaint = "panel cartpole_v1: its 256 seeds do not split over 3 processes: start 2 or 4, or train with --no_eval"
    with pytest.raises(UserError, match=complaint):
        require_divisible(panel, 3)
    with pytest.raises(UserError, match="start 256, or train"):
        require_divisible(panel, 300)
