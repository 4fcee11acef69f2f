"""Slots of a simulation whose episodes depend on their seeds alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from ledger_lab.errors import UserError
from ledger_lab.ledger import CAPACITY, Outcomes
from ledger_lab.panels.capacity import CapacityWatch
from ledger_lab.panels.conditions import Conditions
from ledger_lab.panels.episodes import EpisodeLog
from ledger_lab.panels.hooks import Hooks
from ledger_lab.panels.panel import Cell, Panel
from ledger_lab.panels.policy import Policy
from ledger_lab.panels.seeds import Purpose, stream_key
from ledger_lab.panels.streams import GlobalStreams, OwnDraws, SlotStreams

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

BATCH = 256
"""Rows of every forward pass of a judged policy. The result of a matrix product may depend on the number of its rows,
so that number never changes; missing rows are zeros."""


def rows_of(observations: Any, rows: slice) -> Any:  # noqa: ANN401 - a tensor, or nested dictionaries of them
    """Return some rows of observation groups."""
    if isinstance(observations, torch.Tensor):
        return observations[rows]
    return {name: rows_of(group, rows) for name, group in observations.items()}


class HeldOutSlots:
    """The held-out slots of an environment: one per episode and policy, after all others.

    Training slots, if there are any, come before them and go on as if they were alone. All episodes of a panel begin
    within the same step. Everything that the task draws for them comes from streams of their own; what Isaac Lab shares
    between environments (logs, curricula, interval timers) is kept apart.
    """

    def __init__(
        self,
        env: ManagerBasedRLEnv,
        panel: Panel,
        first: int = 0,
        places: int = 1,
        window: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """Take the last slots of an environment.

        Args:
            env: The environment, as ``gym.make`` returns it.
            panel: The panel.
            first: The first held-out slot. There may be more slots than the episodes need; the last ones then do
                nothing.
            places: Policies that are judged at once.
            window: Opens the window that the time of judging counts for.

        Raises:
            UserError: If the task's episodes can't be fixed by a seed, or the success function does not do.
            ValueError: If there are too few slots.
        """
        self._env, self._base, self._panel, self._window = env, env.unwrapped, panel, window
        self.first, self.places, self._episodes = first, places, len(panel.episodes)
        self.count = self._base.num_envs - first
        if self.count < places * self._episodes:
            raise ValueError(f"{self.count} held-out slots for {places} × {self._episodes} episodes")
        self._held_out = slice(self.first, self._base.num_envs)
        self._all = np.arange(self.count)
        self._log = EpisodeLog(env, panel, self.first)
        self._streams, self._startup = SlotStreams(self.count), SlotStreams(self.count)
        self._policies: list[Policy | None] = [None] * places
        self._taken: Panel | None = None
        self._next = panel
        self._due = self._observed = False
        self._hooks = Hooks(self._base, self.first, self._own)
        self._capacity: CapacityWatch | None = None
        self._overflows = torch.zeros((), dtype=torch.long, device=self._base.device)
        self._conditions: Conditions | None = None
        if any(cell.perturbations for cell in panel.cells):
            cells = [cell for cell in panel.cells for _ in panel.seeds] * places
            cells += [Cell("")] * (self.count - len(cells))
            self._conditions = Conditions(env, self.first, cells)

    @contextmanager
    def attached(self) -> Iterator[HeldOutSlots]:
        """Keep the slots apart from the rest, until the end of the context."""
        with ExitStack() as undo:
            self._hooks.attach(undo, on_terminations=self._observe, on_reset=self._reset)
            self._hooks.spread_training()
            if self._conditions is not None:
                self._conditions.attach(undo)
            self._capacity = CapacityWatch.attach(self._env)
            if self._capacity is not None:
                undo.callback(self._capacity.detach)
            self._assign()
            self._start(self._all[:1])  # a draw that has as many rows as there are slots by chance shows here
            self._start(self._all)
            yield self

    def reset(self) -> None:
        """Reset the environment, all its slots."""
        self._env.reset()

    def begin(self, policies: Sequence[Policy], panel: Panel | None = None) -> None:
        """Let policies take the panel, from within the next step on.

        Args:
            policies: Deterministic policies, at most one per place.
            panel: The same panel with other seeds, to take in place of it.
        """
        if not self.idle:
            raise RuntimeError("a panel is being taken already")
        self._policies = [*policies, *[None] * (self.places - len(policies))]
        self._next = panel or self._panel
        self._due = True

    @property
    def taking(self) -> list[tuple[list[int], bool]]:
        """Seeds, and whether they are fresh, of the panel that is taken now or next, and of the one prepared for."""
        return [(list(panel.seeds), panel.fresh) for panel in (self._next, self._taken or self._next)]

    def go_on(self, policies: Sequence[Policy], taking: Sequence[tuple[Sequence[int], bool]]) -> None:
        """Let policies go on with a panel; the state of the slots themselves is put back besides.

        Args:
            policies: As for :meth:`begin`.
            taking: What :attr:`taking` was then.
        """
        self._policies = [*policies, *[None] * (self.places - len(policies))]
        self._next, self._taken = (replace(self._panel, seeds=tuple(seeds), fresh=fresh) for seeds, fresh in taking)

    def abandon(self) -> None:
        """Abandon the panel in progress, if any, and make the slots ready for the next one."""
        self._due, self._taken = False, None
        self._log.restart(0)

    @property
    def idle(self) -> bool:
        """Whether no panel is being taken: all episodes of the last one have ended."""
        return not self._due and self._log.over

    @property
    def action_count(self) -> int:
        """Length of an action."""
        count: int = self._base.action_manager.total_action_dim
        return count

    @property
    def horizon(self) -> int:
        """Longest episode, in steps."""
        return self._log.horizon

    @property
    def capacity_used(self) -> dict[str, int] | None:
        """What the simulation needed at most of what its physics engine has room for.

        Returns:
            The fields of :class:`ledger_lab.ledger.CapacityUsed`, but for the time; ``None`` where the engine's room
            has no limits.
        """
        if self._capacity is None:
            return None
        constraints, contacts = self._capacity.constraints, self._capacity.contacts
        return {
            "constraints": constraints.needed,
            "constraint_capacity": constraints.capacity,
            "contacts": contacts.needed,
            "contact_capacity": contacts.capacity,
            "slots": self._base.num_envs,
        }

    def invalid(self, outcomes: Outcomes) -> str | None:
        """Return why a policy's outcomes are no proof of anything, and what to do about it; ``None`` if they are one.

        Args:
            outcomes: Outcomes of the panel just taken.
        """
        if self._capacity is None or CAPACITY not in outcomes.ended_by:
            return None
        steps = int(self._overflows)
        return f"the physics engine dropped contacts or constraints in {steps} steps: {self._capacity.advice()}"

    def outcomes(self) -> list[Outcomes]:
        """Return what became of each policy's episodes, in the order of the policies."""
        self._hooks.require_unchanged()
        taken = [place for place, policy in enumerate(self._policies) if policy is not None]
        return [self._log.outcomes(place, self._next.episodes) for place in taken]

    def step(self, actions: torch.Tensor) -> Any:  # noqa: ANN401 - what env.step returns
        """Step all slots.

        Args:
            actions: Of the training slots; shape (training slots, actions).

        Returns:
            What ``env.step`` returns, for all slots.
        """
        with self._window(), torch.no_grad():
            actions = torch.cat([actions.to(self._base.device), self._act()])
        self._observed = False
        with self._hooks.watched():
            result = self._env.step(actions)
        if self._observed:
            with self._window(), torch.no_grad():
                held_out = rows_of(result[0], self._held_out)
                self._log.after_step(list(_leaves(held_out)), result[1][self._held_out])
                if self._capacity is not None:
                    lost = self._capacity.overflowed()[self._held_out]
                    self._overflows += self._log.overflow(lost)
                if self._conditions is not None:
                    self._conditions.after_step()
        return result

    def _act(self) -> torch.Tensor:
        """Return the held-out slots' actions; those whose episode has ended, or not begun, do nothing."""
        base = self._base
        actions = torch.zeros(self.count, self.action_count, device=base.device)
        if self._due or self._log.over:
            return actions
        seen = rows_of(base.obs_buf, self._held_out)
        if self._conditions is not None:
            seen = self._conditions.seen(seen)
        for place, policy in enumerate(self._policies):
            if policy is not None:
                rows = slice(place * self._episodes, (place + 1) * self._episodes)
                actions[rows] = in_batches(policy, rows_of(seen, rows))
        if self._conditions is not None:
            actions = self._conditions.delayed(actions)
        return actions.masked_fill(self._log.parked.unsqueeze(1), 0.0)

    def _observe(self, done: torch.Tensor) -> torch.Tensor:
        """Look at the terminations: held-out slots reset together, when a panel is due, and never else."""
        with self._window():
            if not self._log.over:
                self._log.observe()
                self._observed = True
            done[self._held_out] = self._due
        return done

    def _reset(self, slots: NDArray[np.int64]) -> None:
        """Begin what is due; at the environment's own reset, just put the slots somewhere sane."""
        if not self._due and not self._log.over:
            return  # a reset of the environment doesn't interrupt running episodes
        with self._window():
            self._assign()
            self._start(slots)
            if self._due:
                self._due = False
                self._log.restart(sum(policy is not None for policy in self._policies) * self._episodes)
                self._overflows.zero_()
                if self._capacity is not None:
                    self._capacity.overflowed()  # clear the count: losses between panels belong to no episode

    def _assign(self) -> None:
        """Give each slot its episode, and the physical properties that the task draws at start-up."""
        if self._next == self._taken:
            return
        self._taken = self._next
        episodes = self._taken.episodes

        def keys(purpose: Purpose, own_cell: bool = False) -> NDArray[np.uint64]:
            task = self._panel.task
            one = [stream_key(purpose, task, seed, cell if own_cell else "") for cell, seed in episodes]
            return np.resize(np.array(one, dtype=np.uint64), self.count)

        self._keys, self._condition_keys = keys("episode"), keys("disturbance", own_cell=True)
        if self._conditions is not None:
            self._conditions.restore()  # before the task redraws its start-up values: restoring later would undo them
        if self._hooks.has_startup:
            self._startup.restart(self._all, keys("startup"))
            with self._drawing(self._startup, self._all, "the task's start-up randomization"):
                self._hooks.startup(self._ids(self._all))
        if self._conditions is not None:
            self._conditions.assign(keys("condition", own_cell=True))

    def _start(self, slots: NDArray[np.int64]) -> None:
        """Put slots at the start of their episodes: everything at its default, then the task's own reset."""
        from isaaclab.envs.mdp import reset_scene_to_default

        self._streams.restart(slots, self._keys[slots])
        ids = self._ids(slots)
        with self._drawing(self._streams, slots, "the task's reset"), self._hooks.as_configured():
            self._hooks.place_on_terrain(ids)
            reset_scene_to_default(self._base, ids, reset_joint_targets=True)
            self._hooks.reset(ids, slots)
        if self._conditions is not None:
            self._conditions.start(slots, self._condition_keys[slots])

    def _own(self, rows: NDArray[np.int64], what: str) -> OwnDraws:
        """Let rows draw from their episodes' streams.

        Args:
            rows: Per row of a draw, its held-out slot, or -1 for a training slot.
            what: What draws the numbers.
        """
        return OwnDraws(self._streams, rows, what)

    def _ids(self, slots: NDArray[np.int64]) -> torch.Tensor:
        """Return the environment ids of held-out slots, in the type that Isaac Lab resets with."""
        return torch.as_tensor(self.first + slots, dtype=torch.int32, device=self._base.device)

    @contextmanager
    def _drawing(self, streams: SlotStreams, slots: NDArray[np.int64], what: str) -> Iterator[None]:
        """Draw from the slots' own streams, and refuse draws that go past torch."""
        before = GlobalStreams()
        with OwnDraws(streams, slots, what):
            yield
        if past := " and ".join(name for name in before.moved() if name != "torch"):
            raise UserError(f"{what} draws from {past}, which cannot be fixed per slot: let it draw with torch")


def in_batches(policy: Policy, observations: Any) -> torch.Tensor:  # noqa: ANN401 - see rows_of
    """Return a policy's actions, computed in batches of always the same size.

    Args:
        policy: The policy.
        observations: Observation groups of shape (n, ...).

    Returns:
        Actions of shape (n, actions).
    """
    count = next(_leaves(observations)).shape[0]
    parts = [policy(_padded(rows_of(observations, slice(at, at + BATCH)))) for at in range(0, count, BATCH)]
    return torch.cat(parts)[:count]


def _padded(observations: Any) -> Any:  # noqa: ANN401 - see rows_of
    """Fill observation groups up to a whole batch."""
    if not isinstance(observations, torch.Tensor):
        return {name: _padded(group) for name, group in observations.items()}
    missing = BATCH - observations.shape[0]
    return (
        torch.cat([observations, observations.new_zeros(missing, *observations.shape[1:])]) if missing else observations
    )


def _leaves(observations: Any) -> Iterator[torch.Tensor]:  # noqa: ANN401 - see rows_of
    """Return all tensors of observation groups."""
    if isinstance(observations, torch.Tensor):
        yield observations
    else:
        for group in observations.values():
            yield from _leaves(group)
