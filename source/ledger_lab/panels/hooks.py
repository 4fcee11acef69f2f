"""Hooks into the environment's managers, where Isaac Lab treats all environments alike.

Each hook keeps what happens in held-out slots away from the training slots, and reports it to :class:`HeldOutSlots`,
which decides.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from ledger_lab.errors import UserError
from ledger_lab.panels.direct import is_direct, step_calls
from ledger_lab.panels.streams import DrawWatch, GlobalStreams, drawing_with_torch
from ledger_lab.panels.terms import events, observations
from ledger_lab.panels.terrain import PATCH_COLUMNS, patched_terrain
from ledger_lab.panels.transfers import to_device

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

    from ledger_lab.panels.slots import HeldOutSlots

COUNTERS = ("common_step_counter", "_sim_step_counter")
"""Attributes of the environment that count its steps since the training began."""

_LEVELS = ("current_difficulties", "current_adr_difficulties", "_difficulty_levels", "_levels")
"""Attributes of Isaac Lab's curricula that have a row per environment. A curriculum of Isaac Lab takes their mean."""


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
        self._global_draws: Literal["unchecked", "refused", "passed"] = "unchecked"
        """How the hooks treat random numbers that the task draws for all environments at once.

        Between two steps, such draws are not checked. Within a step, they are refused. While Isaac Lab's own functions
        run for training slots only, or for held-out slots only, the hooks inside pass every call through.
        """
        self._draws = DrawWatch()

    def attach(self, undo: ExitStack, slots: HeldOutSlots) -> None:
        """Set the hooks.

        Args:
            undo: Removes the hooks when it closes.
            slots: The held-out slots.
        """
        base = self._base
        compute = base.termination_manager.compute

        def compute_terminations() -> torch.Tensor:
            done: torch.Tensor = compute()
            done[self._first :] = slots.on_terminations()
            return done

        replace_until(undo, base.termination_manager, "compute", compute_terminations)
        self._reset_idx = base._reset_idx

        def reset(env_ids: Any) -> None:
            training, held_out = self._split(slice(None) if env_ids is None else env_ids)
            if len(training):
                with self._training_draws(), self._only_training_rows():
                    self._reset_idx(training)
                slots.on_training_reset(training)
            if len(held_out):
                slots.on_reset(held_out)

        replace_until(undo, base, "_reset_idx", reset)
        self._attach_commands(undo, slots)
        self._attach_terms(undo, slots)
        self._attach_noise(undo)
        apply = base.event_manager.apply

        def apply_events(mode: str, **arguments: Any) -> None:
            if mode != "interval":
                apply(mode, **arguments)
                return
            with self._training_draws():
                apply(mode, **arguments)
            slots.on_interval_events(arguments["dt"])

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
            self._global_draws = "unchecked"

    def reset(self, ids: torch.Tensor) -> None:
        """Run the environment's own reset for held-out slots; logs and curricula do not see it.

        The reset reads step counters of 0, so an episode does not depend on when it starts.

        Args:
            ids: Environment ids.
        """
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
            for name, term in events(base, "reset"):

                def named(*args: Any, call: Any = term.func, name: str = name, **params: Any) -> None:
                    with drawing_with_torch(f"reset event {name!r}", naming=True):
                        call(*args, **params)

                replace_until(undo, term, "func", Instead(term.func, named))
            self._reset_idx(ids)
        if is_direct(base):  # a task may spread the ages of episodes that begin together
            base.episode_length_buf.index_fill_(0, ids.long(), 0)
        if log is None:
            base.extras.pop("log", None)
        else:
            base.extras["log"] = log

    def _attach_commands(self, undo: ExitStack, slots: HeldOutSlots) -> None:
        """Split each resampling of a command into training and held-out slots."""
        for name, command in self._base.command_manager._terms.items():

            def split(env_ids: Any, name: str = name, resample: Any = command._resample) -> None:
                if self._global_draws == "passed":
                    resample(env_ids)
                    return
                training, held_out = self._split(env_ids)
                if len(training):
                    with self._training_draws():
                        resample(training)
                if len(held_out):
                    with slots.own_draws(held_out, f"command {name!r}"), slots.scoring_conditions():
                        resample(to_device(self._first + held_out, self._base.device))

            replace_until(undo, command, "_resample", split)

    def _attach_terms(self, undo: ExitStack, slots: HeldOutSlots) -> None:
        """Split terms that Isaac Lab calls for all environments at once."""
        for _, term in events(self._base, "interval"):
            call = term.func

            def for_training(env: Any, ids: Any, call: Any = call, **params: Any) -> None:
                call(env, self._split(slice(None))[0] if ids is None else ids, **params)

            if term.is_global_time:
                replace_until(undo, term, "func", Instead(call, for_training))
        for owner, attribute, what in self._drawing_terms():
            call = getattr(owner, attribute)

            def with_own_draws(*args: Any, call: Any = call, what: str = what, **kwargs: Any) -> Any:
                with self._training_draws(), slots.own_draws(self._rows, what):
                    return call(*args, **kwargs)

            replace_until(undo, owner, attribute, Instead(call, with_own_draws))

    def _attach_noise(self, undo: ExitStack) -> None:
        """Restrict the task's observation noise to the training slots."""
        for _, term in observations(self._base):
            if term.noise is None or term.noise.func is None:
                continue
            corrupt = term.noise.func

            def corrupt_training(data: torch.Tensor, *cfg: Any, corrupt: Any = corrupt) -> torch.Tensor:
                with self._training_draws():
                    noisy: torch.Tensor = corrupt(data, *cfg).clone()
                noisy[self._first :] = data[self._first :]
                return noisy

            replace_until(undo, term.noise, "func", Instead(corrupt, corrupt_training))

    def _drawing_terms(self) -> Iterator[tuple[Any, str, str]]:
        """Find the terms that draw random numbers in each step, by calling each term once."""
        base = self._base
        if is_direct(base):
            before, every = GlobalStreams(), torch.arange(base.num_envs, dtype=torch.int32, device=base.device)
            self._reset_idx(every)  # the methods may read what only a reset sets
            before.restore()
            yield from ((base, name, f"{name} of the task") for name, call in step_calls(base) if _call_draws(call))
            return
        for name, action in base.action_manager._terms.items():
            zeros = torch.zeros(base.num_envs, action.action_dim, device=base.device)
            if _call_draws(functools.partial(action.process_actions, zeros)):
                yield action, "process_actions", f"action {name!r}"
            if _call_draws(action.apply_actions):
                yield action, "apply_actions", f"action {name!r}"
        for name, command in base.command_manager._terms.items():
            with ExitStack() as undo:
                replace_until(undo, command, "_resample", lambda env_ids: None)  # its draws have a hook of their own
                draws = _call_draws(command._update_command)
            if draws:
                yield command, "_update_command", f"command {name!r}"
        for name, term in observations(base):
            if _call_draws(functools.partial(term.func, base, **term.params)):
                yield term, "func", f"observation {name!r}"

    def _split(self, env_ids: Any) -> tuple[torch.Tensor, NDArray[np.int64]]:
        """Return the environment ids of training slots, and the held-out slots, counted from 0.

        Asks the device once. It is idle then: Isaac Lab has just asked it which slots reset, or get new commands.
        """
        if isinstance(env_ids, slice):
            env_ids = torch.arange(self._base.num_envs, dtype=torch.int32, device=self._base.device)[env_ids]
        env_ids = torch.as_tensor(env_ids, device=self._base.device)
        slots = env_ids.cpu().numpy().astype(np.int64) - self._first
        training = env_ids[to_device(np.flatnonzero(slots < 0), env_ids)]
        return training, slots[slots >= 0]

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


def replace_until(undo: ExitStack, owner: Any, name: str, value: Any) -> None:
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


class Instead:
    """A call in place of a term's own; everything else, such as the term's ``reset``, is the term's."""

    def __init__(self, term: Any, call: Callable[..., Any]) -> None:
        """Replace the calls of a term."""
        self._term, self._call = term, call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call what stands for the term."""
        return self._call(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """Return the term's attribute."""
        return getattr(self._term, name)


def _call_draws(call: Callable[[], Any]) -> bool:
    """Tell whether a call draws random numbers; restore the global streams after it."""
    before, watch = GlobalStreams(), DrawWatch()
    call()
    drew = bool(watch.drawn())
    before.restore()
    return drew
