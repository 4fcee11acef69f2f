"""The exam of a run whose trainer is none of LedgerLab's own."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from ledger_lab.ledger.encoding import canonical_json
from ledger_lab.panels import PanelIdentity


@dataclasses.dataclass(frozen=True)
class Exam:
    """Held-out episodes, and everything that can change their outcomes."""

    name: str
    seeds: Sequence[int]
    """One per episode."""
    definition: Mapping[str, Any]
    """What else an outcome depends on, as plain JSON values: the environment and its version, the horizon, what counts
    as success, packages. Scores are compared only where all of it is equal."""

    def __post_init__(self) -> None:
        """Refuse what can't be hashed, and seeds that count twice.

        Raises:
            ValueError: If a seed occurs twice, or the definition holds something that is no finite JSON value.
            TypeError: If it holds something that is no JSON value at all.
        """
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise ValueError("an exam needs seeds, each of them once")
        canonical_json(self.fields)

    @property
    def fields(self) -> dict[str, Any]:
        """What its id is the hash of."""
        return {**self.definition, "seeds": list(self.seeds)}

    @property
    def id(self) -> str:
        """Its id."""
        return PanelIdentity(self.fields).id

    def fresh(self, episodes: int) -> Exam:
        """Return the same exam with seeds that nobody has seen, drawn from the system's randomness.

        Args:
            episodes: How many.
        """
        taken = set(self.seeds)
        seeds: set[int] = set()
        while len(seeds) < episodes:
            seed = secrets.randbelow(2**31)
            if seed not in taken:
                seeds.add(seed)
        return dataclasses.replace(self, seeds=sorted(seeds), definition={**self.definition, "fresh_seeds": True})
