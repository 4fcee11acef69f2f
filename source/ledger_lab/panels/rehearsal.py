"""Plays held-out episodes twice before the first panel, and compares the two plays.

An episode must depend on its seed alone. So in the second play, the episodes are in other slots, beside slots with much
larger actions, and after other episodes, while step counters, clocks, the process id, hashes and random streams differ.
If the two plays differ, episodes depend on one of these circumstances. To find out on which, further plays change only
one of them, or leave out one event.
"""

from __future__ import annotations

import builtins
import datetime
import functools
import itertools
import os
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
import warp as wp
from numpy.typing import NDArray

from ledger_lab.errors import UserError
from ledger_lab.panels.direct import is_direct
from ledger_lab.panels.hooks import COUNTERS, Instead, replace_until
from ledger_lab.panels.memory import Memory
from ledger_lab.panels.physics import exactness
from ledger_lab.panels.starts import same_numbers, same_values, start_quantities
from ledger_lab.panels.streams import GlobalStreams
from ledger_lab.panels.terms import events, functions, observations, observed, terminations

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

    from ledger_lab.panels.slots import HeldOutSlots

_LATER = 1_000_003
"""How far clocks [s] and step counters are ahead in other surroundings."""

_AHEAD = ContextVar("_AHEAD", default=False)
"""Whether clocks and the process id are others for this thread: LedgerLab's own threads go on measuring."""


