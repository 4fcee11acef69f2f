"""The outcomes of held-out episodes. Each slot runs one episode, which is counted once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
import torch

from ledger_lab.ledger import CAPACITY, HORIZON, NON_FINITE, UNSTABLE, Outcomes
from ledger_lab.panels.panel import Panel
from ledger_lab.panels.predicate import checked_success
from ledger_lab.panels.starts import HASH_PRIME, row_digests
from ledger_lab.panels.terms import terminations
from ledger_lab.panels.transfers import to_device

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv


class SlotState(IntEnum):
    """State of the episode in one held-out slot.

    Any number from 0 upward is a state, too: the episode ended by the termination term of that number.
    """

    RUNNING = -1
    AT_HORIZON = -2
    """The episode reached the panel's horizon."""
    NON_FINITE = -3
    """The episode ended by an observation or a reward that is not finite."""
    OVERFLOWED = -4
    """The episode proves nothing: the physics engine dropped contacts or constraints."""
    EMPTY = -5
    """The slot has no episode."""
    UNSTABLE = -6
    """The episode ended because its physics became unstable."""


class EpisodeLog:
    """Follows one episode per held-out slot.

    Within ``env.step`` it reads the state of the simulation after the terminations and before the resets, when the
    final state of an episode still exists.
    """

    def __init__(self, env: ManagerBasedRLEnv, panel: Panel, first: int) -> None:
        """Begin with no episode running.

        Args:
            env: The environment.
            panel: The panel.
            first: The first held-out slot; all slots after it are held out, too.

        Raises:
            UserError: If the success function is not usable.
        """
        self._base = base = env.unwrapped
        self._panel, self._first = panel, first
        self.success = checked_success(panel, env)
        """The success function of the panel."""
        ends = {name: term.time_out for name, term in terminations(base)}
        self._terms = sorted(ends, key=lambda name: ends[name])  # a failure decides if both end an episode at once
        self._failing = len(ends) - sum(ends.values())
        """How many of the terms are no time-outs."""
        self.horizon = round(panel.episode_length_s / base.step_dt)
        self._hold_steps = max(1, round(panel.hold_s / base.step_dt))
        self._held_out = slice(first, base.num_envs)
        self._state = torch.empty(base.num_envs - first, dtype=torch.long, device=base.device)
        self.restart([])

    def restart(self, slots: Sequence[int]) -> None:
        """Begin an episode in each of some held-out slots.

        Args:
            slots: These slots; the others stay empty.
        """
        count, device = len(self._state), self._state.device
        self.steps_done = 0
        self._state.fill_(SlotState.EMPTY)
        self._state.index_fill_(0, to_device(np.array(slots, dtype=np.int64), self._state), SlotState.RUNNING)
        self.over = not len(slots)
        """Whether no episode was running after the last terminations.

        The host asks the device there, because Isaac Lab asks it a moment later which slots reset. So an episode that
        became invalid at the end of a step counts as running until the next terminations.
        """
        self._overflow_steps = torch.zeros((), dtype=torch.long, device=device)
        self._steps = torch.zeros(count, dtype=torch.long, device=device)
        self._held = torch.zeros(count, dtype=torch.long, device=device)
        self._best = torch.zeros(count, dtype=torch.long, device=device)
        self._return = torch.zeros(count, dtype=torch.float64, device=device)
        self._fingerprint = torch.zeros(count, dtype=torch.long, device=device)

    @property
    def parked(self) -> torch.Tensor:
        """Slots in which no episode is running; boolean tensor of shape (slots,)."""
        return self._state != SlotState.RUNNING

    @property
    def overflow_steps(self) -> int:
        """Steps in which the physics engine dropped contacts or constraints of a running episode."""
        return int(self._overflow_steps)

    def succeeds(self) -> torch.Tensor:
        """Return the value of the success function now; boolean tensor of shape (num_envs,)."""
        return self.success(self._base, **self._panel.success_params)

    def observe(self) -> None:
        """Record the results of the terminations, which have just been computed, and of the success function."""
        self.steps_done += 1
        at_horizon = self.steps_done == self.horizon
        manager = self._base.termination_manager
        running = self._state == SlotState.RUNNING
        holds = self.succeeds()[self._held_out] & running
        self._held = torch.where(holds, self._held + 1, torch.where(running, 0, self._held))
        self._best = torch.maximum(self._best, self._held)
        self._steps += running
        for index, name in enumerate(self._terms[: self._failing] if at_horizon else self._terms):
            self._state.masked_fill_(manager.get_term(name)[self._held_out] & (self._state == SlotState.RUNNING), index)
        if at_horizon:
            self._state.masked_fill_(self._state == SlotState.RUNNING, SlotState.AT_HORIZON)
        self.over = not bool((self._state == SlotState.RUNNING).any())

    def after_step(
        self,
        observations: Sequence[torch.Tensor],
        rewards: torch.Tensor,
        overflowed: torch.Tensor | None,
        unstable: torch.Tensor | None = None,
    ) -> None:
        """Record the rewards of the step, and end episodes that became invalid.

        Args:
            observations: All observations of the held-out slots, each of shape (slots, ...).
            rewards: Rewards of the held-out slots; shape (slots,).
            overflowed: Slots of which the physics engine dropped contacts or constraints in this step; boolean tensor
                of shape (slots,), or ``None`` if the engine drops nothing.
            unstable: Slots whose physics became unstable in this step; of the same shape, or ``None`` if the engine
                cannot tell.
        """
        counted = self._steps == self.steps_done  # all episodes begin together: these took part in this step
        self._return += torch.where(counted, rewards, 0.0)
        figures = torch.cat([group.flatten(1).float() for group in observations], dim=1)
        finite = torch.isfinite(figures).all(dim=1) & torch.isfinite(rewards)
        self._state.masked_fill_(counted & ~finite, SlotState.NON_FINITE)
        # A hash of all that the policy saw: equal fingerprints mean equal episodes. Rewards change no episode, and a
        # curriculum may change their weights.
        digest = row_digests(figures)
        self._fingerprint = torch.where(counted, (self._fingerprint ^ digest) * HASH_PRIME, self._fingerprint)
        if unstable is not None:
            self._state.masked_fill_(counted & unstable, SlotState.UNSTABLE)
        if overflowed is not None:
            spoiled = counted & overflowed
            self._state.masked_fill_(spoiled, SlotState.OVERFLOWED)
            self._overflow_steps += spoiled.any()

    def outcomes(self, slots: slice, episodes: Sequence[tuple[str, int]]) -> Outcomes:
        """Return the outcomes of some slots.

        Args:
            slots: The slots.
            episodes: Cell and seed of each of them.

        Raises:
            RuntimeError: If an episode is still running.
        """
        ended = self._state[slots].tolist()
        if SlotState.RUNNING in ended:
            raise RuntimeError(f"panel {self._panel.name}: an episode has not ended")
        names: Mapping[int, str] = {
            SlotState.AT_HORIZON: HORIZON,
            SlotState.NON_FINITE: NON_FINITE,
            SlotState.OVERFLOWED: CAPACITY,
            SlotState.UNSTABLE: UNSTABLE,
            **dict(enumerate(self._terms)),
        }
        held, best = self._held[slots].tolist(), self._best[slots].tolist()
        returns = self._return[slots]
        judged: set[int] = {SlotState.AT_HORIZON}
        if self._panel.early_time_out == "judged":
            judged.update(range(self._failing, len(self._terms)))
        invalid = (SlotState.NON_FINITE, SlotState.OVERFLOWED, SlotState.UNSTABLE)
        return Outcomes(
            cell=[cell for cell, _ in episodes],
            seed=[seed for _, seed in episodes],
            success=[end in judged and steps >= self._hold_steps for end, steps in zip(ended, held, strict=True)],
            success_any=[
                end not in invalid and steps >= self._hold_steps for end, steps in zip(ended, best, strict=True)
            ],
            steps=self._steps[slots].tolist(),
            episode_return=[
                value if finite else None
                for value, finite in zip(returns.tolist(), torch.isfinite(returns).tolist(), strict=True)
            ],
            ended_by=[names[end] for end in ended],
            fingerprint=[f"{value & 0xFFFFFFFFFFFFFFFF:016x}" for value in self._fingerprint[slots].tolist()],
        )
