"""Held-out slots of a simulation: the episodes in them depend on their seeds alone."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from ledger_lab.errors import FirstErrorStack, UserError
from ledger_lab.ledger import CAPACITY, Outcomes
from ledger_lab.panels.capacity import CapacityWatch
from ledger_lab.panels.conditions import Conditions
from ledger_lab.panels.declared import Declared
from ledger_lab.panels.direct import is_direct
from ledger_lab.panels.episodes import EpisodeLog
from ledger_lab.panels.hooks import Hooks
from ledger_lab.panels.panel import Cell, Panel, Purpose, stream_key
from ledger_lab.panels.physics import exactness
from ledger_lab.panels.policy import Acting, Policy, leaves
from ledger_lab.panels.rehearsal import Rehearsal
from ledger_lab.panels.replays import ReplaySlots
from ledger_lab.panels.slot_events import IntervalTimers
from ledger_lab.panels.starts import (
    combined,
    different_start,
    row_digests,
    same_values,
    start_quantities,
)
from ledger_lab.panels.streams import OwnDraws, SlotStreams, drawing_with_torch
from ledger_lab.panels.terrain import (
    GroundWatch,
    on_held_out_ground,
    place_on_patches,
    separate_grids,
    spread_over_types,
)
from ledger_lab.panels.transfers import to_device

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

BATCH = 256
"""Number of rows in every forward pass of a scored policy. The result of a matrix product may depend on the number of
its rows, so that number never changes; missing rows are zeros."""


_FIRST: weakref.WeakKeyDictionary[ManagerBasedRLEnv, int] = weakref.WeakKeyDictionary()
"""The first held-out slot of environments with attached held-out slots."""


def first_held_out(base: ManagerBasedRLEnv) -> int:
    """Return the first held-out slot of an environment; the number of its slots if none are held out.

    Args:
        base: The environment, unwrapped.
    """
    return _FIRST.get(base, base.num_envs)


def rows_of(observations: Any, rows: slice) -> Any:
    """Return some rows of observation groups."""
    if isinstance(observations, torch.Tensor):
        return observations[rows]
    return {name: rows_of(group, rows) for name, group in observations.items()}


type PanelState = Literal["idle", "due", "running"]
"""State of all held-out slots together, as all episodes of a panel begin in the same step.

