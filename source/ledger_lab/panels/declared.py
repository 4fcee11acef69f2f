"""Keeps held-out slots at what the task declares, although curricula and events of the training change it.

There are three kinds of changes:

- Physical parameters and default states have a row per slot. Held-out slots keep theirs (:mod:`.parameter_rows`).
- Events and commands have their declared configuration while they run for held-out slots.
- Everything else is shared by all slots. If it changes, scores prove nothing, so the training ends with an error that
  names it.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ledger_lab.errors import UserError
from ledger_lab.panels.direct import plain_values, shared_state
from ledger_lab.panels.hooks import replace_until
from ledger_lab.panels.memory import PrivateValues
from ledger_lab.panels.parameter_rows import ParameterRows
from ledger_lab.panels.slot_events import OwnEvents
from ledger_lab.panels.streams import SlotStreams
from ledger_lab.panels.terms import observations, terminations

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

_COMPARED_ELSEWHERE = frozenset(
    ("actions", "commands", "curriculum", "events", "log_dir", "observations", "recorders", "rewards", "terminations")
    + ("video_recorders", "viewer")
)
"""Parts of a task's configuration that may change, or that are compared term by term."""

_CHANGE_NOTHING_SHARED = ("isaaclab.envs.mdp.events", "isaaclab.envs.mdp.rewards", "ledger_lab.tasks.")
"""Prefixes of modules whose events and curricula change only training slots, states, rewards and event parameters."""


class Declared:
    """A task as it is declared, for its held-out slots."""

    def __init__(self, base: ManagerBasedRLEnv, first: int) -> None:
        """Remember the declared values, and set the parameters of held-out slots to them.

        Args:
            base: The environment, unwrapped, before any step, and without hooks.
            first: The first held-out slot.
        """
        self._base, self._first = base, first
        self._watches = any(not _changes_nothing_shared(call) for call in _calls_of_training(base))
        self.parameters = ParameterRows(base, first)
        self.parameters.restore()
        self.events = OwnEvents(base, first)
        self._commands = [(term, copy.deepcopy(term.cfg)) for term in base.command_manager._terms.values()]
        self._terms = list(_terms_with_values(base))
        self._playing = False
        """Whether held-out slots run the task's functions now."""
        self._shared: dict[str, Any] = {}
        self._state: dict[str, Any] = {}

    def attach(self, undo: ExitStack, streams: SlotStreams) -> None:
        """Watch curricula and events of the training. Must come before all other hooks.

        Args:
            undo: Removes the hooks when it closes.
            streams: The random streams of the held-out slots.
        """
        if self._watches:
            self._watch(undo, self._base.curriculum_manager, "compute", "a curriculum")
            self._watch(undo, self._base.event_manager, "apply", "an event")
            for term, cfg in self._commands:
                self._divide_updates(undo, term, cfg, streams)

    def begin(self) -> None:
        """Remember the shared part of the configuration, after the hooks of the managers have been set."""
        self.events.attach()
        self._shared = self._now()
        self.state_changed()

    def watch_parameters(self, undo: ExitStack) -> None:
        """Watch for changes of physical parameters, after all hooks of the solver have been set.

        Args:
            undo: Removes the hooks when it closes.
        """
        if self._watches:
            self.parameters.attach(undo)

    def restore(self) -> None:
        """Put back what earlier episodes have changed for held-out slots, before new ones start."""
        self.parameters.restore()
        self.events.begin()

    @contextmanager
    def playing(self) -> Iterator[None]:
        """Within the context, held-out slots run events and commands as these were configured."""
        changed = [(term, term.cfg) for term, _ in self._commands]
        before, self._playing = self._playing, True
        with self.events.as_configured():
            for term, cfg in self._commands:
                term.cfg = cfg
            try:
                yield
            finally:
                for term, cfg in changed:
                    term.cfg = cfg
                self._playing = before

    def require_kept(self) -> None:
        """Refuse to score policies after something has changed that training and held-out episodes share.

        Raises:
            UserError: If there is such a change.
        """
        now = self._now()
        found = [name for name in {**self._shared, **now} if self._shared.get(name) != now.get(name)]
        if found := found or (self.parameters.changed_for_all() if self._watches else []):
            raise _refusal("a curriculum or an event", found[0])

    def state_changed(self) -> bool:
        """Tell whether a direct task has changed what it keeps for all environments, since this was last asked."""
        before, self._state = self._state, dict(_flat(shared_state(self._base), "env", ()))
        return self._state != before

    def _watch(self, undo: ExitStack, owner: Any, name: str, what: str) -> None:
        """After each call for training slots, restore held-out rows, and refuse changes that all slots share."""
        call: Callable[..., Any] = getattr(owner, name)

        def watched(*args: Any, **kwargs: Any) -> Any:
            if self._playing:
                return call(*args, **kwargs)
            before = [(named, PrivateValues(term, self._base.num_envs, self._first)) for named, term in self._terms]
            with self.parameters.kept():
                result = call(*args, **kwargs)
            for named, values in before:
                if found := values.changed():
                    raise _refusal(what, f"{found[0]} of {named}")
            return result

        replace_until(undo, owner, name, watched)

    def _divide_updates(self, undo: ExitStack, term: Any, cfg: Any, streams: SlotStreams) -> None:
        """Update a command twice if its configuration has changed: as declared for held-out slots, then for training.

        Isaac Lab updates commands of all environments at once.
        """
        update, declared = term._update_command, dict(_flat(cfg, "", ()))

        def update_command() -> None:
            if self._playing or dict(_flat(term.cfg, "", ())) == declared:
                update()
                return
            before, training = PrivateValues(term, self._base.num_envs, 0), term.cfg
            term.cfg = cfg
            update()
            own, drawn = PrivateValues(term, self._base.num_envs, self._first), streams.drawn()
            before.restore()
            term.cfg = training
            update()
            own.changed()  # sets the rows of held-out slots
            streams.go_to(drawn)

        replace_until(undo, term, "_update_command", update_command)

    def _now(self) -> dict[str, Any]:
        """Return the shared part of the configuration, by the names of its values."""
        base = self._base
        shared = {f"env.cfg.{name}": part for name, part in vars(base.cfg).items() if name not in _COMPARED_ELSEWHERE}
        shared |= {f"action {name!r}": term.cfg for name, term in base.action_manager._terms.items()}
        shared |= {f"termination {name!r}": term for name, term in terminations(base)}
        shared |= {f"observation {name!r}": term for name, term in observations(base)}
        shared |= {f"env.{name}": value for name, value in plain_values(base).items()}
        found = {place: value for name, part in shared.items() for place, value in _flat(part, name, ())}
        return {place: value for place, value in found.items() if not _is_noise(place)}


