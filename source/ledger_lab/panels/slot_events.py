"""Start-up and interval events of a task, run for held-out slots."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from ledger_lab.panels.seeds import stream_key
from ledger_lab.panels.streams import GlobalStreams, drawing_with_torch
from ledger_lab.panels.transfers import to_device

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

_NEVER_S = 1.0e9
"""Waiting time that Isaac Lab's own interval timers get in held-out slots [s]."""


class StartupEvents:
    """The task's start-up events, which can be run again for some slots."""

    def __init__(self, base: ManagerBasedRLEnv) -> None:
        """Rebuild the events that drew random numbers when Isaac Lab built them.

        Args:
            base: The environment, unwrapped.
        """
        self._base = base
        manager = base.event_manager
        terms = zip(manager.active_terms.get("startup", []), manager._mode_term_cfgs.get("startup", []), strict=True)
        self._calls = [(name, *self._call_of(term)) for name, term in terms]

    def apply(self, ids: torch.Tensor) -> None:
        """Run the events.

        Args:
            ids: Environment ids; shape (n,).
        """
        for name, call, params in self._calls:
            with drawing_with_torch(f"start-up event {name!r}", naming=True):
                call(self._base, ids, **params)

    def _call_of(self, term: Any) -> tuple[Callable[..., None], dict[str, Any]]:  # noqa: ANN401 - an event's config
        """Return an event's function and parameters; rebuild a function that draws random numbers when it is built."""
        from isaaclab.managers import ManagerTermBase

        call, params = term.func, copy.deepcopy(term.params)
        if isinstance(call, ManagerTermBase):
            training = GlobalStreams()
            torch.manual_seed(stream_key("startup", type(call).__name__, 0) % 2**63)
            before = GlobalStreams()
            rebuilt = type(call)(term, self._base)
            if before.moved():
                call = rebuilt
            training.restore()
        return call, params


class IntervalEvents:
    """The task's interval events, with a timer per event and held-out slot in place of Isaac Lab's timers."""

    def __init__(self, base: ManagerBasedRLEnv, first: int) -> None:
        """Make the timers; :meth:`restart` starts them.

        Args:
            base: The environment, unwrapped.
            first: The first held-out slot.
        """
        self._base, self._first = base, first
        self._events = base.event_manager._mode_term_cfgs.get("interval", [])
        self._left_s = np.zeros((len(self._events), base.num_envs - first), dtype=np.float32)
        """Times to the next events [s]. The host has them, so that it knows what is due without asking a GPU."""

    def name(self, index: int) -> str:
        """Return the name of an event."""
        name: str = self._base.event_manager.active_terms["interval"][index]
        return name

    def restart(self, slots: NDArray[np.int64]) -> None:
        """Draw the time to the first event of each kind, and stop Isaac Lab's own timers.

        Args:
            slots: Held-out slots that have just been reset, counted from 0; shape (n,).
        """
        manager, ids = self._base.event_manager, to_device(self._first + slots, self._base.device)
        for index, event in enumerate(self._events):
            self._draw_waits(index, slots)
            if not event.is_global_time:
                manager._interval_term_time_left[index].index_fill_(0, ids, _NEVER_S)

    def advance(self, dt: float) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Advance the timers.

        Args:
            dt: Time since the last call [s].

        Yields:
            Number of an event, and the held-out slots in which it is due; shape (n,).
        """
        for index in range(len(self._events)):
            self._left_s[index] -= np.float32(dt)
            due = np.flatnonzero(self._left_s[index] < np.float32(1e-6))
            if len(due):
                yield index, due

    def apply(self, index: int, due: NDArray[np.int64]) -> None:
        """Draw the time to the next event, and apply the event.

        Args:
            index: Number of the event.
            due: Held-out slots, counted from 0; shape (n,).
        """
        event = self._events[index]
        self._draw_waits(index, due)
        event.func(self._base, to_device(self._first + due, self._base.device), **event.params)

    def _draw_waits(self, index: int, slots: NDArray[np.int64]) -> None:
        """Draw the time to an event in some slots."""
        low, high = self._events[index].interval_range_s
        self._left_s[index, slots] = (torch.rand(len(slots)) * (high - low) + low).numpy()