Between two panels, the slots are idle. After :meth:`HeldOutSlots.begin`, a panel is due: its episodes begin at the
resets of the next step. The panel is then running until its last episode has ended.
"""


class HeldOutSlots:
    """The held-out slots of an environment: one per episode and policy, after all training slots.

    The hooks report to the slots, which decide what happens in them (the methods ``on_...``). What
    happens in held-out slots does not change training slots, with one exception: torch's random stream also draws
    numbers for the held-out slots, which are thrown away. So the random numbers of a training depend on the number of
    slots. Those of an episode come from streams of its own. Logs, curricula and interval timers, which all environments
    of Isaac Lab share, do not reach held-out slots.
    """

    def __init__(
        self,
        env: ManagerBasedRLEnv,
        panel: Panel,
        first: int = 0,
        places: int = 1,
        window: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """Use the last slots of an environment.

        Args:
            env: The environment, as ``gym.make`` returns it.
            panel: The panel.
            first: The first held-out slot. The environment may have more slots than the episodes need; the surplus
                stays empty.
            places: Policies that are judged at once.
            window: Opens the window that counts the time of scoring.

        Raises:
            UserError: If a seed does not determine the task's episodes, or the success function is not usable.
            ValueError: If there are too few slots.
        """
        self._env, self._base, self._panel, self._window = env, env.unwrapped, panel, window
        self.first, self.places, self._episodes = first, places, len(panel.episodes)
        self.count = self._base.num_envs - first
        if self.count < places * self._episodes:
            raise ValueError(f"{self.count} held-out slots for {places} × {self._episodes} episodes")
        self._held_out = slice(self.first, self._base.num_envs)
        self._all = np.arange(self.count)
        self.log = EpisodeLog(env, panel, self.first)
        """Follows the episodes."""
        self._streams, self._startup_streams = SlotStreams(self.count), SlotStreams(self.count)
        self._policies: list[Policy | None] = [None] * places
        self._acting: list[tuple[InBatches, slice]] = []
        """The policies of the running panel, and their rows."""
        self._panel_taken = panel
        surplus = self.count - places * self._episodes
        self._exactness = exactness(self._base.cfg)
        self._replay_slots = ReplaySlots(panel, surplus if self._exactness == "bitwise" else 0)
        self._starts: dict[str, torch.Tensor] = {}
        """What the episodes of the panel started with, by the name of the quantity; each of shape (slots, ...). If the
        engine repeats episodes bit for bit, hashes of shape (slots,)."""
        self._first_starts: dict[str, torch.Tensor] = {}
        """The same of the first panel with the slots' own seeds, if the engine doesn't repeat episodes bit for bit."""
        self._unequal: str | None = None
        """How a replay or a start in the last panel differed."""
        self._state: PanelState = "idle"
        self._checks_next = True
        """Whether the next panel is the first of the training."""
        success_name = f"success function {panel.success_function!r}"
        self._rehearsal = Rehearsal(self, self._base, self._cells(), self.log.success, success_name)
        self._hooks = Hooks(self._base, self.first)
        self._declared, self._ground = Declared(self._base, first), GroundWatch(self._base, first)
        self._intervals = IntervalTimers(self._base, self.first)
        self._capacity: CapacityWatch | None = None
        by_name = {cell.name: cell for cell in panel.cells}
        self._conditions = Conditions(env, self.first, [by_name.get(name, Cell("")) for name in self._cells()])

    @contextmanager
    def attached(self) -> Iterator[HeldOutSlots]:
        """Separate the slots from the training slots, until the context ends."""
        with FirstErrorStack() as undo:
            _FIRST[self._base] = self.first
            undo.callback(_FIRST.pop, self._base)
            self._declared.attach(undo, self._streams)
            self._hooks.attach(undo, self)
            self._declared.begin()
            spread_over_types(self._base, self.first)
            separate_grids(self._base, self.first, undo)
            self._conditions.attach(undo)
            self._capacity = CapacityWatch.attach(self._env)
            if self._capacity is not None:
                undo.callback(self._capacity.detach)
            self._prepare()
            with self._rehearsing():
                self._rehearsal.require_own_episodes()
            self.start(self._all)
            self._ground.require_apart()
            self._declared.watch_parameters(undo)
            yield self

    def reset(self) -> None:
        """Reset all slots of the environment."""
        self._env.reset()

    def begin(self, policies: Sequence[Policy], panel: Panel | None = None) -> None:
        """Begin a panel within the next step.

        Args:
            policies: Deterministic policies, at most as many as the slots have room for.
            panel: The slots' panel with other seeds; the slots' panel itself by default.

        Raises:
            UserError: If the training has changed the episodes: looked at before the first panel, and before each panel
                of a proof.
        """
        if not self.idle:
            raise RuntimeError("a panel is due or running already")
        if self._checks_next or (panel is not None and panel.fresh):
            self._panel_taken, self._checks_next = self._panel, False
            self._declared.require_kept()  # names what has changed, where it can
            with self._rehearsing():
                self._rehearsal.require_unchanged(self.places * self._episodes)
        self._policies = [*policies, *[None] * (self.places - len(policies))]
        self._panel_taken = panel or self._panel
        self._state = "due"

    def _rehearsing(self) -> AbstractContextManager[None]:
        """Return a context in which steps count for no capacity."""
        return nullcontext() if self._capacity is None else self._capacity.forgetting()

    def starts(self, place: int) -> dict[str, str] | None:
        """Return hashes of what the episodes of the last panel started with, by the name of the quantity.

        Args:
            place: Index of the policy among the scored policies, from 0.

        Returns:
            Each hash depends on the episodes, and not on their order or their slots; ``None`` if the engine doesn't
            repeat episodes bit for bit.
        """
        if self._exactness != "bitwise":
            return None
        rows, episodes = self._own(place), self._panel_taken.episodes
        return {name: combined(episodes, hashes[rows].tolist()) for name, hashes in self._starts.items()}

    @property
    def replayed(self) -> int | None:
        """Number of episodes that each panel replays; ``None`` if the engine doesn't repeat episodes bit for bit."""
        return self._replay_slots.count or None

    @property
    def idle(self) -> bool:
        """Whether no panel is due or running."""
        return self._state == "idle" or (self._state == "running" and self.log.over)

    @property
    def action_count(self) -> int:
        """Length of an action."""
        count: int = self._base.action_manager.total_action_dim
        return count

    @property
    def horizon(self) -> int:
        """Longest episode, in steps."""
        return self.log.horizon

    @property
    def capacity_used(self) -> dict[str, int] | None:
        """How much of the physics engine's capacities the simulation needed at most.

        Returns:
            The fields of :class:`ledger_lab.ledger.CapacityUsed` without the time; ``None`` if the engine has no
            capacities.
        """
        return None if self._capacity is None else self._capacity.used()

    def invalid(self, outcomes: Outcomes) -> str | None:
        """Return why a policy's outcomes prove nothing, and what to do about it; ``None`` if they are valid.

        Args:
            outcomes: Outcomes of the last panel.
        """
        if self._capacity is None or CAPACITY not in outcomes.ended_by:
            return self._unequal
        steps = self.log.overflow_steps
        return f"the physics engine dropped contacts or constraints in {steps} steps: {self._capacity.advice()}"

    def outcomes(self) -> list[Outcomes]:
        """Return the outcomes of each policy's episodes, in the order of the policies."""
        self._declared.require_kept()
        self._ground.require_apart()
        panel, policies = self._panel_taken, self._taken_policies
        found = [self.log.outcomes(self._own(place), panel.episodes) for place in range(len(policies))]
        if self._declared.state_changed():
            self._panel_taken = self._panel
            with self._rehearsing():
                self._rehearsal.require_unchanged(self.places * self._episodes)
            self._panel_taken = panel
        self._unequal = None
        if self._exactness == "statistical" and panel == self._panel:
            first = self._first_starts = self._first_starts or self._starts
            used = slice(len(policies) * self._episodes)
            self._unequal = different_start(
                name for name, value in self._starts.items() if not same_values(value[used], first[name][used])
            )
        if self._replay_slots.count:
            replays = self.log.outcomes(self._replay_rows, self._replay_slots.episodes(panel))
            starts = {name: hashes[: self._replay_rows.stop].tolist() for name, hashes in self._starts.items()}
            if (differs := self._replay_slots.compare(panel, policies, found, starts, replays)) is not None:
                self._unequal = f"episodes depend on more than their seeds: {differs}"
        return found

    @property
    def _taken_policies(self) -> list[Policy]:
        """The policies of the panel."""
        return [policy for policy in self._policies if policy is not None]

    def _own(self, place: int) -> slice:
        """Return the held-out slots of the episodes of one policy."""
        return slice(place * self._episodes, (place + 1) * self._episodes)

    @property
    def _replay_rows(self) -> slice:
        """The held-out slots that replay episodes."""
        begin = self.places * self._episodes
        return slice(begin, begin + self._replay_slots.count)

    def _cells(self) -> list[str]:
        """Return the name of each slot's cell; empty for slots that stay empty, which have no perturbations."""
        cells = [cell for cell, _ in self._panel.episodes] * self.places + self._replay_slots.cells
        return [*cells, *[""] * (self.count - len(cells))]

    def step(self, actions: torch.Tensor) -> Any:
        """Step all slots.

        Args:
            actions: Actions of the training slots; shape (training slots, actions).

        Returns:
            The result of ``env.step`` for all slots.
        """
        with self._window(), torch.no_grad():
            if self._state == "running" and self.log.over:
                self._state = "idle"
            actions = torch.cat([actions.to(self._base.device), self._act()])
        running = self._state == "running"  # episodes that begin within this step have no reward yet
        with self._hooks.step():
            result = self._env.step(actions)
        if self._state == "due":
            raise UserError(
                "the task resets environments without _reset_idx, so that held-out episodes cannot begin: let it reset "
                "them with _reset_idx, or train with --no_eval"
            )
        if self._state == "running" and not running:
            with self._window():
                self._note_starts()
        if running:
            with self._window(), torch.no_grad():
                held_out = rows_of(result[0], self._held_out)
                overflowed = None if self._capacity is None else self._capacity.overflowed()[self._held_out]
                ending = getattr(self._base.termination_manager, "unstable", None)  # where the physics can tell
                unstable = None if ending is None else ending.last[self._held_out]
                self.log.after_step(list(leaves(held_out)), result[1][self._held_out], overflowed, unstable)
                self._conditions.after_step()
        return result

    def _note_starts(self) -> None:
        """Note what the episodes start with, at the end of the step in which they began.

        Some commands are in the robot's frame, and are computed only after the reset.
        """
        self._starts = dict(start_quantities(self._base, self._held_out))
        self._starts |= {name: rows.clone() for name, rows in self._declared.parameters.now() if name == "gravity"}
        if self._exactness == "bitwise":
            self._starts = {name: row_digests(value) for name, value in self._starts.items()}

    def on_terminations(self) -> bool:
        """Record the step of a running panel; reset all held-out slots if a panel is due."""
        if self._state == "running":
            with self._window():
                self.log.observe()
        return self._state == "due"

    def on_reset(self, slots: NDArray[np.int64]) -> None:
        """Begin the panel that is due; between panels, put the slots into a valid initial state."""
        if self._state == "running" and not self.log.over:
            return  # a reset of the whole environment doesn't interrupt running episodes
        with self._window():
            self._prepare()
            self.start_slots(slots)
            if self._state == "due":
                self._state = "running"
                self._acting = self._begun()
                running = np.arange(len(self._taken_policies) * self._episodes)
                self.log.restart([*running, *self._all[self._replay_rows]])
                if self._capacity is not None:
                    self._capacity.overflowed()  # clear the count: losses between panels belong to no episode

    def on_training_reset(self, ids: torch.Tensor) -> None:
        """Note training robots that start on held-out ground."""
        self._ground.look(ids)

    def on_interval_events(self, dt: float) -> None:
        """Apply the interval events whose timers have expired, as the events were configured."""
        for event, name, due in self._intervals.advance(dt):
            with (
                self._conditions.lifted(),
                self.own_draws(due, f"interval event {name!r}"),
                self.scoring_conditions(),
            ):
                self._intervals.apply(event, due)

    def own_draws(self, rows: NDArray[np.int64], what: str) -> OwnDraws:
        """Let rows draw from the streams of their episodes."""
        return OwnDraws(self._streams, rows, what)

    def _act(self) -> torch.Tensor:
        """Return the held-out slots' actions; slots without a running episode do nothing."""
        base = self._base
        actions = torch.zeros(self.count, self.action_count, device=base.device)
        if self._state != "running":
            return actions
        seen = self._conditions.seen(rows_of(base.obs_buf, self._held_out))
        for act, rows in self._acting:
            actions[rows] = act(rows_of(seen, rows))
        return self._conditions.delayed(actions).masked_fill(self.log.parked.unsqueeze(1), 0.0)

    def _begun(self) -> list[tuple[InBatches, slice]]:
        """Return the policies of a panel whose episodes begin, and of the replays, with their rows."""
        policies = self._taken_policies
        acting = [(InBatches(policy), self._own(place)) for place, policy in enumerate(policies)]
        if self._replay_slots.count:
            acting.append((InBatches(self._replay_slots.policy(policies)), self._replay_rows))
        return acting

    def _prepare(self, order: NDArray[np.int64] | None = None) -> None:
        """Assign an episode to each slot.

        Args:
            order: Number of the episode for each slot; by default the slots' own order.
        """
        panel = self._panel_taken
        episodes = [*panel.episodes] * self.places + self._replay_slots.episodes(panel)
        episodes += [panel.episodes[slot % self._episodes] for slot in range(self.count - len(episodes))]

        def keys(purpose: Purpose, own_cell: bool = False) -> NDArray[np.uint64]:
            task = self._panel.task
            each = [stream_key(purpose, task, seed, cell if own_cell else "") for cell, seed in episodes]
            own = np.array(each, dtype=np.uint64)
            return own if order is None else own[order]

        self._keys, self._startup_keys = keys("episode"), keys("startup")
        self._condition_keys = keys("condition", own_cell=True), keys("disturbance", own_cell=True)

    def start(self, order: NDArray[np.int64]) -> None:
        """Assign an episode to each slot, and start it.

        Args:
            order: Number of the episode for each slot.
        """
        self._prepare(order)
        self.start_slots(self._all)

    def play(self, actions: torch.Tensor) -> None:
        """Step all slots, as :meth:`step` does, but with given actions of the held-out slots, too.

        Args:
            actions: Shape (num_envs, actions).
        """
        actions = torch.cat([actions[: self.first], self._conditions.delayed(actions[self.first :])])
        with self._hooks.step(), torch.no_grad():
            self._base.step(actions)
        self._conditions.after_step()

    def overflowed(self) -> bool:
        """Tell whether the physics engine dropped contacts or constraints since the last call."""
        return self._capacity is not None and bool(self._capacity.overflowed().any())

    def start_slots(self, slots: NDArray[np.int64]) -> None:
        """Start the slots' episodes: put back what the task declares, run its events, and apply the cells at last."""
        from isaaclab.envs.mdp import reset_scene_to_default

        ids = self._ids(slots)
        self._conditions.restore()
        self._declared.restore()
        with self.scoring_conditions():
            self._startup_streams.restart(self._all, self._startup_keys)
            with self._drawing(self._startup_streams, self._all, "the task's start-up randomization"):
                self._declared.events.start_up(self._ids(self._all))
            self._streams.restart(slots, self._keys[slots])
            # A direct task may do something else when it hears that all environments begin: here, it never does.
            apart = is_direct(self._base) and len(slots) == self._base.num_envs > 1
            for part in (slots[:-1], slots[-1:]) if apart else (slots,):
                with self._drawing(self._streams, part, "the task's reset"):
                    place_on_patches(self._base, self._ids(part))
                    reset_scene_to_default(self._base, self._ids(part), reset_joint_targets=True)
                    self._hooks.reset(self._ids(part))
                    self._intervals.restart(part)
        self._ground.look(ids)
        fixed, varying = self._condition_keys
        self._conditions.assign(fixed)
        self._conditions.start(slots, varying[slots])

    @contextmanager
    def scoring_conditions(self) -> Iterator[None]:
        """Within the context, terms are as they were configured, and patches are those of the held-out ground."""
        with self._declared.playing(), on_held_out_ground(self._base):
            yield

    def _ids(self, slots: NDArray[np.int64]) -> torch.Tensor:
        """Return the environment ids of held-out slots, in the type that Isaac Lab resets with."""
        return to_device(self.first + slots, self._base.device, torch.int32)

    @contextmanager
    def _drawing(self, streams: SlotStreams, slots: NDArray[np.int64], what: str) -> Iterator[None]:
        """Draw from the slots' own streams, and refuse draws by other libraries than torch."""
        with OwnDraws(streams, slots, what), drawing_with_torch(what):
            yield