def _is_noise(place: str) -> bool:
    """Tell whether a value belongs to the noise of an observation, which held-out episodes don't have."""
    return place.startswith("observation ") and "'.noise." in place


def _refusal(who: str, what: str) -> UserError:
    """Return the error for a change of something that training and held-out episodes share."""
    return UserError(
        f"{who} changed {what}, which training and held-out episodes share: let it change only events, commands, "
        "rewards or physical parameters, or train with --no_eval and score with evaluate.py"
    )


def _terms_with_values(base: ManagerBasedRLEnv) -> Iterator[tuple[str, object]]:
    """Yield the terms that are objects and that held-out episodes share with the training, by their names."""
    from isaaclab.managers import ManagerTermBase

    for kind, manager in (("action", base.action_manager), ("command", base.command_manager)):
        for name, term in manager._terms.items():
            yield f"{kind} {name!r}", term
    for kind, terms in (("termination", terminations(base)), ("observation", observations(base))):
        yield from ((f"{kind} {name!r}", term.func) for name, term in terms if isinstance(term.func, ManagerTermBase))


def _calls_of_training(base: ManagerBasedRLEnv) -> Iterator[Any]:
    """Yield the functions and objects of curricula and events."""
    yield from (term.func for term in base.curriculum_manager._term_cfgs)
    for mode, terms in base.event_manager._mode_term_cfgs.items():
        if mode not in ("prestartup", "startup"):
            yield from (term.func for term in terms)


def _changes_nothing_shared(call: Any) -> bool:
    """Tell whether an event or a curriculum is known to change nothing that held-out episodes share."""
    from isaaclab.envs.mdp import modify_reward_weight

    kind = call if hasattr(call, "__qualname__") else type(call)
    return kind is modify_reward_weight or kind.__module__.startswith(_CHANGE_NOTHING_SHARED)


def _flat(value: Any, place: str, above: tuple[int, ...]) -> Iterator[tuple[str, Any]]:
    """Yield the values in a configuration, by their places, in a form that can be compared."""
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        yield place, (value.shape, value.dtype.str, hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest())
    elif value is None or isinstance(value, bool | int | float | str | bytes | slice):
        yield place, repr(value)
    elif id(value) in above:
        return
    elif isinstance(value, set | frozenset):
        yield place, sorted(map(repr, value))
    elif isinstance(value, dict | list | tuple):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _flat(child, f"{place}[{key!r}]", (*above, id(value)))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for name, child in vars(value).items():
            yield from _flat(child, f"{place}.{name}", (*above, id(value)))
    else:
        yield place, id(value)
