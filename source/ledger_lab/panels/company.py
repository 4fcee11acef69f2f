"""Checks that episodes start alike in every slot, and that functions judge each environment by its own state.

The checks look at behaviour only: the same episodes and states are put beside other states and into other slots. So
they also find functions that mix environments in NumPy, in Python or through variables of a module.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils._python_dispatch import TorchDispatchMode

from ledger_lab.errors import UserError
from ledger_lab.panels.starts import find_cause, other_surroundings, start_quantities
from ledger_lab.panels.streams import GlobalStreams

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

_TOLERANCE = 1e-3
"""Largest difference, relative and absolute, that rounding may make: slots have different places in the world."""

_ROUNDING_OF_STARTS = 1e-4
"""The same for the start of an episode, whose positions are relative to the slot's place."""

type Start = Callable[[NDArray[np.int64]], None]
"""Starts episodes in the held-out slots; takes the number of the episode for each slot, shape (slots,)."""


def require_own_rows(
    base: ManagerBasedRLEnv,
    first: int,
    cells: Sequence[str],
    start: Start,
    success: tuple[str, Callable[[], torch.Tensor]],
    observations: Mapping[str, Callable[[], torch.Tensor]],
) -> None:
    """Refuse a task whose held-out episodes depend on their slots, or on other environments.

    The episodes of the slots are started as they are, in reverse order, and with either half replaced by copies of one
    episode. The same episode must start alike each time. Then the scene is moved to states far from the start, and
    copies even further. The success function, the observations and the terminations must give the same value for the
    same episode each time. Each company is made twice, so that what a slot did before is the same the second time.
    Before, all rewards are computed, as in a step, because the other functions may read what a reward has stored. At
    last, the episodes start again, and must start as at first, whatever the terms have stored meanwhile.

    Args:
        base: The environment, unwrapped.
        first: The first held-out slot.
        cells: The cell of each held-out slot. Slots of different cells are never exchanged.
        start: Starts episodes.
        success: What the message calls the success function, and the function; it returns shape (num_envs,).
        observations: Observation terms by what the message calls them; each returns shape (num_envs, ...). Unlike other
            terms, those that draw random numbers may give another value each time. Terms that are objects may remember
            what they returned before, until the start of an episode resets them.

    Raises:
        UserError: If an episode starts differently in another slot; or if a function depends on other environments, or
            gives two answers for the same state, for example because it reads a step counter.
    """
    slots = np.arange(len(cells))
    groups = [np.flatnonzero(np.array(cells) == cell) for cell in dict.fromkeys(cells)]
    reverse, first_half, second_half = slots.copy(), slots.copy(), slots.copy()
    for group in groups:
        middle = (len(group) + 1) // 2
        reverse[group] = group[::-1]
        first_half[group[middle:]] = group[0]
        second_half[group[: len(group) - middle]] = group[-1]
    companies = [reverse, first_half, second_half]
    rows = slice(first, first + len(cells))
    if cause := find_cause(base, lambda: _start_difference(base, rows, start, companies)):
        raise UserError(
            f"episodes start differently in other slots, or beside other episodes: {cause}. What a reset draws for an "
            "environment must come from torch's global random stream, one row per environment, and must not depend on "
            "the number or the order of the environments"
        )
    before = base.scene.get_state()
    functions = dict([success, *observations.items(), *_terminations(base)])
    rewards = list(_rewards(base))

    def look() -> dict[str, torch.Tensor]:
        for reward in rewards:
            reward()
        return {name: function()[rows].clone() for name, function in functions.items()}

    free = {name for name, function in functions.items() if name != success[0] and _draws(function)}
    steady = functions.keys() - free - _objects(base)

    def values(order: NDArray[np.int64], company: int) -> dict[str, torch.Tensor]:
        for _ in range(2):
            start(order)
            _scatter(base, before, first, order, company)
            found = look()
        with other_surroundings(base):
            again = {name: function()[rows].clone() for name, function in functions.items() if name in steady}
        for name, value in again.items():
            if not torch.equal(value.nan_to_num(), found[name].nan_to_num()):
                raise UserError(
                    f"{name} gives two answers for the same state: make it depend on the state alone, and not on step "
                    "counters, the clock or its earlier values"
                )
        return {name: value.reshape(len(cells), -1).double().nan_to_num() for name, value in found.items()}

    alone = values(slots, 0)
    others = [(order, values(order, company)) for company, order in enumerate(companies, 1)]
    again = values(slots, 0)

    def start_far_away() -> None:
        _scatter(base, before, first, first_half, 1)  # copies of an episode go far
        look()
        start(slots)

    stored = find_cause(base, lambda: _changed_start(base, rows, lambda: start(slots), start_far_away))
    _write(base, before)
    if stored:
        raise UserError(
            f"an episode starts differently when rewards, observations or terminations have looked at other states: "
            f"{stored}. A reset must not read what another term has stored"
        )
    for name, expected in alone.items():
        unchanged = _alike(again[name], expected)
        for order, found in others:
            kept, own = _places(order, slots, expected.device)
            judged = own & unchanged[kept]
            changed = int((judged & ~_alike(found[name], expected[kept])).sum())
            if changed:
                raise UserError(
                    f"{name} mixes environments: beside other environments, it has another value for the same state in "
                    f"{changed} of {int(judged.sum())} slots, so an episode would depend on its company"
                )
        if name not in free and not bool(unchanged.all()):
            raise UserError(
                f"{name} has another value when the same episode starts again: at the start of an episode, reset "
                "everything that it remembers"
            )