class InBatches:
    """A policy in the episodes of some rows, computed in batches of constant size, each with a memory of its own."""

    def __init__(self, policy: Policy) -> None:
        """Begin episodes with the first call.

        Args:
            policy: The policy.
        """
        self._policy = policy
        self._batches: list[Acting] = []

    def __call__(self, observations: Any) -> torch.Tensor:
        """Return actions of shape (n, actions) for the next observations of the same rows; shape (n, ...)."""
        count = next(leaves(observations)).shape[0]
        starts = range(0, count, BATCH)
        self._batches = self._batches or [Acting(self._policy) for _ in starts]
        parts = [
            act(_padded(rows_of(observations, slice(at, at + BATCH))))
            for act, at in zip(self._batches, starts, strict=True)
        ]
        return torch.cat(parts)[:count]


def with_training_at_once(policy: Policy, observations: torch.Tensor, first: int) -> torch.Tensor:
    """Return a policy's actions; training slots act in one batch, and held-out slots in batches of constant size.

    Args:
        policy: The policy.
        observations: Shape (slots, ...).
        first: The first held-out slot.

    Returns:
        Actions of shape (slots, actions).
    """
    parts = [Acting(policy)(observations[:first])] if first else []
    if first < len(observations):
        parts.append(InBatches(policy)(observations[first:]))
    return torch.cat(parts)


def _padded(observations: Any) -> Any:
    """Fill observation groups up to a whole batch."""
    if not isinstance(observations, torch.Tensor):
        return {name: _padded(group) for name, group in observations.items()}
    missing = BATCH - observations.shape[0]
    return (
        torch.cat([observations, observations.new_zeros(missing, *observations.shape[1:])]) if missing else observations
    )
