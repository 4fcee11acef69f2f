"""Panel identity: scores are compared only if their identities are equal."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ledger_lab.ledger.encoding import canonical_json
from ledger_lab.panels.panel import Panel

_DOMAIN = b"ledger_lab/panel/p1\n"
_PLACE = re.compile(r"^ledger_lab\.(.*[.:])?")


@dataclass(frozen=True)
class PanelIdentity:
    """A panel bound to a simulation."""

    fields: dict[str, Any]
    """Everything except the policy that can change an outcome, as plain JSON values."""

    @classmethod
    def of(cls, panel: Panel, simulation: dict[str, Any]) -> PanelIdentity:
        """Bind a panel to a simulation.

        Functions and modules of LedgerLab enter by name, and not by their place: moving one changes no identity. What
        they do enters as the hashes of the code.

        Args:
            panel: The panel.
            simulation: Physics, time step, environment, assets, code and package versions, as plain JSON values. The
                code is a hash by the full name of each module.

        Returns:
            The identity.
        """
        # Not in the identities of panels with the default, so that these stay as they were before there was a choice.
        early = {} if panel.early_time_out == "failure" else {"early_time_out": panel.early_time_out}
        episodes = {
            "task": panel.task,
            "seeds": list(panel.seeds),
            "fresh_seeds": panel.fresh,
            "cells": [
                {"name": cell.name, "perturbations": {part.kind: part.plain() for part in cell.perturbations}}
                for cell in panel.cells
            ],
            "episode_length_s": panel.episode_length_s,
            "success": {
                "function": _role(panel.success_function),
                "params": panel.success_params,
                "hold_s": panel.hold_s,
                **early,
            },
            "policy_mode": "deterministic",
            "observation_noise": False,
        }
        code: dict[str, str] = {}
        for module, sha256 in sorted(simulation.get("code", {}).items(), key=lambda each: each[1]):
            code[_role(module)] = code.get(_role(module), "") + sha256
        return cls({**episodes, **simulation, "code": code})

    def with_fresh_seeds(self, seeds: Sequence[int]) -> PanelIdentity:
        """Return the identity of the same panel with fresh seeds.

        Args:
            seeds: The seed of each episode.
        """
        return PanelIdentity({**self.fields, "seeds": list(seeds), "fresh_seeds": True})

    @property
    def id(self) -> str:
        """``p1-`` and the SHA-256 of the fields as domain-separated canonical JSON."""
        return "p1-" + hashlib.sha256(_DOMAIN + canonical_json(self.fields)).hexdigest()


def _role(place: str) -> str:
    """Return the name of a function or a module without the place in LedgerLab where it is; other names as they are."""
    return _PLACE.sub("ledger_lab:", place)


def differing_fields(left: dict[str, Any], right: dict[str, Any], prefix: str = "") -> list[str]:
    """Name the fields in which two identities differ.

    Args:
        left: Fields of one identity.
        right: Fields of the other.
        prefix: Dotted path of these fields within the identity, ending with a dot.

    Returns:
        Lines like ``physics.backend: 'newton' != 'ovphysx'``, in the order of the names.
    """
    lines: list[str] = []
    for key in sorted(left.keys() | right.keys()):
        ours, theirs = left.get(key), right.get(key)
        if isinstance(ours, dict) and isinstance(theirs, dict):
            lines += differing_fields(ours, theirs, f"{prefix}{key}.")
        elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
            pairs = enumerate(zip(ours, theirs, strict=True))
            lines += next(([f"{prefix}{key}[{i}]: {_short(a)} != {_short(b)}"] for i, (a, b) in pairs if a != b), [])
        elif ours != theirs:
            lines.append(f"{prefix}{key}: {_short(ours)} != {_short(theirs)}")
    return lines


def few_differences(left: dict[str, Any], right: dict[str, Any]) -> str:
    """Name the most important fields in which two identities differ, in one line.

    Args:
        left: Fields of one identity.
        right: Fields of the other.

    Returns:
        The differences; empty if there are none.
    """
    lines = differing_fields(left, right)
    lines.sort(key=lambda line: line.startswith("packages."))  # versions of packages matter least if the engines differ
    more = [f"and {len(lines) - 4} more"] if len(lines) > 4 else []
    return "; ".join([*lines[:4], *more])


def _short(value: Any) -> str:
    """Return a value in at most about 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