def _changed_start(
    base: ManagerBasedRLEnv, rows: slice, start: Callable[[], None], other: Callable[[], None]
) -> str | None:
    """Start the episodes in two ways; return the first quantity that differs."""
    start()
    expected = dict(start_quantities(base, rows, is_relative=True))
    other()
    for name, value in start_quantities(base, rows, is_relative=True):
        left, right = (each.reshape(len(each), -1).double().nan_to_num() for each in (value, expected[name]))
        if not bool(_alike(left, right, _ROUNDING_OF_STARTS).all()):
            return name
    return None


def _start_difference(
    base: ManagerBasedRLEnv, rows: slice, start: Start, orders: Sequence[NDArray[np.int64]]
) -> str | None:
    """Start the episodes in several orders; return the first quantity that differs between starts of an episode."""
    slots = np.arange(rows.stop - rows.start)
    start(slots)
    expected = dict(start_quantities(base, rows, is_relative=True))
    for order in orders:
        start(order)
        for name, value in start_quantities(base, rows, is_relative=True):
            kept, own = _places(order, slots, value.device)
            left, right = (each.reshape(len(slots), -1).double().nan_to_num() for each in (value, expected[name][kept]))
            if bool((own & ~_alike(left, right, _ROUNDING_OF_STARTS)).any()):
                return name
    return None


def _places(
    order: NDArray[np.int64], slots: NDArray[np.int64], device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return where each slot's episode usually is, and in which slots a comparison with that place means something.

    If an episode is in several slots, only its own slot counts: copies have the same place, but another history.
    """
    several = len(np.unique(order)) < len(order)
    own = order == slots if several else np.ones(len(slots), dtype=bool)
    return torch.as_tensor(order, device=device), torch.as_tensor(own, device=device)


def _terminations(base: ManagerBasedRLEnv) -> Iterator[tuple[str, Callable[[], torch.Tensor]]]:
    """Yield the termination terms by what the message calls them."""
    manager = base.termination_manager
    for name in manager.active_terms:
        term = manager.get_term_cfg(name)
        yield f"termination {name!r}", functools.partial(term.func, base, **term.params)


def _rewards(base: ManagerBasedRLEnv) -> Iterator[Callable[[], object]]:
    """Yield the reward terms."""
    manager = base.reward_manager
    for name in manager.active_terms:
        term = manager.get_term_cfg(name)
        yield functools.partial(term.func, base, **term.params)


def _objects(base: ManagerBasedRLEnv) -> set[str]:
    """Return what the message calls the terms that are objects, which Isaac Lab resets at the start of an episode."""
    from isaaclab.managers import ManagerTermBase

    manager = base.observation_manager
    observations = {
        f"observation {name!r}": term.func
        for group, terms in manager._group_obs_term_cfgs.items()
        for name, term in zip(manager.active_terms[group], terms, strict=True)
    }
    ends = base.termination_manager
    terminations = {f"termination {name!r}": ends.get_term_cfg(name).func for name in ends.active_terms}
    return {name for name, term in {**observations, **terminations}.items() if isinstance(term, ManagerTermBase)}


def _draws(function: Callable[[], torch.Tensor]) -> bool:
    """Tell whether a function draws random numbers, also from the own streams of slots; restore the global streams."""
    streams, watch = GlobalStreams(), _Draws()
    with watch:
        function()
    drew = watch.found or bool(streams.moved())
    streams.restore()
    return drew


class _Draws(TorchDispatchMode):
    """Records whether torch draws random numbers."""

    found = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401
        """Look at an operation, then run it."""
        self.found = self.found or torch.Tag.nondeterministic_seeded in func.tags
        return func(*args, **(kwargs or {}))


def _alike(left: torch.Tensor, right: torch.Tensor, tolerance: float = _TOLERANCE) -> torch.Tensor:
    """Return the rows in which two tensors are equal, apart from rounding; shape (rows,)."""
    return torch.isclose(left, right, rtol=tolerance, atol=tolerance).all(dim=1)


def _scatter(
    base: ManagerBasedRLEnv, before: dict[str, Any], first: int, order: NDArray[np.int64], company: int
) -> None:
    """Move the scene of each slot: held-out slots by distances that the number of the episode determines.

    Copies of an episode that has a slot of its own move 100 times as far. Training slots stand as ``before`` for
    company 0, far from there for company 1, and near it for other companies.
    """
    state = base.scene.get_state()
    draws = [np.random.default_rng([0x5CA77E2, int(episode)]) for episode in order]
    # Some episodes stay close to their start, others end up far from it.
    reach = [10.0 ** draw.uniform(-3.0, 0.0) for draw in draws]
    if len(np.unique(order)) < len(order):
        reach = [100.0 if episode != slot else r for slot, (episode, r) in enumerate(zip(order, reach, strict=True))]
    training = np.random.default_rng([0x5CA77E3, company])
    away = (0.0, 100.0, 1.0, 1.0)[company]
    for kind, entities in state.items():
        for name, entity in entities.items():
            fixed = getattr(base.scene[name], "is_fixed_base", False)
            for quantity, value in entity.items():
                if fixed and quantity.startswith("root"):
                    continue
                shape = value.shape[1:]
                own = np.stack([r * draw.uniform(-1.0, 1.0, shape) for draw, r in zip(draws, reach, strict=True)])
                others = away * training.uniform(-1.0, 1.0, (first, *shape))
                noise = np.concatenate([others, own])
                value[:first] = before[kind][name][quantity][:first]
                rows = value[: first + len(order)]
                rows += torch.as_tensor(noise, dtype=value.dtype, device=value.device)
                if quantity == "root_pose":
                    rows[:, 3:] = torch.nn.functional.normalize(rows[:, 3:], dim=1)
    _write(base, state)


def _write(base: ManagerBasedRLEnv, state: dict[str, Any]) -> None:
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
