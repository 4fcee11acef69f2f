"""Hooks into the environment's managers, where Isaac Lab treats all environments alike.

Each hook keeps what happens in held-out slots away from the training slots, and reports it to a listener. The listener
decides; see :class:`Listener`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from ledger_lab.errors import UserError
from ledger_lab.panels.streams import DrawWatch, GlobalStreams, drawing_with_torch
from ledger_lab.panels.surroundings import COUNTERS
from ledger_lab.panels.terrain import PATCH_COLUMNS, patched_terrain
from ledger_lab.panels.transfers import to_device

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

_NO_SLOTS: NDArray[np.int64] = np.arange(0)
_LEVELS = ("current_difficulties", "current_adr_difficulties", "_difficulty_levels", "_levels")
"""Attributes of Isaac Lab's curricula that have a row per environment. A curriculum of Isaac Lab takes their mean."""


class Listener(Protocol):
    """Decides what the events of the managers do to held-out slots. Slots are counted from the first held-out slot."""

    def on_terminations(self) -> bool:
        """React to the terminations of a step, which have just been computed.

        Returns:
            Whether all held-out slots reset in this step. Their own terminations are ignored.
        """

    def on_reset(self, slots: NDArray[np.int64]) -> None:
        """Reset held-out slots.

        Args:
            slots: The slots; shape (n,).
        """

    def on_training_reset(self, ids: torch.Tensor) -> None:
        """React to a reset of training slots, which has just ended.

        Args:
            ids: Their environment ids; shape (n,).
        """

    def on_resample(
        self, command: str, slots: NDArray[np.int64], resample: Callable[[NDArray[np.int64]], None]
    ) -> None:
        """Draw new values of a command in slots where the time of its old values has run out.

        Args:
            command: Name of the command.
            slots: The slots; shape (n,).
            resample: Draws new values of the command for slots.
        """

    def on_interval_events(self, dt: float) -> None:
        """Let the timers of interval events advance.

        Args:
            dt: Time since the last call [s].
        """

    def own_draws(self, rows: NDArray[np.int64], what: str) -> AbstractContextManager[object]:
        """Return a context in which rows draw from the random streams of their episodes.

        Args:
            rows: The held-out slot of each row of a draw; -1 for a training slot.
            what: What draws the numbers.
        """


