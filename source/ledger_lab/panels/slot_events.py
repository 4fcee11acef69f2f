"""The task's events as held-out slots run them: as they were configured, and with objects of their own."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from ledger_lab.panels.memory import PrivateValues
from ledger_lab.panels.panel import stream_key
from ledger_lab.panels.streams import GlobalStreams, drawing_with_torch
from ledger_lab.panels.terms import events
from ledger_lab.panels.transfers import to_device

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

_NEVER_S = 1.0e9
"""Waiting time that Isaac Lab's own interval timers get in held-out slots [s]."""


@dataclass
class _OwnEvent:
    """An event of the task, and what held-out slots run in its place."""

    term: Any
    """Isaac Lab's configuration of the event."""
    found: Callable[..., None]
    """The function or the object that training slots run."""
    own: Callable[..., None]
    """The same for held-out slots."""
    params: dict[str, Any]
    interval_range_s: tuple[float, float] | None
    values: PrivateValues | None
    """The values of an object, right after its construction."""


class OwnEvents:
    """The task's events for held-out slots.

    If an event is an object, held-out slots run a copy of it. Whenever episodes start, the copy gets the values that it
    had after construction. So neither training slots nor earlier episodes change what the event does.
    """

    def __init__(self, base: ManagerBasedRLEnv, first: int) -> None:
        """Build the copies, while the parameters of the held-out slots are as declared.

        Args:
            base: The environment, unwrapped.
            first: The first held-out slot.
        """
        self._base, self._first = base, first
        manager = base.event_manager
        self._terms = {mode: list(terms) for mode, terms in manager._mode_term_cfgs.items() if mode != "prestartup"}
        self._events = {id(term): self._event(term) for terms in self._terms.values() for term in terms}

    def attach(self) -> None:
        """Note what training slots run from now on, which may be a hook in front of the task's own function."""
        for event in self._events.values():
            event.found = event.term.func

    def begin(self) -> None:
        """Give all copies the values that they had after construction."""
        for event in self._events.values():
            if event.values is not None:
                event.values.restore()

    def start_up(self, ids: torch.Tensor) -> None:
        """Run the start-up events, within :meth:`as_configured`.

        Args:
            ids: Environment ids; shape (n,).
        """
        for name, term in events(self._base, "startup"):
            with drawing_with_torch(f"start-up event {name!r}", naming=True):
                term.func(self._base, ids, **term.params)

    @contextmanager
    def as_configured(self) -> Iterator[None]:
        """Within the context, Isaac Lab runs the events as they were configured, with the copies."""
        lists, events = self._base.event_manager._mode_term_cfgs, list(self._events.values())
        listed = {mode: list(lists[mode]) for mode in self._terms}
        values = [(event.term.func, event.term.params, event.term.interval_range_s) for event in events]
        for mode, terms in self._terms.items():
            lists[mode][:] = terms
        for event in events:
            if event.term.func is event.found:
                event.term.func = event.own
            event.term.params, event.term.interval_range_s = event.params, event.interval_range_s
        try:
            yield
        finally:
            for event, (func, params, interval_range_s) in zip(events, values, strict=True):
                event.term.func, event.term.params, event.term.interval_range_s = func, params, interval_range_s
            for mode, terms in listed.items():
                lists[mode][:] = terms

    def _event(self, term: Any) -> _OwnEvent:
        """Return an event with a copy. What the copy draws when it is built is the same each time."""
        from isaaclab.managers import ManagerTermBase

        call, params, values = term.func, copy.deepcopy(term.params), None
        if isinstance(call, ManagerTermBase):
            cfg = copy.copy(term)
            cfg.params = params
            training = GlobalStreams()
            torch.manual_seed(stream_key("startup", type(call).__name__, 0) % 2**63)
            call = type(call)(cfg, self._base)
            training.restore()
            values = PrivateValues(call, self._base.num_envs, self._first)
        return _OwnEvent(term, term.func, call, params, term.interval_range_s, values)


class IntervalTimers:
    """The task's interval events, with a timer per event and held-out slot in place of Isaac Lab's timers."""

    def __init__(self, base: ManagerBasedRLEnv, first: int) -> None:
        """Make the timers; :meth:`restart` starts them.

        Args:
            base: The environment, unwrapped.
            first: The first held-out slot.
        """
        self._base, self._first = base, first
        self._events = events(base, "interval")
        self._left_s = np.zeros((len(self._events), base.num_envs - first), dtype=np.float32)
        """Times to the next events [s]. The host has them, so that it knows what is due without asking a GPU."""

    def restart(self, slots: NDArray[np.int64]) -> None:
        """Draw the time to the first event of each kind, and stop Isaac Lab's own timers.

        Args:
            slots: Held-out slots that have just been reset, counted from 0; shape (n,).
        """
        manager, ids = self._base.event_manager, to_device(self._first + slots, self._base.device)
        for index, (_, event) in enumerate(self._events):
            self._draw_waits(index, slots)
            if not event.is_global_time:
                manager._interval_term_time_left[index].index_fill_(0, ids, _NEVER_S)

    def advance(self, dt: float) -> Iterator[tuple[int, str, NDArray[np.int64]]]:
        """Advance the timers.

        Args:
            dt: Time since the last call [s].

        Yields:
            Number and name of an event, and the held-out slots in which it is due; shape (n,).
        """
        for index, (name, _) in enumerate(self._events):
            self._left_s[index] -= np.float32(dt)
            due = np.flatnonzero(self._left_s[index] < np.float32(1e-6))
            if len(due):
                yield index, name, due

    def apply(self, index: int, due: NDArray[np.int64]) -> None:
        """Draw the time to the next event, and apply the event.

        Args:
            index: Number of the event.
            due: Held-out slots, counted from 0; shape (n,).
        """
        _, event = self._events[index]
        self._draw_waits(index, due)
        event.func(self._base, to_device(self._first + due, self._base.device), **event.params)

    def _draw_waits(self, index: int, slots: NDArray[np.int64]) -> None:
        """Draw the time to an event in some slots."""
        low, high = self._events[index][1].interval_range_s
        self._left_s[index, slots] = (torch.rand(len(slots)) * (high - low) + low).numpy()
