"""Where Isaac Lab's managers share something between environments, and how it is kept apart.

Everything here is undone when the context ends. What can't be kept apart is refused.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from ledger_lab.errors import UserError
from ledger_lab.panels.seeds import stream_key
from ledger_lab.panels.streams import GlobalStreams

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

_NEVER = 1.0e9
"""Seconds that Isaac Lab's own interval timers wait in held-out slots."""

type Own = Callable[[NDArray[np.int64], str], AbstractContextManager[Any]]
"""Gives rows their own random streams. Arguments: the held-out slot of each row, or -1; and what draws the numbers."""


class Hooks:
    """The places of one environment's managers that are taken over while held-out slots are attached."""

    def __init__(self, base: ManagerBasedRLEnv, first: int, own: Own) -> None:
        """Find the places.

        Args:
            base: The environment, unwrapped.
            first: The first held-out slot.
            own: See :data:`Own`.
        """
        self._base, self._first, self._own = base, first, own
        self._rows = np.maximum(np.arange(base.num_envs) - first, -1)
        self._events = base.event_manager._mode_term_cfgs
        self._commands = base.command_manager._terms
        self._intervals = self._events.get("interval", [])
        self._timers = torch.zeros(len(self._intervals), base.num_envs - first, device=base.device)
        self._configured = {id(owner): copy.deepcopy(getattr(owner, name)) for owner, name in self._adjustable()}
        self._fixed = self._fixed_terms()
        self._startup = [self._startup_term(term) for term in self._events.get("startup", [])]
        self._passing = self._watching = False
        self._state = GlobalStreams()

    @property
    def has_startup(self) -> bool:
        """Whether the task draws anything at start-up."""
        return bool(self._startup)

    def attach(
        self,
        undo: ExitStack,
        on_terminations: Callable[[torch.Tensor], torch.Tensor],
        on_reset: Callable[[NDArray[np.int64]], None],
    ) -> None:
        """Take over.

        Args:
            undo: Gives everything back.
            on_terminations: Gets the ends of episodes of shape (num_envs,), and returns them with the held-out slots'
                own.
            on_reset: Gets the held-out slots that reset, counted from 0.
        """
        base = self._base
        compute = base.termination_manager.compute
        self._replace(undo, base.termination_manager, "compute", lambda: on_terminations(compute()))
        self._reset_all = base._reset_idx

        def reset(env_ids: Any) -> None:  # noqa: ANN401 - a tensor or a slice
            training, held_out = self._split(env_ids)
            if len(training):
                with self._training(), self._training_eyes():
                    self._reset_all(training)
            if len(held_out):
                on_reset(held_out)

        self._replace(undo, base, "_reset_idx", reset)
        self._attach_terms(undo)
        self._attach_noise(undo)
        apply = base.event_manager.apply

        def apply_events(mode: str, **arguments: Any) -> None:  # noqa: ANN401 - passes through what apply takes
            if mode != "interval":
                apply(mode, **arguments)
                return
            with self._training():
                apply(mode, **arguments)
            self._apply_intervals(arguments["dt"])

        self._replace(undo, base.event_manager, "apply", apply_events)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Refuse random numbers that were drawn for all environments at once, past everything that is kept apart."""
        self._state, self._watching = GlobalStreams(), True
        try:
            yield
            self._check("the end of the step")
        finally:
            self._watching = False

    @contextmanager
    def as_configured(self) -> Iterator[None]:
        """Show events and commands as they were configured: a curriculum changes them for training alone."""
        found = [(owner, name, getattr(owner, name)) for owner, name in self._adjustable()]
        for owner, name, _ in found:
            setattr(owner, name, self._configured[id(owner)])
        try:
            yield
        finally:
            for owner, name, value in found:
                setattr(owner, name, value)

    def require_unchanged(self) -> None:
        """Refuse to judge when a curriculum has changed what it changes for all environments at once.

        Raises:
            UserError: If a termination, an observation or an action is not what it was.
        """
        for name, now in self._fixed_terms().items():
            if now != self._fixed[name]:
                raise UserError(
                    f"{name} was changed while training went on, for held-out episodes as well: let a curriculum "
                    "change events or commands, which are kept apart, or train with --no_eval and use evaluate.py"
                )

    def startup(self, ids: torch.Tensor) -> None:
        """Draw what the task draws at start-up once more, for some slots.

        Args:
            ids: Environment ids.
        """
        for call, params in self._startup:
            call(self._base, ids, **params)

    def spread_training(self) -> None:
        """Spread the training slots over all types of a generated terrain, as if there were no others.

        Isaac Lab spreads all slots, type after type, and the held-out ones come last.
        """
        if self._first == 0 or (terrain := self._terrain) is None:
            return
        training, columns = torch.arange(self._first, device=self._base.device), terrain.terrain_origins.shape[1]
        types = training * columns // self._first
        terrain.terrain_types[training] = types
        terrain.env_origins[training] = terrain.terrain_origins[terrain.terrain_levels[training], types]

    def place_on_terrain(self, ids: torch.Tensor) -> None:
        """Draw the patch of a generated terrain that an episode takes place on, from all its levels and types."""
        if (terrain := self._terrain) is None:
            return
        rows, columns = terrain.terrain_origins.shape[:2]
        levels = torch.randint(0, rows, (len(ids),), device=self._base.device)
        types = torch.randint(0, columns, (len(ids),), device=self._base.device)
        terrain.terrain_levels[ids], terrain.terrain_types[ids] = levels, types
        terrain.env_origins[ids] = terrain.terrain_origins[levels, types]

    def reset(self, ids: torch.Tensor, slots: NDArray[np.int64]) -> None:
        """Run the environment's own reset for held-out slots, so that no log and no curriculum hears of it.

        Args:
            ids: Their environment ids.
            slots: The same, counted from the first held-out slot.
        """
        base, manager = self._base, self._base.event_manager
        for steps, once in zip(
            manager._reset_term_last_triggered_step_id, manager._reset_term_last_triggered_once, strict=True
        ):
            steps[ids], once[ids] = 0, False
        log = base.extras.get("log")
        with ExitStack() as undo:
            self._replace(undo, base.curriculum_manager, "compute", lambda env_ids=None: None)
            self._replace(undo, base.curriculum_manager, "reset", lambda env_ids=None: {})
            self._replace(undo, self, "_passing", True)
            self._reset_all(ids)
        if log is None:
            base.extras.pop("log", None)
        else:
            base.extras["log"] = log
        for index, term in enumerate(self._intervals):
            low, high = term.interval_range_s
            self._timers[index, slots] = torch.rand(len(slots), device=base.device) * (high - low) + low
            if not term.is_global_time:
                manager._interval_term_time_left[index][ids] = _NEVER

    @property
    def _terrain(self) -> Any:  # noqa: ANN401 - a terrain importer, or what a task has in its place
        """The terrain, if its slots stand on patches of different types and levels."""
        terrain = self._base.scene.terrain
        return terrain if getattr(terrain, "terrain_origins", None) is not None else None

    def _attach_terms(self, undo: ExitStack) -> None:
        """Split what is called for all environments, or for some that are chosen along the way."""
        for term in self._intervals:
            call = term.func

            def for_training(env: Any, ids: Any, call: Any = call, **params: Any) -> None:  # noqa: ANN401
                call(env, self._split(slice(None))[0] if ids is None else ids, **params)

            if term.is_global_time:
                self._replace(undo, term, "func", for_training)
        for name, command in self._commands.items():
            resample = command._resample

            def split(env_ids: Any, resample: Any = resample, name: str = name) -> None:  # noqa: ANN401
                if self._passing:
                    resample(env_ids)
                    return
                training, held_out = self._split(env_ids)
                if len(training):
                    with self._training():
                        resample(training)
                if len(held_out):
                    ids = torch.as_tensor(self._first + held_out, device=self._base.device)
                    with self._own(held_out, f"command {name!r}"), self.as_configured():
                        resample(ids)

            self._replace(undo, command, "_resample", split)
        for owner, attribute, what in self._drawing_terms():
            call = getattr(owner, attribute)

            def own(*args: Any, call: Any = call, what: str = what, **kwargs: Any) -> Any:  # noqa: ANN401
                with self._training(), self._own(self._rows, what):
                    return call(*args, **kwargs)

            self._replace(undo, owner, attribute, own)

    def _attach_noise(self, undo: ExitStack) -> None:
        """Let the task's observation noise reach the training slots alone."""
        for group in self._base.observation_manager._group_obs_term_cfgs.values():
            for term in group:
                if term.noise is None or term.noise.func is None:
                    continue
                corrupt = term.noise.func

                def clean(data: torch.Tensor, *cfg: Any, corrupt: Any = corrupt) -> torch.Tensor:  # noqa: ANN401
                    with self._training():
                        noisy: torch.Tensor = corrupt(data, *cfg).clone()
                    noisy[self._first :] = data[self._first :]
                    return noisy

                self._replace(undo, term.noise, "func", clean)

    def _drawing_terms(self) -> Iterator[tuple[Any, str, str]]:
        """Find the terms that draw random numbers in each step, by calling each of them once."""
        base = self._base
        for name, action in base.action_manager._terms.items():
            zeros = torch.zeros(base.num_envs, action.action_dim, device=base.device)
            if _draws(functools.partial(action.process_actions, zeros)):
                yield action, "process_actions", f"action {name!r}"
            if _draws(action.apply_actions):
                yield action, "apply_actions", f"action {name!r}"
        for name, command in self._commands.items():
            if _draws(command._update_command):
                yield command, "_update_command", f"command {name!r}"
        manager = base.observation_manager
        for group, terms in manager._group_obs_term_cfgs.items():
            for name, term in zip(manager.active_terms[group], terms, strict=True):
                if _draws(functools.partial(term.func, base, **term.params)):
                    yield term, "func", f"observation {name!r}"

    def _startup_term(self, term: Any) -> tuple[Callable[..., None], dict[str, Any]]:  # noqa: ANN401 - an event's config
        """Return a start-up event, rebuilt where it drew random numbers when it was built for the training."""
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

    def _apply_intervals(self, dt: float) -> None:
        """Let interval events happen in held-out slots, each by the timer of its own episode."""
        for index, term in enumerate(self._intervals):
            timers = self._timers[index]
            timers -= dt
            due = (timers < 1e-6).nonzero().flatten()
            if not len(due):
                continue
            low, high = term.interval_range_s
            with self._own(due.cpu().numpy(), "an interval event"), self.as_configured():
                timers[due] = torch.rand(len(due), device=self._base.device) * (high - low) + low
                term.func(self._base, due + self._first, **term.params)

    def _split(self, env_ids: Any) -> tuple[torch.Tensor, NDArray[np.int64]]:  # noqa: ANN401 - a tensor or a slice
        """Return the training slots among environment ids, and the held-out ones counted from the first of them."""
        if isinstance(env_ids, slice):
            env_ids = torch.arange(self._base.num_envs, dtype=torch.int32, device=self._base.device)[env_ids]
        held_out = env_ids >= self._first
        return env_ids[~held_out], env_ids[held_out].cpu().numpy().astype(np.int64) - self._first

    def _adjustable(self) -> list[tuple[Any, str]]:
        """Return what a curriculum may change: parameters of events, configurations of commands."""
        events = [(term, "params") for terms in self._events.values() for term in terms]
        return [*events, *((command, "cfg") for command in self._commands.values())]

    def _fixed_terms(self) -> dict[str, str]:
        """Return what a curriculum must not change, because it is computed for all environments at once."""
        base = self._base
        fixed = {f"action {name!r}": repr(term.cfg) for name, term in base.action_manager._terms.items()}
        for index, term in enumerate(self._intervals):
            fixed[f"interval of event {index}"] = repr(term.interval_range_s)
        for name in base.termination_manager.active_terms:
            fixed[f"termination {name!r}"] = repr(base.termination_manager.get_term_cfg(name).params)
        manager = base.observation_manager
        for group, terms in manager._group_obs_term_cfgs.items():
            for name, term in zip(manager.active_terms[group], terms, strict=True):
                fixed[f"observation {name!r}"] = repr((term.params, term.scale, term.clip))
        return fixed

    @contextmanager
    def _training(self) -> Iterator[None]:
        """Let training slots draw from the global streams, as they do without us."""
        if self._passing:
            yield
            return
        self._check("a training slot's draw")
        self._passing = True
        try:
            yield
        finally:
            self._passing = False
        self._state = GlobalStreams()

    @contextmanager
    def _training_eyes(self) -> Iterator[None]:
        """Hide the held-out rows from what averages over all environments: statistics of ends and of terrain levels."""
        seen = slice(0, self._first)
        owners: list[tuple[Any, tuple[str, ...]]] = [(self._base.termination_manager, ("_last_episode_dones",))]
        if self._terrain is not None:
            owners.append((self._terrain, ("terrain_levels", "terrain_types", "env_origins")))
        with ExitStack() as undo:
            for owner, names in owners:
                for name in names:
                    self._replace(undo, owner, name, getattr(owner, name)[seen])
            yield

    def _check(self, when: str) -> None:
        """Refuse draws since the last moment that all draws were accounted for."""
        if not self._watching or not self._state.moved():
            return
        raise UserError(
            f"between the steps' known draws and {when}, the task drew random numbers for all environments at once, or "
            "not with torch; a held-out episode can't be fixed by its seed then: draw with torch, in an event, a "
            "command, an action or an observation term"
        )

    @staticmethod
    def _replace(undo: ExitStack, owner: Any, name: str, value: Any) -> None:  # noqa: ANN401
        """Set an attribute, and put back what was there when the context ends."""
        own = vars(owner)
        if name in own:
            undo.callback(setattr, owner, name, own[name])
        else:
            undo.callback(delattr, owner, name)
        setattr(owner, name, value)


def _draws(call: Callable[[], Any]) -> bool:
    """Tell whether a call draws random numbers; the global streams are given back as they were."""
    before = GlobalStreams()
    call()
    drew = bool(before.moved())
    before.restore()
    return drew