class Hooks:
    """Hooks into the managers of one environment, whose last slots are held out."""

    def __init__(self, base: ManagerBasedRLEnv, first: int) -> None:
        """Prepare the hooks; :meth:`attach` sets them.

        Args:
            base: The environment, unwrapped.
            first: The first held-out slot.
        """
        self._base, self._first = base, first
        self._rows = np.maximum(np.arange(base.num_envs) - first, -1)
        self._commands = base.command_manager._terms
        self._global_draws: Literal["unchecked", "refused", "passed"] = "unchecked"
        """How the hooks treat random numbers that the task draws for all environments at once.

        Between two steps, such draws are not checked. Within a step, they are refused. While Isaac Lab's own functions
        run for training slots only, or for held-out slots only, the hooks inside pass every call through.
        """
        self._draws = DrawWatch()
        self._resets: bool | None = None
        """Whether all held-out slots or none of them are among the slots that Isaac Lab resets next; ``None`` if it
        isn't known."""
        self._waits = torch.device(base.device).type != "cpu"
        """Whether the host waits when it asks the device."""
        self._quiet: dict[str, int] = {}
        """By command, the number of next computations in which no held-out slot gets new values."""
        self._missed = torch.zeros((), dtype=torch.bool, device=base.device)
        """Whether a held-out slot got new values of a command nevertheless."""

    def attach(self, undo: ExitStack, listener: Listener) -> None:
        """Set the hooks.

        Args:
            undo: Removes the hooks when it closes.
            listener: Decides about the held-out slots.
        """
        base = self._base
        compute = base.termination_manager.compute

        def compute_terminations() -> torch.Tensor:
            done: torch.Tensor = compute()
            done[self._first :] = self._resets = listener.on_terminations()
            return done

        replace_until(undo, base.termination_manager, "compute", compute_terminations)
        self._reset_idx = base._reset_idx

        def reset(env_ids: Any) -> None:  # noqa: ANN401 - a tensor or a slice
            training, held_out = self._split_resets(env_ids)
            if len(training):
                with self._training_draws(), self._only_training_rows():
                    self._reset_idx(training)
                listener.on_training_reset(training)
            if len(held_out):
                listener.on_reset(held_out)

        replace_until(undo, base, "_reset_idx", reset)
        reset_by_hand = base.sim.consume_reset_request

        def consume_reset_request() -> bool:
            self._resets = None  # a user may reset any slots
            return bool(reset_by_hand())

        replace_until(undo, base.sim, "consume_reset_request", consume_reset_request)
        self._attach_commands(undo, listener)
        self._attach_terms(undo, listener)
        self._attach_noise(undo)
        apply = base.event_manager.apply

        def apply_events(mode: str, **arguments: Any) -> None:  # noqa: ANN401 - passes through what apply takes
            if mode != "interval":
                apply(mode, **arguments)
                return
            with self._training_draws():
                apply(mode, **arguments)
            listener.on_interval_events(arguments["dt"])

        replace_until(undo, base.event_manager, "apply", apply_events)

    @contextmanager
    def step(self) -> Iterator[None]:
        """Refuse random numbers that the task draws for all environments at once, within the context.

        Raises:
            UserError: If the task draws such numbers.
        """
        self._draws.forget()
        self._global_draws = "refused"
        try:
            yield
            self._require_no_stray_draws("the end of the step")
        finally:
            self._global_draws, self._resets = "unchecked", None

    def reset(self, ids: torch.Tensor) -> None:
        """Run the environment's own reset for held-out slots; logs and curricula do not see it.

        The reset reads step counters of 0, so an episode does not depend on when it starts.

        Args:
            ids: Environment ids.
        """
        self._quiet.clear()
        base, manager = self._base, self._base.event_manager
        for steps, once in zip(
            manager._reset_term_last_triggered_step_id, manager._reset_term_last_triggered_once, strict=True
        ):
            steps.index_fill_(0, ids.long(), 0)
            once.index_fill_(0, ids.long(), False)
        log = base.extras.get("log")
        with ExitStack() as undo:
            replace_until(undo, base.curriculum_manager, "compute", lambda env_ids=None: None)
            replace_until(undo, base.curriculum_manager, "reset", lambda env_ids=None: {})
            replace_until(undo, self, "_global_draws", "passed")
            for counter in COUNTERS:
                replace_until(undo, base, counter, 0)
            terms = manager._mode_term_cfgs.get("reset", [])
            for name, term in zip(manager.active_terms.get("reset", []), terms, strict=True):

                def named(*args: Any, call: Any = term.func, name: str = name, **params: Any) -> None:  # noqa: ANN401
                    with drawing_with_torch(f"reset event {name!r}", naming=True):
                        call(*args, **params)

                replace_until(undo, term, "func", _Instead(term.func, named))
            self._reset_idx(ids)
        if log is None:
            base.extras.pop("log", None)
        else:
            base.extras["log"] = log

    def require_own_commands(self) -> None:
        """Refuse episodes in which a command changed at another time than its term had set. Asks the device.

        Raises:
            UserError: If there were any since the start.
        """
        if self._missed:
            raise UserError(
                "the time at which a command gets new values was changed from outside of the command, so seeds don't "
                "determine held-out episodes: change this time only in the command's own compute()"
            )

    def _attach_commands(self, undo: ExitStack, listener: Listener) -> None:
        """Split each resampling of a command into training and held-out slots."""
        for name, command in self._commands.items():
            compute, resample, update_command = command.compute, command._resample, command._update_command

            def resample_held_out(slots: NDArray[np.int64], resample: Any = resample) -> None:  # noqa: ANN401
                resample(to_device(self._first + slots, self._base.device))

            def count_down(dt: float, name: str = name, compute: Any = compute) -> None:  # noqa: ANN401
                compute(dt)
                self._quiet[name] = max(self._quiet.get(name, 0) - 1, 0)

            def update(name: str = name, update_command: Any = update_command) -> None:  # noqa: ANN401
                quiet = self._quiet.pop(name, 0)  # here, a command may get new values at any time: at a goal, say
                update_command()
                self._quiet.setdefault(name, quiet)

            def split(
                env_ids: Any,  # noqa: ANN401 - a tensor or a slice
                name: str = name,
                resample: Any = resample,  # noqa: ANN401 - Isaac Lab's method
                resample_held_out: Callable[[NDArray[np.int64]], None] = resample_held_out,
            ) -> None:
                if self._global_draws == "passed":
                    resample(env_ids)
                    return
                quiet = bool(self._quiet.get(name)) and not isinstance(env_ids, slice)
                training, held_out = (env_ids, _NO_SLOTS) if quiet else self._split(env_ids)
                if quiet:
                    self._missed.logical_or_((env_ids >= self._first).any())
                if len(training):
                    with self._training_draws():
                        resample(training)
                if len(held_out):
                    listener.on_resample(name, held_out, resample_held_out)
                if not quiet:
                    self._quiet[name] = self._quiet_computations(self._commands[name])

            replace_until(undo, command, "compute", count_down)
            replace_until(undo, command, "_update_command", update)
            replace_until(undo, command, "_resample", split)

    def _quiet_computations(self, command: Any) -> int:  # noqa: ANN401 - Isaac Lab's command term
        """Return a number of computations, this one included, in which no held-out slot gets new values of a command.

        Asks the device. 0 if asking is free, or if the time of the values may change in other ways than Isaac Lab's.
        """
        from isaaclab.managers import CommandTerm

        if not self._waits or type(command).compute is not CommandTerm.compute:
            return 0
        left_s = float(command.time_left[self._first :].min())
        steps = left_s / self._base.step_dt
        return int(0.999 * min(steps, 1e6))  # less, because the time left is rounded in each computation

    def _attach_terms(self, undo: ExitStack, listener: Listener) -> None:
        """Split terms that Isaac Lab calls for all environments at once."""
        for term in self._base.event_manager._mode_term_cfgs.get("interval", []):
            call = term.func

            def for_training(env: Any, ids: Any, call: Any = call, **params: Any) -> None:  # noqa: ANN401
                call(env, self._split(slice(None))[0] if ids is None else ids, **params)

            if term.is_global_time:
                replace_until(undo, term, "func", _Instead(call, for_training))
        for owner, attribute, what in self._drawing_terms():
            call = getattr(owner, attribute)

            def with_own_draws(*args: Any, call: Any = call, what: str = what, **kwargs: Any) -> Any:  # noqa: ANN401
                with self._training_draws(), listener.own_draws(self._rows, what):
                    return call(*args, **kwargs)

            replace_until(undo, owner, attribute, _Instead(call, with_own_draws))

    def _attach_noise(self, undo: ExitStack) -> None:
        """Restrict the task's observation noise to the training slots."""
        for group in self._base.observation_manager._group_obs_term_cfgs.values():
            for term in group:
                if term.noise is None or term.noise.func is None:
                    continue
                corrupt = term.noise.func

                def corrupt_training(data: torch.Tensor, *cfg: Any, corrupt: Any = corrupt) -> torch.Tensor:  # noqa: ANN401
                    with self._training_draws():
                        noisy: torch.Tensor = corrupt(data, *cfg).clone()
                    noisy[self._first :] = data[self._first :]
                    return noisy

                replace_until(undo, term.noise, "func", _Instead(corrupt, corrupt_training))

    def _drawing_terms(self) -> Iterator[tuple[Any, str, str]]:
        """Find the terms that draw random numbers in each step, by calling each term once."""
        base = self._base
        for name, action in base.action_manager._terms.items():
            zeros = torch.zeros(base.num_envs, action.action_dim, device=base.device)
            if _call_draws(functools.partial(action.process_actions, zeros)):
                yield action, "process_actions", f"action {name!r}"
            if _call_draws(action.apply_actions):
                yield action, "apply_actions", f"action {name!r}"
        for name, command in self._commands.items():
            with ExitStack() as undo:
                replace_until(undo, command, "_resample", lambda env_ids: None)  # its draws have a hook of their own
                draws = _call_draws(command._update_command)
            if draws:
                yield command, "_update_command", f"command {name!r}"
        manager = base.observation_manager
        for group, terms in manager._group_obs_term_cfgs.items():
            for name, term in zip(manager.active_terms[group], terms, strict=True):
                if _call_draws(functools.partial(term.func, base, **term.params)):
                    yield term, "func", f"observation {name!r}"

    def _split(self, env_ids: Any) -> tuple[torch.Tensor, NDArray[np.int64]]:  # noqa: ANN401 - a tensor or a slice
        """Return the environment ids of training slots, and the held-out slots counted from the first of them.

        Asks the device once.
        """
        if isinstance(env_ids, slice):
            env_ids = torch.arange(self._base.num_envs, dtype=torch.int32, device=self._base.device)[env_ids]
        slots = env_ids.cpu().numpy().astype(np.int64) - self._first
        training = env_ids[to_device(np.flatnonzero(slots < 0), env_ids)]
        return training, slots[slots >= 0]

    def _split_resets(self, env_ids: Any) -> tuple[torch.Tensor, NDArray[np.int64]]:  # noqa: ANN401
        """Split the slots that reset, like :meth:`_split`.

        After the terminations of a step, Isaac Lab resets slots in ascending order, and all held-out slots or none.
        """
        resets, self._resets = self._resets, None
        if resets is None or isinstance(env_ids, slice):
            return self._split(env_ids)
        count = self._base.num_envs - self._first if resets else 0
        return env_ids[: len(env_ids) - count], np.arange(count)

    @contextmanager
    def _training_draws(self) -> Iterator[None]:
        """Let training slots draw from the global streams, as they do without held-out slots."""
        if self._global_draws == "passed":
            yield
            return
        self._require_no_stray_draws("a training slot's draw")
        before, self._global_draws = self._global_draws, "passed"
        try:
            yield
        finally:
            self._global_draws = before
        self._draws.forget()

    @contextmanager
    def _only_training_rows(self) -> Iterator[None]:
        """Hide held-out rows from statistics over all environments: those of terminations and of levels."""
        owners: list[tuple[Any, tuple[str, ...]]] = [(self._base.termination_manager, ("_last_episode_dones",))]
        if (terrain := patched_terrain(self._base)) is not None:
            owners.append((terrain, PATCH_COLUMNS))
        for term in self._base.curriculum_manager._term_cfgs:
            levels = {name: getattr(getattr(term.func, name, None), "shape", ()) for name in _LEVELS}
            names = tuple(name for name, shape in levels.items() if shape[:1] == (self._base.num_envs,))
            owners += [(term.func, names)]
        with ExitStack() as undo:
            for owner, names in owners:
                for name in names:
                    replace_until(undo, owner, name, getattr(owner, name)[: self._first])
            yield

    def _require_no_stray_draws(self, until: str) -> None:
        """Refuse random numbers that were drawn since the last draw for training slots.

        Args:
            until: The moment of the check, for the message.

        Raises:
            UserError: If there were any.
        """
        if self._global_draws != "refused" or not self._draws.drawn():
            return
        raise UserError(
            f"the task drew random numbers for all environments at once, or not with torch (found at {until}), so that "
            "seeds don't determine held-out episodes: draw with torch, in an event, a command, an action or an "
            "observation term"
        )


def replace_until(undo: ExitStack, owner: Any, name: str, value: Any) -> None:  # noqa: ANN401 - an object or a class
    """Set an attribute until a context ends.

    Args:
        undo: The context.
        owner: The object or the class.
        name: Name of the attribute.
        value: Its value until then.
    """
    own = vars(owner)
    undo.callback(*((setattr, owner, name, own[name]) if name in own else (delattr, owner, name)))
    setattr(owner, name, value)


class _Instead:
    """A call in place of a term's own; everything else, such as the term's ``reset``, is the term's."""

    def __init__(self, term: Any, call: Callable[..., Any]) -> None:  # noqa: ANN401 - a function or an object
        """Replace the calls of a term."""
        self._term, self._call = term, call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - whatever the term takes and returns
        """Call what stands for the term."""
        return self._call(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the term has
        """Return the term's attribute."""
        return getattr(self._term, name)


def _call_draws(call: Callable[[], Any]) -> bool:
    """Tell whether a call draws random numbers; restore the global streams after it."""
    before = GlobalStreams()
    call()
    drew = bool(before.moved())
    before.restore()
    return drew
