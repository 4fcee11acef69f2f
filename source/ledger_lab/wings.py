"""What wings add to the core. Without the folder of a wing, its parts are missing, and nothing else fails."""

from __future__ import annotations

import importlib.util
import pkgutil
from collections.abc import Callable
from typing import Any

PARTS = {
    "scaling of the page": "ledger_lab.studies.figures.scaling_page:scaling_part",
    "known studies": "ledger_lab.studies.declared.watched:known_studies",
    "load study": "ledger_lab.studies.declared:load_study",
    "submission": "ledger_lab.clusters.submit:submit_single",
    "queues": "ledger_lab.clusters.queues:ask_queues",
    "off-policy recipes": "ledger_lab.off_policy.recipes:recipes_of",
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
