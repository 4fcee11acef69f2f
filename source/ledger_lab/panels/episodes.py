"""What becomes of held-out episodes: one per slot, each counted once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from ledger_lab.ledger import CAPACITY, HORIZON, NON_FINITE, Outcomes
from ledger_lab.panels.panel import Panel
from ledger_lab.panels.predicate import checked_success

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

_RUNNING, _AT_HORIZON, _BROKEN, _OVERFLOWED = -1, -2, -3, -4
_PRIME = 1_099_511_628_211


class EpisodeLog:
    """Follows one episode per held-out slot, from inside ``env.step``.

    It looks between the terminations and the resets of each step, where the state that decides is still there.
    """

    def __init__(self, env: ManagerBasedRLEnv, panel: Panel, first: int) -> None:
        """Begin with no episode running.

        Args:
            env: The environment.
            panel: The panel.
            first: The first held-out slot; all slots after it are held out, too.

        Raises:
            UserError: If the success function doesn't do what a success function does.
        """
        self._base = base = env.unwrapped
        self._panel, self._first = panel, first
        self._success = checked_success(panel, env)
        self._terms = base.termination_manager.active_terms
        self.horizon = round(panel.episode_length_s / base.step_dt)
        self._hold_steps = max(1, round(panel.hold_s / base.step_dt))
        self._held_out = slice(first, base.num_envs)
        self._ended = torch.empty(base.num_envs - first, dtype=torch.long, device=base.device)
        self.restart(0)

    def restart(self, slots: int) -> None:
        """Begin an episode in each of the first held-out slots.

        Args:
            slots: Their number; in the others nothing begins.
        """
        count, device = len(self._ended), self._ended.device
        self.steps_done = 0
        self._ended.fill_(_AT_HORIZON)
        self._ended[:slots] = _RUNNING
        self._counted = self._ended == _RUNNING
        self._steps = torch.zeros(count, dtype=torch.long, device=device)
        self._held = torch.zeros(count, dtype=torch.long, device=device)
        self._best = torch.zeros(count, dtype=torch.long, device=device)
        self._return = torch.zeros(count, dtype=torch.float64, device=device)
        self._fingerprint = torch.zeros(count, dtype=torch.long, device=device)

    @property
    def over(self) -> bool:
        """Whether every episode has ended."""
        return not bool((self._ended == _RUNNING).any())

    @property
    def parked(self) -> torch.Tensor:
        """Slots whose episode has ended; boolean tensor of shape (slots,)."""
        return self._ended != _RUNNING

    def observe(self) -> None:
        """Note what the terminations, just computed, and the success function say of the running episodes."""
        self.steps_done += 1
        at_horizon = self.steps_done == self.horizon
        manager = self._base.termination_manager
        self._counted = running = self._ended == _RUNNING
        holds = self._success(self._base, **self._panel.success_params)[self._held_out] & running
        self._held = torch.where(holds, self._held + 1, torch.where(running, 0, self._held))
        self._best = torch.maximum(self._best, self._held)
        self._steps += running
        for index, name in enumerate(self._terms):
            if at_horizon and manager.get_term_cfg(name).time_out:
                continue
            self._ended[manager.get_term(name)[self._held_out] & (self._ended == _RUNNING)] = index
        if at_horizon:
            self._ended[self._ended == _RUNNING] = _AT_HORIZON

    def after_step(self, observations: Sequence[torch.Tensor], rewards: torch.Tensor) -> None:
        """Note the rewards of the step, and episodes whose figures are not finite.

        Args:
            observations: All observations of the held-out slots, each of shape (slots, ...).
            rewards: Rewards of the held-out slots; shape (slots,).
        """
        self._return += torch.where(self._counted, rewards, 0.0)
        figures = torch.cat([rewards.unsqueeze(1), *(group.flatten(1).float() for group in observations)], dim=1)
        finite = torch.isfinite(figures).all(dim=1)
        self._ended[self._counted & ~finite] = _BROKEN
        # A hash of every bit that the policy saw: two episodes with the same fingerprint went the same way.
        places = torch.arange(1, 2 * figures.shape[1], 2, device=figures.device)
        told = (figures.contiguous().view(torch.int32).long() * places * _PRIME).sum(dim=1)
        self._fingerprint = torch.where(self._counted, (self._fingerprint ^ told) * _PRIME, self._fingerprint)

    def overflow(self, slots: torch.Tensor) -> torch.Tensor:
        """Note slots whose physics has dropped contacts or constraints in this step.

        Args:
            slots: Boolean tensor of shape (slots,).

        Returns:
            Whether an episode that was running is among them; a boolean tensor without dimensions.
        """
        concerned = self._counted & slots
        self._ended[concerned] = _OVERFLOWED
        return concerned.any()

    def outcomes(self, place: int, episodes: Sequence[tuple[str, int]]) -> Outcomes:
        """Return what became of the episodes of one policy.

        Args:
            place: Its place among the policies.
            episodes: Cell and seed of each of its slots.

        Raises:
            RuntimeError: If one of them is still running.
        """
        slots = slice(place * len(episodes), (place + 1) * len(episodes))
        ended = self._ended[slots].tolist()
        if _RUNNING in ended:
            raise RuntimeError(f"panel {self._panel.name}: an episode has not ended")
        names: Mapping[int, str] = {
            _AT_HORIZON: HORIZON,
            _BROKEN: NON_FINITE,
            _OVERFLOWED: CAPACITY,
            **dict(enumerate(self._terms)),
        }
        held, best = self._held[slots].tolist(), self._best[slots].tolist()
        returns = self._return[slots]
        broken = (_BROKEN, _OVERFLOWED)
        return Outcomes(
            cell=[cell for cell, _ in episodes],
            seed=[seed for _, seed in episodes],
            success=[end == _AT_HORIZON and steps >= self._hold_steps for end, steps in zip(ended, held, strict=True)],
            success_any=[
                end not in broken and steps >= self._hold_steps for end, steps in zip(ended, best, strict=True)
            ],
            steps=self._steps[slots].tolist(),
            episode_return=[
                value if finite else None
                for value, finite in zip(returns.tolist(), torch.isfinite(returns).tolist(), strict=True)
            ],
            ended_by=[names[end] for end in ended],
            fingerprint=[f"{value & 0xFFFFFFFFFFFFFFFF:016x}" for value in self._fingerprint[slots].tolist()],
        )
