"""Detects contacts and constraints that the physics engine dropped for lack of capacity.

MuJoCo-Warp keeps contacts and constraints in buffers of a fixed size. Newton's own collisions with meshes and height
fields keep pairs of shapes and triangles in such buffers, too. Entries that do not fit are dropped, and the simulated
physics is then different. MuJoCo's C code has no such sizes, but reports if it runs out of memory. It never finds more
than 50 contacts of a shape with a height field, and does not report that it left out others. Sensors read what it found
from the buffers of MuJoCo-Warp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import warp as wp

from ledger_lab.ledger import CapacityUsed, Row
from ledger_lab.ledger.meters.phases import PhaseClock
from ledger_lab.panels.physics import NATIVE, is_mujoco, physics_name

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

    from ledger_lab.panels.slots import HeldOutSlots


@wp.kernel(enable_backward=False)
def _note_step(
    dropping: int,
    constraints: wp.array[int],
    solver_flags: wp.array[int],
    flags: wp.array[int],
    most_constraints: wp.array[int],
) -> None:
    """Record what a step of the solver dropped, and the constraints that it needed; one thread per world."""
    world = wp.tid()
    flags[world] = flags[world] | (solver_flags[world] & dropping)
    solver_flags[world] = solver_flags[world] & ~dropping
    most_constraints[world] = wp.max(most_constraints[world], constraints[world])


@wp.kernel(enable_backward=False)
def _note_pool(
    dropped: int, needed: wp.array[int], capacity: int, flags: wp.array[int], most_needed: wp.array[int]
) -> None:
    """Record whether all worlds together exceeded the capacity of a shared buffer; one thread per world."""
    world = wp.tid()
    if needed[0] > capacity:
        flags[world] = flags[world] | dropped
    if world == 0:
        most_needed[0] = wp.max(most_needed[0], needed[0])


@dataclass(frozen=True)
class _Pool:
    """A buffer that all slots share."""

    dropped: int
    """Bits of the flags that stand for what it dropped."""
    needed: wp.array
    """Entries needed in the last step."""
    capacity: int
    most_needed: wp.array


def _triangles(narrow_phase: Any, dropped: int) -> list[_Pool]:
    """Return the shared buffers of collisions with triangles: pairs, unreduced contacts, failed reductions."""
    counters = []
    if narrow_phase.triangle_pairs is not None:
        counters.append((narrow_phase.triangle_pairs_count, narrow_phase.triangle_pairs.shape[0]))
    if (reducer := narrow_phase.global_contact_reducer) is not None:
        counters += [(reducer.contact_count, reducer.capacity - 1), (reducer.ht_insert_failures, 0)]
    return [_Pool(dropped, needed, capacity, wp.zeros_like(needed)) for needed, capacity in counters]


class CapacityWatch:
    """Checks the solver after each of its steps, and remembers the slots that exceeded a capacity.

    The check extends the solver's own step, so it is part of every substep (``decimation`` and ``num_substeps``), also
    of recorded and replayed substeps. Constraints have a capacity per slot. Contacts share one buffer: if it overflows,
    all slots count as affected.
    """

    @classmethod
    def attach(cls, env: ManagerBasedRLEnv) -> CapacityWatch | None:
        """Watch an environment; return ``None`` if its physics engine has no such capacities.

        Args:
            env: The environment, as ``gym.make`` returns it.
        """
        cfg = env.unwrapped.cfg
        if not is_mujoco(cfg) or cfg.sim.physics.solver_cfg.use_mujoco_cpu:
            return None
        return cls(env)

    def __init__(self, env: ManagerBasedRLEnv) -> None:
        """Start watching.

        Args:
            env: An environment on Newton with MuJoCo, as ``gym.make`` returns it.
        """
        from isaaclab_newton.physics import NewtonManager
        from mujoco_warp import OverflowType

        self._base = base = env.unwrapped
        self._solver: Any = NewtonManager._solver
        self._data: Any = self._solver.mjw_data
        device = self._data.nefc.device
        self._flags = wp.zeros(base.num_envs, dtype=int, device=device)
        self._most_constraints = wp.zeros(base.num_envs, dtype=int, device=device)
        self._most_contacts = wp.zeros(1, dtype=int, device=device)
        dropping = int(
            OverflowType.NEFC
            | OverflowType.NJMAX_NNZ
            | OverflowType.BROADPHASE
            | OverflowType.NARROWPHASE
            | OverflowType.CCD
            | OverflowType.HFIELD
        )
        found, pooled = self._data.overflow, dropping
        self._is_native = physics_name(base.cfg) == NATIVE
        self._dropped = 0
        """Bits of what the native stepper dropped so far."""
        if self._is_native:
            stepper = self._solver.stepper
            found, dropping, pooled = stepper.status, stepper.DROPPED, stepper.UNSEEN
        candidates, self._contact_capacity = self._data.ncollision, self._data.naconmax
        self._triangles: list[_Pool] = []
        if NewtonManager._needs_collision_pipeline:  # Newton's own collisions; MuJoCo-Warp does not see all of them
            collisions = NewtonManager._contacts
            candidates = collisions.rigid_contact_count
            self._contact_capacity = min(self._contact_capacity, collisions.rigid_contact_max)
            narrow_phase = NewtonManager._collision_pipeline.narrow_phase
            self._triangles = _triangles(narrow_phase, dropping)
            self._triangle_pairs = narrow_phase.max_triangle_pairs
        self._pools = [
            _Pool(pooled, candidates, self._contact_capacity, self._most_contacts),
            _Pool(0, self._data.nacon, self._contact_capacity, self._most_contacts),
            *self._triangles,
        ]
        step = self._solver.step

        def watched_step(*args: Any, **kwargs: Any) -> None:
            step(*args, **kwargs)
            wp.launch(
                _note_step,
                dim=base.num_envs,
                inputs=[dropping, self._data.nefc, found],
                outputs=[self._flags, self._most_constraints],
                device=device,
            )
            for pool in self._pools:
                wp.launch(
                    _note_pool,
                    dim=base.num_envs,
                    inputs=[pool.dropped, pool.needed, pool.capacity],
                    outputs=[self._flags, pool.most_needed],
                    device=device,
                )

        self._solver.step = watched_step
        base.sim.physics_manager._invalidate_graph()  # recorded steps don't watch yet

    def detach(self) -> None:
        """Stop watching."""
        del self._solver.step  # the method of the class is visible again
        self._base.sim.physics_manager._invalidate_graph()

    @contextmanager
    def forgetting(self) -> Iterator[None]:
        """Forget what steps within the context needed and lost."""
        arrays = [self._flags, self._most_constraints, *(pool.most_needed for pool in self._pools)]
        before, dropped = [wp.clone(each) for each in arrays], self._dropped
        try:
            yield
        finally:
            for array, was in zip(arrays, before, strict=True):
                array.assign(was)
            self._dropped = dropped

    def overflowed(self) -> torch.Tensor:
        """Tell which slots lost contacts or constraints since the last call.

        Returns:
            Boolean tensor of shape (num_envs,).
        """
        flags = wp.to_torch(self._flags)
        lost = flags != 0
        if self._is_native and lost.any():
            self._dropped |= int(np.bitwise_or.reduce(self._flags.numpy()))
        flags.zero_()
        return lost

    def used(self) -> dict[str, int]:
        """Return how much of the capacities was needed at most.

        Returns:
            The fields of :class:`ledger_lab.ledger.CapacityUsed` without the time. What was needed is the maximum over
            all physics steps so far, and a lower bound if something was dropped: constraints of the slot that needed
            the most, and contacts of all slots together, or pairs of nearby shapes if these are more.
        """
        return {
            "constraints": int(wp.to_torch(self._most_constraints).max()),
            "constraint_capacity": self._data.njmax,
            "contacts": int(wp.to_torch(self._most_contacts)),
            "contact_capacity": self._contact_capacity,
            "slots": self._base.num_envs,
        }

    def advice(self) -> str:
        """Return which settings to raise, and the least new values, after capacities were exceeded."""
        used, slots = self.used(), self._base.num_envs
        nconmax = used["contact_capacity"] // slots
        settings = (
            ("njmax", used["constraint_capacity"], used["constraints"]),
            ("nconmax", nconmax, ceil(used["contacts"] / slots)),
        )
        raises = [
            f"raise env.sim.physics.solver_cfg.{name} from {now} to at least {needed}"
            for name, now, needed in settings
            if needed > now
        ]
        if any(int(wp.to_torch(pool.most_needed)) > pool.capacity for pool in self._triangles):
            raises.append(f"raise env.sim.physics.collision_cfg.max_triangle_pairs from {self._triangle_pairs}")
        if self._is_native:
            stepper = self._solver.stepper
            if not raises and self._dropped & stepper.UNSEEN:
                raises.append(
                    f"raise env.sim.physics.solver_cfg.nconmax from {nconmax}, because sensors "
                    "see at most four times as many contacts of a slot"
                )
            if self._dropped & stepper.OUT_OF_MEMORY:
                raises.append("use fewer or simpler shapes, because MuJoCo had no memory for so many contacts")
        return " and ".join(raises) or "no setting helps: MuJoCo-Warp's own message names the buffer that was too small"


@contextmanager
def capacity_told(slots: HeldOutSlots, clock: PhaseClock, append: Callable[[Row], None]) -> Iterator[None]:
    """At the end of the context, write a row with the peak use of the physics engine's capacities.

    No row is written if the engine has no capacities. No row is written after an exception either: a second error here
    would hide the reason why the work ended.

    Args:
        slots: The simulation's attached slots.
        clock: Clock of the attempt or the evaluation.
        append: Writes the row.
    """
    yield
    if (used := slots.capacity_used) is not None:
        append(CapacityUsed(**used, wall_ns=clock.wall_ns()))
