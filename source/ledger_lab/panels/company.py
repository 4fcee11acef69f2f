"""Checks that success functions and observations judge each environment by its own state.

The checks look at behaviour only: the same states are put beside other states and into other slots. So they also find
functions that mix environments in NumPy, in Python or through variables of a module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from ledger_lab.errors import UserError
from ledger_lab.panels.starts import other_surroundings

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

_TOLERANCE = 1e-3
"""Largest difference, relative and absolute, that rounding may make: slots have different places in the world."""


def require_own_rows(
    base: ManagerBasedRLEnv,
    first: int,
    cells: Sequence[str],
    start: Callable[[NDArray[np.int64]], None],
    success: tuple[str, Callable[[], torch.Tensor]],
    observations: Mapping[str, Callable[[], torch.Tensor]],
) -> None:
    """Refuse functions whose value for an environment depends on the states of other environments.

    The episodes of the slots are started, and moved to states far from their start: as they are, in reverse order, and
    with the second half replaced by copies of the first episode. The same episode must give the same value each time.
    Rows that change without a change of their company are left out, as the joint accelerations of a simulation that
    does not move are.

    Args:
        base: The environment, unwrapped.
        first: The first held-out slot.
        cells: The cell of each held-out slot. Slots of different cells are never exchanged.
        start: Starts episodes; takes the number of the episode for each slot, shape (slots,).
        success: What the message calls the success function, and the function; it returns shape (num_envs,).
        observations: Observation terms by what the message calls them; each returns shape (num_envs, ...). Unlike the
            success function, a term may draw random numbers, or remember what it returned before.

    Raises:
        UserError: If a function depends on other environments, or the success function gives two answers for the same
            state, for example because it reads a step counter.
    """
    slots = np.arange(len(cells))
    groups = [np.flatnonzero(np.array(cells) == cell) for cell in dict.fromkeys(cells)]
    reverse, crowd = slots.copy(), slots.copy()
    for group in groups:
        reverse[group] = group[::-1]
        crowd[group[(len(group) + 1) // 2 :]] = group[0]

    what, succeeds = success
    before = base.scene.get_state()

    def values(order: NDArray[np.int64], company: int) -> dict[str, torch.Tensor]:
        start(order)
        _scatter(base, before, first, order, company)
        found = {what: succeeds(), **{name: observation() for name, observation in observations.items()}}
        with other_surroundings(base):
            again = succeeds()
        if not torch.equal(again, found[what]):
            raise UserError(f"{what} gives two answers for the same state: let it depend on the state alone")
        rows = slice(first, first + len(cells))
        return {name: value[rows].reshape(len(cells), -1).double().nan_to_num() for name, value in found.items()}

    alone = values(slots, 0)
    others = [(order, values(order, company)) for company, order in enumerate((reverse, crowd), 1)]
    again = values(slots, 0)
    _write(base, before)
    for name, expected in alone.items():
        steady = _alike(again[name], expected)
        for order, found in others:
            kept = torch.as_tensor(order if order is reverse else slots, device=expected.device)
            own = torch.as_tensor(order == slots) if order is crowd else torch.ones(len(slots), dtype=torch.bool)
            judged = own.to(expected.device) & steady[kept]
            changed = int((judged & ~_alike(found[name], expected[kept])).sum())
            if changed:
                raise UserError(
                    f"{name} mixes environments: beside other environments, it has another value for the same state in "
                    f"{changed} of {int(judged.sum())} slots, so an episode would depend on its company"
                )


def _alike(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Return the rows in which two tensors are equal, apart from rounding; shape (rows,)."""
    return torch.isclose(left, right, rtol=_TOLERANCE, atol=_TOLERANCE).all(dim=1)


def _scatter(
    base: ManagerBasedRLEnv, before: dict[str, Any], first: int, order: NDArray[np.int64], company: int
) -> None:
    """Move the scene of each slot: held-out slots by distances that the number of the episode determines.

    Training slots stand as ``before`` for company 0, far from there for company 1, and near it for company 2.
    """
    state = base.scene.get_state()
    draws = [np.random.default_rng([0x5CA77E2, int(episode)]) for episode in order]
    # Some episodes stay close to their start, others end up far from it.
    reach = [10.0 ** draw.uniform(-3.0, 0.0) for draw in draws]
    training = np.random.default_rng([0x5CA77E3, company])
    away = (0.0, 100.0, 1.0)[company]
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
