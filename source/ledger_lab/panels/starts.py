"""Checks that the start of an episode depends on its seed alone: starts it twice, and compares the two starts."""

from __future__ import annotations

import functools
import hashlib
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ledger_lab.errors import UserError
from ledger_lab.panels.streams import GlobalStreams
from ledger_lab.physics import exactness

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

COUNTERS = ("common_step_counter", "_sim_step_counter")
"""Attributes of the environment that count its steps since the training began."""

_PARAMETERS = (
    *("body_mass", "body_inertia", "body_com_pos_b", "joint_stiffness", "joint_damping", "joint_armature"),
    *("joint_friction_coeff", "joint_pos_limits", "joint_vel_limits", "joint_effort_limits"),
)
"""Physical parameters of an asset, by their names in its data; each has a row per environment."""

_CLOCKS = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns")
"""Functions of Python's module ``time`` that read a clock."""

_LATER = 1_000_003
"""By how many seconds clocks, and by how many steps counters, are ahead in other surroundings."""

HASH_PRIME = 1_099_511_628_211
"""Factor of the hashes of episodes: the prime of the hash FNV-1a for 64 bits."""

_ROUNDING = 1e-5
"""Largest difference, relative and absolute, that counts as rounding."""


def require_repeatable_starts(base: ManagerBasedRLEnv, rows: slice, start: Callable[[], None]) -> None:
    """Refuse a task whose held-out episodes start differently although their seeds are the same.

    Between the two starts, the counters of the environment, the clocks of Python's module ``time``, and the global
    random streams of torch, NumPy and Python change. A generator of the task's own changes by itself. If the scores of
    the simulation are ``bitwise``, the starts must be equal in every bit. Other engines round what they store: OvPhysX
    reads an inertia of 2 kg m² back with differences of 1e-9.

    Args:
        base: The environment, unwrapped.
        rows: The held-out slots.
        start: Starts the episodes of all held-out slots.

    Raises:
        UserError: If the starts differ. The message names the event, if one reset event alone makes the difference.
    """
    if found := find_cause(base, lambda: _difference(base, rows, start)):
        raise UserError(
            f"episodes with the same seed start differently: {found}. Random numbers must come from torch, without a "
            "generator of the task's own, and nothing may depend on step counters or the clock"
        )


def find_cause(base: ManagerBasedRLEnv, difference: Callable[[], str | None]) -> str | None:
    """Find out whether starts differ, and which reset event makes the difference.

    Args:
        base: The environment, unwrapped.
        difference: Starts episodes; returns the name of a quantity that differs, or ``None`` if none does.

    Returns:
        The quantity, with the name of the event if one event alone makes the difference; ``None`` if none differs.
    """
    if (found := difference()) is None:
        return None
    for name, term in _reset_events(base):
        function = term.func
        term.func = _NoEvent()
        try:
            if difference() is None:
                return f"reset event {name!r} changes {found}"
        finally:
            term.func = function
    return found


def _difference(base: ManagerBasedRLEnv, rows: slice, start: Callable[[], None]) -> str | None:
    """Start the episodes twice; return the name of the first quantity that differs."""
    start()
    expected = dict(start_quantities(base, rows))
    with other_surroundings(base):
        start()
    same = _same_bits if exactness(base.cfg) == "bitwise" else same_values
    return next((name for name, value in start_quantities(base, rows) if not same(value, expected[name])), None)


def _same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Tell whether two tensors are equal in every bit; a NaN equals itself."""
    return torch.equal(*((each.view(torch.int32) if each.dtype == torch.float32 else each) for each in (left, right)))


def same_values(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Tell whether two tensors are equal, apart from rounding."""
    return torch.allclose(left, right, rtol=_ROUNDING, atol=_ROUNDING, equal_nan=True)


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
    """Return why a panel is invalid whose episodes start differently than before on the same seeds.

    Args:
        names: The quantities that differ.

    Returns:
        The reason, with the first of the quantities; ``None`` if there are none.
    """
    if (name := next(iter(names), None)) is None:
        return None
    return (
        f"its episodes start differently than before on the same seeds: {name}. Something that a curriculum or an "
        "event changed lasts longer than an episode"
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
    """Return a hash of each row of a tensor; rows with equal bits have equal hashes.

    Args:
        values: Shape (rows, ...).

    Returns:
        Shape (rows,), of whole numbers.
    """
    figures = values.flatten(1).float()
    places = torch.arange(1, 2 * figures.shape[1], 2, device=figures.device)
    return (figures.contiguous().view(torch.int32).long() * places * HASH_PRIME).sum(dim=1)


def _reset_events(base: ManagerBasedRLEnv) -> list[tuple[str, Any]]:
    """Return names and configurations of the reset events."""
    manager = base.event_manager
    terms = manager._mode_term_cfgs.get("reset", [])
    return list(zip(manager.active_terms.get("reset", []), terms, strict=True))


class _NoEvent:
    """An event that does nothing."""

    def __call__(self, *_: Any, **params: Any) -> None:  # noqa: ANN401 - whatever the event takes
        """Do nothing."""

    def reset(self, *_: Any, **ids: Any) -> None:  # noqa: ANN401 - the manager resets events that are classes
        """Do nothing."""


@contextmanager
def other_surroundings(base: ManagerBasedRLEnv) -> Iterator[None]:
    """Within the context, change what no episode may depend on: step counters, clocks and global random streams.

    Args:
        base: The environment, unwrapped.
    """
    streams, counters = GlobalStreams(), {name: getattr(base, name) for name in COUNTERS}
    torch.manual_seed(random.getrandbits(32))
    np.random.seed(random.getrandbits(32))
    random.seed(random.getrandbits(32))
    for name, count in counters.items():
        setattr(base, name, count + _LATER)
    clocks = {name: getattr(time, name) for name in _CLOCKS}
    for name, read in clocks.items():
        later = _LATER * (10**9 if name.endswith("_ns") else 1)
        setattr(time, name, functools.partial(_read_later, read, later))
    try:
        yield
    finally:
        for name, read in clocks.items():
            setattr(time, name, read)
        streams.restore()
        for name, count in counters.items():
            setattr(base, name, count)


def _read_later(read: Callable[[], float], later: int) -> float:
    """Return what a clock will show later."""
    return read() + later