class _Later(datetime.datetime):
    """A clock's date and time, some days ahead."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:  # type: ignore[override]
        """Return what the clock will show."""
        return datetime.datetime.now(tz) + datetime.timedelta(seconds=_LATER)


def _ahead(read: Callable[[], float], by: int = _LATER) -> Callable[[], float]:
    """Return what reads a clock or a process id, and adds a constant in other surroundings."""
    return lambda: read() + (by if _AHEAD.get() else 0)


_CLOCKS = (time.time, time.monotonic, time.perf_counter)
_CLOCKS_NS = (time.time_ns, time.monotonic_ns, time.perf_counter_ns)
_OTHERS: dict[int, Any] = {
    **{id(read): _ahead(read) for read in (*_CLOCKS, os.getpid)},
    **{id(read): _ahead(read, _LATER * 10**9) for read in _CLOCKS_NS},
    **{id(read): lambda: 97 for read in (os.cpu_count, torch.get_num_threads)},
    id(builtins.hash): lambda value: builtins.hash((_LATER, value)),
    id(datetime.datetime): _Later,
}
"""What stands for functions and classes, by their ids."""


class _OtherModule:
    """A module in which some functions are others."""

    def __init__(self, module: ModuleType) -> None:
        """Stand for a module."""
        self._module = module

    def __getattr__(self, name: str) -> Any:
        """Return what the module has, or what stands for it."""
        value = getattr(self._module, name)
        return _OTHERS.get(id(value), value)


@contextmanager
def other_surroundings(base: ManagerBasedRLEnv, modules: Iterable[ModuleType] = ()) -> Iterator[None]:
    """Within the context, change step counters, clocks, process id, hashes, numbers of threads and random streams.

    Clocks are others for the whole calling thread; other functions are replaced where the modules refer to them.

    Args:
        base: The environment, unwrapped.
        modules: The modules of the task's terms.
    """
    with ExitStack() as undo:
        undo.callback(GlobalStreams().restore)
        torch.manual_seed(random.getrandbits(32))
        np.random.seed(random.getrandbits(32))
        random.seed(random.getrandbits(32))
        for name in COUNTERS:
            replace_until(undo, base, name, getattr(base, name) + _LATER)
        undo.callback(_AHEAD.reset, _AHEAD.set(True))
        for clock in (*_CLOCKS, *_CLOCKS_NS):
            replace_until(undo, time, clock.__name__, _OTHERS[id(clock)])
        for module in modules:
            for name, value in {"hash": builtins.hash, **vars(module)}.items():
                if isinstance(value, ModuleType) and value in (datetime, os, time, torch):
                    replace_until(undo, module, name, _OtherModule(value))
                elif id(value) in _OTHERS:
                    replace_until(undo, module, name, _OTHERS[id(value)])
        yield


_STEPS, _PHYSICS_STEPS, _LEAST_STEPS = 16, 64, 2
"""Steps of each play, if the engine repeats episodes bit for bit; fewer if they take more physics steps than this, so
that a rehearsal takes seconds. On other engines, only starts and functions of scattered states are compared."""

_LIBRARIES = ("isaaclab", "torch", "numpy", "warp", "functools", "builtins", "ledger_lab.panels")
"""Prefixes of modules whose globals are not restored: they hold no state of a task."""

_ROUNDING = 1e-3
"""Largest difference, relative and absolute, that counts as rounding on other engines. Their slots are at different
places in the world."""

_WILD = 10.0
"""How much larger the actions of the other slots are in the second play."""

_AT_START, _FAR = " at the start", " in a state far from the start"
"""Moments of a play, besides its steps."""

_SOLVER = frozenset(
    {
        *("time", "qpos", "qvel", "act", "history", "qacc_warmstart"),
        *("ctrl", "qfrc_applied", "xfrc_applied", "eq_active", "mocap_pos", "mocap_quat", "userdata"),
        *("tree_asleep", "tree_awake", "body_awake", "body_awake_ind", "dof_awake_ind"),
        *("ntree_awake", "nbody_awake", "nv_awake"),
    }
)
"""MuJoCo's integration state, as its documentation calls it: the inputs of a step. Each step recomputes all other
arrays."""


type _Different = Literal["company", "surroundings"]
"""What can differ in the second play: episodes are in other slots, beside slots with much larger actions; counters,
clocks, the process id, hashes and random streams are others."""

_ALL: tuple[_Different, ...] = ("company", "surroundings")

_DEPENDS_ON: dict[tuple[_Different, ...], str] = {
    (): "what happened before the episode",
    ("surroundings",): (
        "step counters, the clock, the process id, a hash, or random numbers that no seed of an episode determines"
    ),
    ("company",): "other environments, or on the slot",
}
"""What an episode depends on if plays differ although no more than this differs."""


class Rehearsal:
    """Plays of the held-out episodes of one environment. Afterwards, the environment is as it was."""

    def __init__(
        self, held_out: HeldOutSlots, base: ManagerBasedRLEnv, cells: Sequence[str], success: object, name: str
    ) -> None:
        """Choose the slot of each episode in the second play. Call it before any hook is attached.

        Args:
            held_out: The held-out slots.
            base: The environment, unwrapped.
            cells: The cell of each held-out slot. Slots of different cells are never exchanged.
            success: The success function.
            name: What a message calls it.
        """
        self._held_out, self._success_name = held_out, name
        self._base, self._first = base, (first := held_out.first)
        self._rows = slice(first, first + len(cells))
        self._slots = np.arange(len(cells))
        self._order, self._kept = _exchanged(cells)
        self._success, self._modules = success, _modules([*functions(base), success])
        self._bitwise = exactness(base.cfg) == "bitwise"
        fitting = max(_LEAST_STEPS, min(_STEPS, _PHYSICS_STEPS // base.cfg.decimation))
        self._steps = fitting if self._bitwise else 0
        self._declared = _Recording()
        """A play before the training, in which the engine dropped nothing."""
        self._declared_steps = 0
        """Its steps."""
        self._overflowed = False
        """Whether the engine dropped contacts or constraints in the last pair of plays."""

    def require_own_episodes(self) -> None:
        """Refuse a task whose episodes depend on more than their seeds. Training draws the same numbers after it.

        Raises:
            UserError: If two plays differ. The message names the first quantity that differs, the event that makes the
                difference if one alone does, and what the episode depends on.
        """
        with self._left_as_it_was():
            self._held_out.start_slots(
                self._slots[:1]
            )  # to refuse draws whose row count equals that of the slots by chance
            # The first pair finds what terms remember since their first call, which the second play makes anew.
            for steps, forgets in ((0, True), (self._steps, False)):
                differs = functools.partial(self._difference, steps, forgets)
                found = differs(_ALL)
                if found is not None and self._overflowed:  # the engine drops contacts of other slots, too
                    differs = functools.partial(self._difference, 0, forgets)
                    found = differs(_ALL)
                if found is not None:
                    raise UserError(self._describe(found, differs))

    def require_unchanged(self, count: int) -> None:
        """Refuse episodes that are no longer those of :meth:`require_own_episodes`, before a panel begins.

        Replays don't find what changes only once before the first panel, nor what changes few episodes, such as a
        termination far from the start. Engines that don't repeat episodes bit for bit are not checked.

        Args:
            count: Number of slots, from the first, that still have the same episodes.

        Raises:
            UserError: If an episode differs. The message names the first quantity that differs.
        """
        declared = self._declared
        if not declared or not self._first or not self._bitwise:
            return
        # Tensors that were made in inference mode can be written only there.
        groups = (group if isinstance(group, dict) else {"": group} for group in self._base.obs_buf.values())
        inferred = any(each.is_inference() for group in groups for each in group.values())
        with torch.inference_mode(inferred), self._left_as_it_was():
            now = self._played(self._declared_steps, self._slots, wild=False)
            changed = [name for name, value in now.items() if not same_numbers(value[:count], declared[name][:count])]
            if self._held_out.overflowed():  # what follows from the engine's steps proves nothing
                changed = [name for name in changed if name.endswith(_AT_START)]
            found = next(iter(changed), None)
            if found is not None:
                raise UserError(
                    f"the training has changed what held-out episodes share with it: the same episode now differs in "
                    f"{found}. Something that a curriculum, an event or a reward has changed lasts longer than an "
                    "episode: change only events, commands, rewards or physical parameters, or train with --no_eval "
                    "and score with evaluate.py"
                )

    @contextmanager
    def _left_as_it_was(self) -> Iterator[None]:
        """Restore the environment, what terms remember, and the random streams when the context ends."""
        base = self._base
        streams, log = GlobalStreams(), base.extras.get("log")
        roots, modules = {"env": base, "success": self._success}, self._modules
        self._memory = _whole_simulation(roots, modules) if self._bitwise else _without_physics(roots, modules)
        self._before = base.scene.get_state()
        try:
            yield
        finally:
            streams.restore()
            self._restore()
            if not self._bitwise:
                _write(base, self._before)
            if log is None:
                base.extras.pop("log", None)
            else:
                base.extras["log"] = log

    def _restore(self) -> None:
        """Restore all values; tell MuJoCo's C code that physical properties may have changed."""
        self._memory.restore()
        if self._bitwise:
            from isaaclab_newton.physics import NewtonManager

            NewtonManager._model_changes = set()  # of what has been replaced
            if (stepper := getattr(NewtonManager._solver, "stepper", None)) is not None:
                stepper.refresh()

    def _describe(self, found: str, differs: Callable[[tuple[_Different, ...]], str | None]) -> str:
        """Return the message: what differs, which event causes it, and on what it depends."""
        several = "several of these together: other environments, earlier episodes, counters, clocks, random numbers"
        what = next((words for only, words in _DEPENDS_ON.items() if differs(only) is not None), several)
        causes = [(when, *each) for when in ("reset", "interval") for each in events(self._base, when)]
        for mode, name, term in causes:
            with ExitStack() as undo:
                replace_until(undo, term, "func", Instead(term.func, lambda *_, **params: None))
                alone = differs(_ALL) is None
            if alone:
                found = f"{mode} event {name!r} changes {found}"
                break
        return (
            f"held-out episodes depend on more than their seeds: two plays of the same episode differ: {found}. This "
            f"depends on {what}. An episode may depend only on its own state, and on random numbers that torch draws "
            "with one row per environment"
        )

    def _difference(self, steps: int, forgets: bool, second: tuple[_Different, ...]) -> str | None:
        """Play the episodes twice; return the first quantity that differs."""
        base, slots, wild = self._base, self._held_out, "company" in second
        order = self._order if wild else self._slots
        if forgets:
            self._restore()
        slots.overflowed()  # forget what was before
        expected = self._played(steps, self._slots, wild=False)
        self._overflowed = slots.overflowed()
        if not self._overflowed and steps >= self._declared_steps:
            self._declared, self._declared_steps = expected, steps
        if forgets:
            self._restore()
        else:
            self._look_elsewhere()
        with other_surroundings(base, self._modules) if "surroundings" in second else nullcontext():
            found = self._played(steps, order, wild=wild)
        self._overflowed |= slots.overflowed()
        compared = np.flatnonzero(self._kept) if wild else self._slots
        rows, then = (torch.as_tensor(each, device=base.device) for each in (compared, order[compared]))
        same = same_numbers if self._bitwise else functools.partial(same_values, tolerance=_ROUNDING)
        return next((name for name, value in found.items() if not same(value[rows], expected[name][then])), None)

    def _played(self, steps: int, order: NDArray[np.int64], *, wild: bool) -> _Recording:
        """Play episodes, and return what there was to see: at the start, in each step, and in scattered states."""
        base, slots, seen = self._base, self._held_out, _Recording()
        base.scene.write_data_to_sim()  # Isaac Lab publishes limits of joint velocities, which resets read, only here
        _write(base, self._before)  # scattered robots of training slots would take many times as long to simulate
        slots.start(order)
        base.command_manager.compute(dt=base.step_dt)  # some commands are in the robot's frame
        seen.note(_AT_START, start_quantities(base, self._rows, is_relative=not self._bitwise))
        probes = self._probes(steps, order, wild=wild)
        compute = base.termination_manager.compute

        def compute_terminations() -> torch.Tensor:
            done: torch.Tensor = compute()
            seen.note(when, self._judged())
            if step == 0 and wild and self._first and is_direct(base):
                self._reset_training()
            return torch.zeros_like(done)

        def apply_events(mode: str, **arguments: Any) -> None:
            if mode == "interval":
                slots.on_interval_events(arguments["dt"])

        with ExitStack() as undo:  # held-out slots don't reset, curricula and training's interval events don't run
            replace_until(undo, base.termination_manager, "compute", compute_terminations)
            replace_until(undo, base.event_manager, "apply", apply_events)
            for step in range(steps):
                when = f" in step {step + 1}"
                slots.play(probes[step])
                seen.note(when, itertools.chain(start_quantities(base, self._rows), self._observed()))
        _scatter(base, self._before, self._first, order, self._kept if wild else None)
        seen.note(_FAR, self._look())
        return seen

    def _reset_training(self) -> None:
        """Reset the training slots at the true step counters; a direct task's reset may write more than its rows."""
        with ExitStack() as undo:
            for name in COUNTERS if _AHEAD.get() else ():
                replace_until(undo, self._base, name, getattr(self._base, name) - _LATER)
            self._base._reset_idx(torch.arange(self._first, dtype=torch.int32, device=self._base.device))

    def _judged(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield the success and the terminations of the step."""
        manager = self._base.termination_manager
        yield self._success_name, self._held_out.log.succeeds()[self._rows]
        for name in manager.active_terms:
            yield f"termination {name!r}", manager.get_term(name)[self._rows]

    def _observed(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield the observations of the step by their terms."""
        for name, place in observed(self._base):
            seen = self._base.obs_buf[place.group]
            term = seen[place.part] if isinstance(place.part, str) else seen[..., place.part]
            yield f"observation {name!r}", term[self._rows]
        for group, seen in self._base.obs_buf.items():  # a direct task may return more than its spaces tell
            if group not in self._base.observation_manager.active_terms and isinstance(seen, torch.Tensor):
                yield f"observation group {group!r}", seen[self._rows]

    def _look(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Compute rewards, success, terminations and observations of the present state; yield all but the rewards."""
        base = self._base
        for name in base.reward_manager.active_terms:
            term = base.reward_manager.get_term_cfg(name)
            term.func(base, **term.params)
        yield self._success_name, self._held_out.log.succeeds()[self._rows]
        for kind, terms in (("termination", terminations(base)), ("observation", observations(base))):
            for name, term in terms:
                yield f"{kind} {name!r}", term.func(base, **term.params)[self._rows]

    def _look_elsewhere(self) -> None:
        """Call all terms with states far from the start, late in an episode; twice, in case a term alternates."""
        base = self._base
        for _ in range(2):
            _scatter(base, self._before, self._first, self._order, self._kept)
            base.episode_length_buf.fill_(base.max_episode_length - 1)
            list(self._look())

    def _probes(self, steps: int, order: NDArray[np.int64], *, wild: bool) -> torch.Tensor:
        """Return the actions of all slots, which follow from the episode numbers; shape (steps, num_envs, actions)."""
        base = self._base
        actions = base.action_manager.total_action_dim
        own = [np.random.default_rng([0x9807E, int(each)]).uniform(-1.0, 1.0, (steps, actions)) for each in order]
        held_out = np.stack(own, axis=1)
        training = np.random.default_rng(0x9807E).uniform(-1.0, 1.0, (steps, self._first, actions))
        if wild:
            held_out[:, ~self._kept] *= _WILD
        training *= _WILD if wild else 0.0
        return torch.as_tensor(np.concatenate([training, held_out], axis=1), dtype=torch.float32, device=base.device)


class _Recording(dict[str, torch.Tensor]):
    """What a play showed, in order: by quantity and moment, a value per held-out slot."""

    def note(self, when: str, values: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Copy values of a moment."""
        self.update((name + when, value.clone()) for name, value in values)


def _whole_simulation(roots: Mapping[str, Any], modules: Iterable[ModuleType]) -> Memory:
    """Return a memory of everything that the next step depends on, with MuJoCo in a Newton scene.

    Newton's solver hears now about changed physical properties, so that what is copied is complete.
    """
    from isaaclab.physics import PhysicsManager
    from isaaclab_newton.physics import NewtonManager
    from isaaclab_newton.physics.mjwarp_manager import NewtonMJWarpManager
    from mujoco_warp import Data
    from newton import ModelBuilder

    with wp.ScopedDevice(PhysicsManager._device):
        for change in list(NewtonManager._model_changes):
            NewtonManager._solver.notify_model_changed(change)
    NewtonManager._model_changes = set()
    physics = {kind.__name__: kind for kind in (PhysicsManager, NewtonManager, NewtonMJWarpManager)}
    model = NewtonManager.backend.model
    # Skip its tables of pairs and labels: they are longer than everything else, and never change.
    short = frozenset(name for name, value in vars(model).items() if not isinstance(value, (dict, list, set, tuple)))
    only = {Data: _SOLVER, type(model): short, ModelBuilder: frozenset[str]()}
    if (stepper := getattr(NewtonManager._solver, "stepper", None)) is not None:
        only[type(stepper)] = frozenset({"status"})  # the rest is memory of its threads, or belongs to MuJoCo-Warp
    return Memory({**roots, **physics}, only=only, modules=modules)


def _without_physics(roots: Mapping[str, Any], modules: Iterable[ModuleType]) -> Memory:
    """Return a memory of everything but the physics, on engines that don't expose their state."""
    base = roots["env"]
    entities = [base.scene[name] for name in base.scene.keys()]  # noqa: SIM118 - no dict
    return Memory(roots, closed=[base.sim, *entities], modules=modules)


def _exchanged(cells: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the number of the episode for each slot in the second play, and which slots are compared.

    Half of the episodes of each cell are in other slots of the cell. All other slots hold copies of its last episode.

    Args:
        cells: The cell of each slot.
    """
    order, kept = np.arange(len(cells)), np.zeros(len(cells), dtype=bool)
    for cell in dict.fromkeys(cells):
        group = np.flatnonzero(np.array(cells) == cell)
        half = (len(group) + 1) // 2
        places = group[::-1][:half]
        order[group] = group[-1]
        order[places], kept[places] = group[:half], True
    return order, kept


def _modules(calls: Sequence[Any]) -> list[ModuleType]:
    """Return the modules that define the functions and the classes of the objects."""
    whole = (getattr(each, "func", each) if isinstance(each, functools.partial) else each for each in calls)
    names = {each.__module__ for each in whole if not each.__module__.startswith(_LIBRARIES)}
    return [sys.modules[name] for name in names if name in sys.modules]


def _scatter(
    base: ManagerBasedRLEnv,
    before: Mapping[str, Any],
    first: int,
    order: NDArray[np.int64],
    kept: NDArray[np.bool_] | None,
) -> None:
    """Move the scene of each slot: held-out slots by distances that the number of the episode determines.

    Some episodes stay close to their state, others end up far from it. Slots that are not kept, and training slots
    beside them, go a hundred times as far.
    """
    state = base.scene.get_state()
    draws = [np.random.default_rng([0x5CA77E2, int(episode)]) for episode in order]
    reach = np.array([10.0 ** draw.uniform(-3.0, 0.0) for draw in draws])
    if kept is not None:
        reach[~kept] = 100.0
    training = np.random.default_rng(0x5CA77E3)
    for kind, entities in state.items():
        for name, entity in entities.items():
            fixed = getattr(base.scene[name], "is_fixed_base", False)
            for quantity, value in entity.items():
                if fixed and quantity.startswith("root"):
                    continue
                shape = value.shape[1:]
                own = np.stack([r * draw.uniform(-1.0, 1.0, shape) for draw, r in zip(draws, reach, strict=True)])
                away = 0.0 if kept is None else 100.0
                others = away * training.uniform(-1.0, 1.0, (first, *shape))
                value[:first] = before[kind][name][quantity][:first]
                rows = value[: first + len(order)]
                rows += torch.as_tensor(np.concatenate([others, own]), dtype=value.dtype, device=value.device)
                if quantity == "root_pose":
                    rows[:, 3:] = torch.nn.functional.normalize(rows[:, 3:], dim=1)
    _write(base, state)


def _write(base: ManagerBasedRLEnv, state: Mapping[str, Any]) -> None:
    """Write the state of a scene, and nothing else.

    Isaac Lab's own ``reset_to`` also sets the targets of joints, and moves fixed bases by rounding. Both would reach
    the training.
    """
    for name, entity in state["articulation"].items():
        articulation = base.scene[name]
        if not articulation.is_fixed_base:
            articulation.write_root_pose_to_sim_index(root_pose=entity["root_pose"])
            articulation.write_root_velocity_to_sim_index(root_velocity=entity["root_velocity"])
        articulation.write_joint_position_to_sim_index(position=entity["joint_position"])
        articulation.write_joint_velocity_to_sim_index(velocity=entity["joint_velocity"])
    for name, entity in state["rigid_object"].items():
        base.scene[name].write_root_pose_to_sim_index(root_pose=entity["root_pose"])
        base.scene[name].write_root_velocity_to_sim_index(root_velocity=entity["root_velocity"])
    base.sim.forward()
