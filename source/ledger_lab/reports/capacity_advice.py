"""Advice on capacities of the physics engine that are much larger than needed."""

from __future__ import annotations

import math

from ledger_lab.ledger import Run
from ledger_lab.ledger.meters import Phase
from ledger_lab.reports.advice import LEAST_GAIN, Advice
from ledger_lab.reports.load import RoomSummary, summarize_room
from ledger_lab.reports.workload import Workload

_ENGINE = "newton/mjwarp"
"""The engine whose steps take longer with more capacity: MuJoCo-Warp."""

_SHARE_OF_A_ROW = 0.001
"""Time that an unused constraint row takes on a CPU, as a share of the physics without rows. The smallest of four
tasks, rounded down: ``records/constraint-rows-cpu.json``, made by ``python -m benchmarks constraint_rows``."""

_MARGIN, _FEWEST_SPARE = 1.5, 4
"""Factor above the largest number of rows that were needed, and smallest number of spare rows, of the advised capacity.
Other policies and perturbed episodes may need more rows than this run did."""

_MUCH_LARGER = 2.0
"""Factor above the advised capacity from which a capacity is much larger than needed."""


def smaller_capacities(work: Workload, run: Run) -> Advice | None:
    """Advise fewer constraint rows, if a run on a CPU had room for many more than it needed.

    Args:
        work: The run's work.
        run: The run.

    Returns:
        The advice. ``None`` if the capacity fits, if the engine has none, if nothing is known about its use, or if the
        gain is too small. On a GPU, the cost of a row has not been measured.
    """
    room, physics_s = summarize_room(run.attempts), _physics_s(work)
    measured = run.declared.physics == _ENGINE and run.declared.device == "cpu"
    if not measured or room is None or physics_s is None or work.wall_s <= 0:
        return None
    rows, enough = room.constraint_capacity, enough_rows(room)
    if rows < _MUCH_LARGER * enough:
        return None
    saved = _SHARE_OF_A_ROW * (rows - enough) / (1 + _SHARE_OF_A_ROW * rows)
    gain = saved * physics_s / work.wall_s
    if gain < LEAST_GAIN:
        return None
    in_identity = "njmax" in str(run.declared.panel_fields.get("physics"))
    identity = "the panel id changes, so scores cannot be compared with those of this run; "
    return Advice(
        action=f"reserve {enough} constraint rows instead of {rows}: env.sim.physics.solver_cfg.njmax={enough}",
        gain=gain,
        basis=(
            f"an environment needed {room.constraints} rows at most; predicted from a time of "
            f"{100 * _SHARE_OF_A_ROW:.1g} % of the physics per unused row, the smallest of four tasks on a CPU: "
            f"{100 * saved:.0f} % of {physics_s:.1f} s of physics"
        ),
        caveat=f"{identity if in_identity else ''}a policy that needs more rows makes its scores invalid",
    )


def enough_rows(room: RoomSummary) -> int:
    """Return a capacity for constraint rows with a margin over the largest number that was needed.

    Args:
        room: Largest use of the capacities.
    """
    return max(math.ceil(_MARGIN * room.constraints), room.constraints + _FEWEST_SPARE)


def _physics_s(work: Workload) -> float | None:
    """Return the time of the physics of all slots, held-out slots included [s]; ``None`` if it was not measured."""
    simulate_s = work.phase_s(Phase.SIMULATE)
    return None if simulate_s is None else simulate_s * work.slots / work.num_envs
