"""What wings add to the core. Without the folder of a wing, its parts are missing, and nothing else fails."""

from __future__ import annotations

import importlib.util
import pkgutil
from collections.abc import Callable
from typing import Any

from ledger_lab.errors import UserError

PARTS = {
    "scaling of the page": "ledger_lab.studies.scaling.figures:scaling_part",
    "scaling view": "ledger_lab.studies.commands.scaling:report_scaling",
    "recommend view": "ledger_lab.studies.commands.recommend:report_recommendation",
    "known studies": "ledger_lab.studies.watched:known_studies",
    "planned study": "ledger_lab.studies.watched:planned_study",
    "submission": "ledger_lab.clusters.submit:submit_single",
    "queues": "ledger_lab.clusters.queues:ask_queues",
    "off-policy recipes": "ledger_lab.off_policy.recipes:recipes_of",
    "native overrides": "ledger_lab.mujoco_cpu.choose:require_warp_settings",
    "native physics": "ledger_lab.mujoco_cpu.choose:native_physics",
    "native fit": "ledger_lab.mujoco_cpu.choose:require_fit",
    "native memory": "ledger_lab.mujoco_cpu.choose:require_memory",
    "native room": "ledger_lab.mujoco_cpu.choose:fitting_environments",
    "native endings": "ledger_lab.mujoco_cpu.solver:ended_when_unstable",
}
"""Functions of wings by the name of the part that each makes; a function is imported when its part is needed."""


def wing_part(name: str) -> Callable[..., Any] | None:
    """Return the function of a wing that makes a part.

    Args:
        name: One of :data:`PARTS`.

    Returns:
        The function; ``None`` if the wing is not installed.
    """
    wing = ".".join(PARTS[name].split(".")[:2])
    return None if importlib.util.find_spec(wing) is None else pkgutil.resolve_name(PARTS[name])


def required_part(name: str) -> Callable[..., Any]:
    """Return the function of a wing that makes a part.

    Args:
        name: One of :data:`PARTS`.

    Raises:
        UserError: If the wing is not installed.
    """
    part = wing_part(name)
    if part is None:
        raise UserError(f"this installation of LedgerLab lacks {PARTS[name].split('.')[1]}: install the whole package")
    return part
