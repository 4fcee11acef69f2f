"""Applies the perturbations of cells to held-out slots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from ledger_lab.errors import UserError, nearest
from ledger_lab.panels.panel import Cell
from ledger_lab.panels.perturbations import Perturbation, Range
from ledger_lab.panels.physical import PhysicalParameters
from ledger_lab.panels.streams import SlotStreams
from ledger_lab.panels.terms import Place, observed
from ledger_lab.panels.transfers import to_device

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv


class CellSlots:
    """The held-out slots of one cell, as one of its perturbations sees them."""

    def __init__(self, conditions: Conditions, slots: NDArray[np.int64]) -> None:
        """Keep nothing yet.

        Args:
            conditions: The perturbations of all held-out slots.
            slots: The slots of the cell, counted from the first held-out slot; shape (n,).
        """
        self._conditions, self.slots = conditions, slots
        self.base = conditions.base
        self.varying = conditions.varying
        """Streams of what varies within an episode."""
        self.kept: dict[str, Any] = {}
        """What the perturbation keeps."""

    @property
    def physical(self) -> PhysicalParameters:
        """The physical parameters of all held-out slots."""
        return self._conditions.physical

    def ids(self, places: NDArray[np.int64] | None = None) -> torch.Tensor:
        """Return environment ids of the slots.

        Args:
            places: Places among the slots of the cell; all of them by default.
        """
        slots = self.slots if places is None else self.slots[places]
        return self.there(self._conditions.first + slots)

    def there(self, values: Any) -> torch.Tensor:
        """Copy values to the device of the simulation, without waiting for it."""
        return to_device(np.asarray(values), self.base.device)

    def zeros(self) -> NDArray[np.float64]:
        """Return a number for each slot of the cell."""
        return np.zeros(len(self.slots))

    def constant(self, limits: Range, width: int = 1) -> NDArray[np.float64]:
        """Draw what stays constant in an episode; shape (slots of the cell, width)."""
        return _within(limits, self._conditions.fixed.uniform(self.slots, width))

    def constant_steps(self, limits: tuple[int, int]) -> torch.Tensor:
        """Draw a whole number per slot that stays constant in an episode; shape (slots of the cell,)."""
        low, high = limits
        drawn = self._conditions.fixed.bits(self.slots, 1)[:, 0] % np.uint64(high - low + 1)
        return self.there(low + drawn.astype(np.int64))

    def variable(self, places: NDArray[np.int64], limits: Range, width: int = 1) -> NDArray[np.float64]:
        """Draw what varies within an episode, for some places among the slots; shape (n, width)."""
        return _within(limits, self.varying.uniform(self.slots[places], width))

    def spread(self, values: NDArray[np.float64], neutral: float) -> torch.Tensor:
        """Return values of the cell together with a neutral value in all other held-out slots, on the host."""
        everywhere = torch.full((self._conditions.count, values.shape[1]), neutral)
        everywhere[torch.as_tensor(self.slots)] = torch.as_tensor(values, dtype=torch.float32)
        return everywhere

    def places(self, kind: str, terms: Mapping[str, float]) -> Iterator[tuple[Place, float]]:
        """Yield where observation terms are, with their parameters.

        Args:
            kind: The perturbation, for the message.
            terms: A number per term.

        Raises:
            UserError: If the task has no such term.
        """
        known = list(observed(self.base))
        for term, value in terms.items():
            if not (places := [place for name, place in known if name == term]):
                raise UserError(f"{kind}: the task has no observation {term!r}: {nearest(term, dict(known))}")
            yield from ((place, value) for place in places)

    def add(self, observations: dict[str, Any], place: Place, values: torch.Tensor) -> None:
        """Add to a term of the cell's slots.

        Args:
            observations: Groups of all held-out slots, which may be written.
            place: The term.
            values: What is added; shape (slots of the cell, width of the term).
        """
        group = observations[place.group]
        rows = self.there(self.slots)
        if isinstance(place.part, str):
            group[place.part] = group[place.part].clone()
            part = group[place.part]
        else:
            part = group[..., place.part]
        part[rows] += values.reshape(part[rows].shape).to(part.dtype)


class Conditions:
    """The perturbations of all held-out slots of an environment.

    Quantities that stay constant in an episode (masses, delays, biases) are drawn when the slot gets its seed.
    Quantities that vary within an episode (noise, pushes) are drawn during the episode. Both are drawn from streams of
    the slot's own, separate from those of the task.
    """

    def __init__(self, env: ManagerBasedRLEnv, first: int, cells: Sequence[Cell]) -> None:
        """Prepare the perturbations; nothing is changed yet.

        Args:
            env: The environment, as ``gym.make`` returns it.
            first: The first held-out slot.
            cells: The cell of each held-out slot.
        """
        self._env, self.base, self.first, self.count = env, env.unwrapped, first, len(cells)
        self.fixed, self.varying = SlotStreams(self.count), SlotStreams(self.count)
        names = np.array([cell.name for cell in cells])
        self._parts = [
            (part, CellSlots(self, np.flatnonzero(names == cell.name)))
            for cell in {cell.name: cell for cell in cells}.values()
            for part in cell.perturbations
        ]
        self._writes: list[Callable[[], None]] = []

    @cached_property
    def physical(self) -> PhysicalParameters:
        """The physical parameters of all held-out slots."""
        return PhysicalParameters(self._env, torch.arange(self.first, self.first + self.count))

    def attach(self, undo: ExitStack) -> None:
        """Check that the task has what cells perturb, and set the hooks that they need.

        Args:
            undo: Removes all changes when it closes.

        Raises:
            UserError: If a cell perturbs a part that the task doesn't have.
        """
        undo.callback(self.restore)
        for part, own in self._parts:
            part.prepare(own, undo)

    def restore(self) -> None:
        """Restore the physics as the task made it."""
        if "physical" in vars(self):
            self.physical.restore()

    def assign(self, keys: NDArray[np.uint64]) -> None:
        """Draw the constants of each slot's episodes, and apply them to the restored physics.

        Args:
            keys: Keys of the slots' streams; shape (slots,).
        """
        self.fixed.restart(np.arange(len(keys)), keys)
        self._writes = [write for part, own in self._parts for write in part.draw(own)]
        self._write()

    def _write(self) -> None:
        """Apply the constants to the physics."""
        for write in self._writes:
            write()

    @contextmanager
    def lifted(self) -> Iterator[None]:
        """Within the context, the physics is as the task's events made it. Afterwards, the drawn constants apply again.

        Does not ask the device.
        """
        self.restore()
        yield
        self._write()

    def start(self, slots: NDArray[np.int64], keys: NDArray[np.uint64]) -> None:
        """Begin episodes, after the task's own reset.

        Args:
            slots: Slots in which an episode begins; shape (n,).
            keys: Keys of the slots' streams; shape (n,).
        """
        self.varying.restart(slots, keys)
        for part, own in self._parts:
            begun = np.flatnonzero(np.isin(own.slots, slots))
            if len(begun):
                part.start(own, begun)

    def delayed(self, actions: torch.Tensor) -> torch.Tensor:
        """Return the actions that reach the task in this step, after the cells' delays.

        Args:
            actions: Actions of the policies in this step; shape (slots, actions).
        """
        for part, own in self._overriding("act"):
            rows = own.there(own.slots)
            actions = actions.index_copy(0, rows, part.act(own, actions[rows]))
        return actions

    def seen(self, observations: dict[str, Any]) -> dict[str, Any]:
        """Return the observations that the policies get, with the cells' noise and biases.

        Args:
            observations: Groups of the held-out slots, each of shape (slots, ...); they are not changed.
        """
        seeing = self._overriding("see")
        if seeing:
            observations = {
                name: group.clone() if isinstance(group, torch.Tensor) else dict(group)
                for name, group in observations.items()
            }
        for part, own in seeing:
            part.see(own, observations)
        return observations

    def after_step(self) -> None:
        """Apply the pushes that are due."""
        for part, own in self._parts:
            part.after_step(own)

    def _overriding(self, method: str) -> list[tuple[Perturbation, CellSlots]]:
        """Return the perturbations that do something in a method."""
        plain = getattr(Perturbation, method)
        return [(part, own) for part, own in self._parts if getattr(type(part), method) is not plain]


def _within(limits: Range, shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the numbers at some shares of a range."""
    low, high = limits
    return low + (high - low) * shares
