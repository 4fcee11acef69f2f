"""Held-out episodes repeat bit for bit although bodies hit the ground: the ant, on MuJoCo-Warp."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from ledger_lab.panels import load_panel
from tests.fakes.held_out import WARP, Trial, runtime, task_cfg

PANEL = replace(load_panel("ant_v1"), seeds=tuple(range(9)), episode_length_s=1.0)


def _random_network(seed: int) -> Any:
    """Return a policy that does something, always the same."""
    numbers = torch.Generator().manual_seed(seed)
    layers: list[torch.Tensor] = []

    def act(observations: Any) -> torch.Tensor:
        seen = observations["policy"]
        if not layers:
            layers.extend(
                torch.randn(*shape, generator=numbers) / shape[0] ** 0.5 for shape in ((seen.shape[1], 64), (64, 8))
            )
        return torch.tanh(torch.tanh(seen @ layers[0]) @ layers[1])

    return act


TRIAL = Trial(PANEL, _random_network(1), _random_network(2), lambda: task_cfg("LedgerLab-Ant", WARP))


_runtime = runtime("LedgerLab-Ant", WARP)


def test_company_does_not_change_episodes() -> None:
    alone = TRIAL.alone()
    assert len(set(alone.fingerprint)) == len(PANEL.seeds)
    assert TRIAL.in_company(1) == alone
