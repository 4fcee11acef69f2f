"""Runs an exported policy as its contract says, from the values of single observation terms, like a program on a robot.

The values are taken where the simulation measures them: after a term's function, its modifiers and its noise. All that
follows is computed here from the text of the contract: clip, scale, history, and the place in the flat observation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from isaaclab.utils.noise import NoiseCfg, NoiseModelCfg

from ledger_lab.panels.direct import is_direct
from ledger_lab.panels.terms import observed

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv


@dataclass(frozen=True)
class Measured:
    """The values of all observation terms at one step."""

    values: Mapping[tuple[str, str], torch.Tensor]
    """Values by group and term, shape (environments, ...) each."""
    begins: torch.Tensor
    """Whether an episode begins at this step, shape (environments,)."""


class Measurements:
    """Takes the values of observation terms from a live environment."""

    def __init__(self, env: ManagerBasedRLEnv) -> None:
        """Listen to the observation terms; the observations stay the same.

        Args:
            env: The environment, before its first reset.
        """
        self._env = env.unwrapped
        self._values: dict[tuple[str, str], torch.Tensor] = {}
        if is_direct(self._env):
            self._record_groups()
            return
        manager = self._env.observation_manager
        for group, names in manager.active_terms.items():
            # The manager has no public access to the resolved configurations of its terms.
            for name, term in zip(names, manager._group_obs_term_cfgs[group], strict=True):
                term.noise = NoiseCfg(func=self._recorder((group, name), term.noise))

    def _record_groups(self) -> None:
        """Keep the observations of a direct-workflow task, which has no terms."""
        compute, places = self._env._compute_observations, list(observed(self._env))

        def compute_and_keep() -> Any:
            seen = compute()
            for name, place in places:
                group = seen[place.group]
                self._values[place.group, name] = (group[name] if isinstance(group, Mapping) else group).clone()
            return seen

        self._env._compute_observations = compute_and_keep

    def _recorder(self, place: tuple[str, str], noise: Any) -> Callable[[torch.Tensor, NoiseCfg], torch.Tensor]:  # noqa: ANN401
        """Return a noise function that adds a term's own noise, and keeps the result."""

        def record(values: torch.Tensor, _: NoiseCfg) -> torch.Tensor:
            if isinstance(noise, NoiseCfg):
                values = noise.func(values, noise)
            elif isinstance(noise, NoiseModelCfg) and noise.func is not None:
                values = noise.func(values)
            self._values[place] = values.clone()
            return values

        return record

    def take(self) -> Measured:
        """Return the values from which the newest observations were computed."""
        return Measured(dict(self._values), self._env.episode_length_buf == 0)


def flat_observations(
    described: Sequence[Mapping[str, Any]], steps: Sequence[Measured], seen: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, list[str]]:
    """Compute flat observations as a contract describes them.

    Args:
        described: ``observations`` of the contract, as read from its file.
        steps: Values of each step, in order.
        seen: Flat observations of the simulation at each step, shape (n, observations) each. They are used for values
            that a contract cannot place: terms with a delay, which a robot does not need, and groups whose terms are
            not contiguous.

    Returns:
        Observations on the CPU, shape (steps × n, observations); names of the terms that were taken from ``seen``.
    """
    found, taken = [each.cpu().clone() for each in seen], []
    for group in described:
        for term in group["terms"]:
            name = f"{group['group']}.{term['name']}"
            if term["slice"] is None or any(term["trained_delay_steps"]):
                taken.append(name)
                continue
            start, stop = term["slice"]
            past: torch.Tensor | None = None
            for flat, step in zip(found, steps, strict=True):
                now = _conditioned(term, step.values[group["group"], term["name"]].cpu().flatten(1))
                kept = max(1, term["history_steps"])
                if past is None:
                    past = now[:, None].repeat(1, kept, 1)
                else:
                    moved = torch.cat([past[:, 1:], now[:, None]], dim=1)
                    past = torch.where(step.begins.cpu()[:, None, None], now[:, None], moved)
                flat[:, start:stop] = past.flatten(1)
    return torch.cat(found), taken


def _conditioned(term: Mapping[str, Any], values: torch.Tensor) -> torch.Tensor:
    """Return the values of a term after its clip and its scale."""
    if term["clip"]:
        low, high = map(float, term["clip"])  # infinity is a text in JSON
        values = values.clip(low, high)
    return values if term["scale"] is None else values * torch.tensor(term["scale"], dtype=values.dtype)


def misplaced_terms(
    described: Sequence[Mapping[str, Any]], found: torch.Tensor, seen: torch.Tensor, tolerance: float
) -> list[str]:
    """Name the terms whose values are not where, or what, the simulation passes to the policy.

    Args:
        described: ``observations`` of the contract.
        found: Observations by the contract, shape (n, observations).
        seen: Observations of the simulation, shape (n, observations).
        tolerance: Largest allowed difference, relative to values above 1.
    """
    near = ((found - seen).abs() <= tolerance * seen.abs().clamp(min=1.0)).all(dim=0)  # False for NaN
    return [
        f"{group['group']}.{term['name']}"
        for group in described
        for term in group["terms"]
        if term["slice"] is not None and not near[slice(*term["slice"])].all()
    ]
