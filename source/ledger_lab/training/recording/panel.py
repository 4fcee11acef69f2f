"""The panel of a run that another framework trains and scores."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Mapping, Sequence, Set
from typing import Any

from ledger_lab.ledger.encoding import canonical_json
from ledger_lab.panels import PanelIdentity


@dataclasses.dataclass(frozen=True)
class RecordedPanel:
    """A panel that a trainer of another framework scores: its seeds, and everything else that outcomes depend on."""

    name: str
    seeds: Sequence[int]
    """One per episode."""
    definition: Mapping[str, Any]
    """Everything else that outcomes depend on, as plain JSON values: the environment and its version, the horizon, the
    success criterion, packages. Scores are compared only if all of it is equal."""

    def __post_init__(self) -> None:
        """Refuse repeated seeds, and a definition that can't be hashed.

        Raises:
            ValueError: If there is no seed, a seed occurs twice, or the definition holds a number that is not finite.
            TypeError: If the definition holds something that is not a JSON value.
        """
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise ValueError("a panel needs seeds, each of them once")
        canonical_json(self.fields)

    @property
    def fields(self) -> dict[str, Any]:
        """Fields that the id is the hash of."""
        return {**self.definition, "seeds": list(self.seeds)}

    @property
    def id(self) -> str:
        """Identity of the panel, a hash."""
        return PanelIdentity(self.fields).id

    def with_fresh_seeds(self, episodes: int, used: Set[int] = frozenset()) -> RecordedPanel:
        """Return the same panel with unseen seeds, drawn from the system's randomness.

        For a confirmation, draw them with :meth:`~ledger_lab.training.recording.RecordedRun.fresh`.

        Args:
            episodes: Number of seeds, at least 1.
            used: Seeds that must not occur, besides those of this panel.

        Raises:
            ValueError: If ``episodes`` is less than 1.
        """
        taken, seeds = {*self.seeds, *used}, set[int]()
        while len(seeds) < episodes:
            seed = secrets.randbelow(2**31)
            if seed not in taken:
                seeds.add(seed)
        return dataclasses.replace(self, seeds=sorted(seeds), definition={**self.definition, "fresh_seeds": True})
