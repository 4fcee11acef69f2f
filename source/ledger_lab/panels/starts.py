"""What episodes start with, and whether two starts are equal."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

_PARAMETERS = (
    *("body_mass", "body_inertia", "body_com_pos_b", "joint_stiffness", "joint_damping", "joint_armature"),
    *("joint_friction_coeff", "joint_pos_limits", "joint_vel_limits", "joint_effort_limits"),
)
"""Physical parameters of an asset, by their names in its data; each has a row per environment."""

HASH_PRIME = 1_099_511_628_211
"""Factor of the hashes of episodes: the prime of the hash FNV-1a for 64 bits."""

_ROUNDING = 1e-5
"""Largest difference, relative and absolute, that counts as rounding."""


def same_numbers(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Tell whether two tensors have equal numbers; a NaN equals a NaN, and 0 equals -0."""
    return bool(((left == right) | ((left != left) & (right != right))).all())


def same_values(left: torch.Tensor, right: torch.Tensor, tolerance: float = _ROUNDING) -> bool:
    """Tell whether two tensors are equal, apart from rounding.

    Args:
        left: One of them.
        right: The other.
        tolerance: Largest difference, relative and absolute, that counts as rounding.
    """
    return torch.allclose(left.double(), right.double(), rtol=tolerance, atol=tolerance, equal_nan=True)


def start_quantities(
    base: ManagerBasedRLEnv, rows: slice, *, is_relative: bool = False
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield names and copies of what an episode starts with: physical state, parameters and commands.

    Args:
        base: The environment, unwrapped.
        rows: The held-out slots.
        is_relative: Whether positions are relative to the places of the slots in the world.
    """
    for kind in base.scene.get_state(is_relative=is_relative).values():
        for name, state in kind.items():
            for quantity, value in state.items():
                yield f"{quantity} of {name!r}", value[rows].clone()
    for name, asset in {**base.scene.articulations, **base.scene.rigid_objects}.items():
        for quantity in _PARAMETERS:
            if (parameter := getattr(asset.data, quantity, None)) is not None:
                yield f"{quantity} of {name!r}", parameter.torch[rows].clone()
    for name in base.command_manager.active_terms:
        yield f"command {name!r}", base.command_manager.get_command(name)[rows].clone()


def different_start(names: Iterable[str]) -> str | None:
    """Return why a panel is invalid: its episodes start differently from earlier episodes with the same seeds.

    Args:
        names: The quantities that differ.

    Returns:
        The reason, with the first of the quantities; ``None`` if there are none.
    """
    if (name := next(iter(names), None)) is None:
        return None
    return (
        f"its episodes start differently from earlier episodes with the same seeds: {name} differs. A curriculum or an "
        "event changed something that outlasts an episode"
    )


def changed_starts(then: Mapping[str, str] | None, now: Mapping[str, str] | None) -> list[str]:
    """Return the quantities in which two panels with the same seeds start differently.

    Args:
        then: Hashes by the name of the quantity, as in :class:`ledger_lab.ledger.PanelResult`.
        now: The same of the other panel.
    """
    return [name for name, each in (now or {}).items() if (then or {}).get(name, each) != each]


def combined(episodes: Sequence[tuple[str, int]], hashes: Sequence[int]) -> str:
    """Return one hash of the hashes of all episodes; their order makes no difference.

    Args:
        episodes: Cell and seed of each episode.
        hashes: A hash per episode.
    """
    texts = (f"{cell}/{seed}/{each}" for (cell, seed), each in zip(episodes, hashes, strict=True))
    parts = (int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") for text in texts)
    return f"{sum(parts) % 2**64:016x}"


def sum_of_starts(shares: Sequence[Mapping[str, str] | None]) -> dict[str, str] | None:
    """Return the hashes of all episodes, from the hashes of each process's share of them.

    Args:
        shares: Hashes by the name of the quantity, as :func:`combined` returns them.
    """
    whole: dict[str, str] = {}
    for share in shares:
        if share is None:
            return None
        for name, part in share.items():
            whole[name] = f"{(int(whole.get(name, '0'), 16) + int(part, 16)) % 2**64:016x}"
    return whole


def row_digests(values: torch.Tensor) -> torch.Tensor:
    """Return a hash of each row of a tensor; rows with equal numbers have equal hashes.

    The sign of a zero makes no difference: torch clamps the last rows of a tensor with other instructions.

    Args:
        values: Shape (rows, ...).

    Returns:
        Shape (rows,), of whole numbers.
    """
    figures = values.flatten(1).float() + 0.0
    places = torch.arange(1, 2 * figures.shape[1], 2, device=figures.device)
    return (figures.contiguous().view(torch.int32).long() * places * HASH_PRIME).sum(dim=1)
