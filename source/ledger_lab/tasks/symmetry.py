"""Images of samples in mirrors: a robot that is its own image learns from what its image would have met, too.

An image is a permutation of columns and a sign for each. Which it is of an observation, one of the functions here says:
:func:`vectors`, :func:`spins`, :func:`planar_velocities`, :func:`signed`, :func:`joints`, :func:`grid`,
:func:`ring` and :func:`wrenches`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from tensordict import TensorDict

from ledger_lab.errors import UserError

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

Columns = tuple[list[int], list[float]]
"""The column of which each column of the image is made, and its sign."""


@dataclass(frozen=True)
class Mirror:
    """A plane through a robot, and who stands on its two sides."""

    vector: tuple[float, float, float]
    """Signs of a vector's image, in the frame of the base: -1 along the plane's normal."""
    sides: tuple[tuple[str, str], ...]
    """Pairs of what the names of joints and bodies begin with on one side and on the other."""
    flipped: tuple[str, ...]
    """What the names of those joints end with that turn the other way in the image."""

    @property
    def spin(self) -> tuple[float, float, float]:
        """Signs of the image of an axis that something turns about: it keeps what a vector loses."""
        x, y, z = self.vector
        return -x, -y, -z

    def partner(self, name: str) -> str:
        """Return whom the image of a joint or body shows."""
        for pair in self.sides:
            for mine, other in (pair, pair[::-1]):
                if name.startswith(mine):
                    return other + name.removeprefix(mine)
        return name


Term = Callable[[Mirror, Sequence[str]], Columns]
"""What the image of a term is, by mirror and the names of the joints."""


def vectors(mirror: Mirror, _joints: Sequence[str]) -> Columns:
    """Show a vector, like a velocity or a direction."""
    return [0, 1, 2], [*mirror.vector]


def spins(mirror: Mirror, _joints: Sequence[str]) -> Columns:
    """Show what turns, like a rate or a torque."""
    return [0, 1, 2], [*mirror.spin]


def planar_velocities(mirror: Mirror, _joints: Sequence[str]) -> Columns:
    """Show velocities along x and y, and a rate about z."""
    return [0, 1, 2], [*mirror.vector[:2], mirror.spin[2]]


def signed(*signs: float) -> Term:
    """Show numbers of which each keeps its sign in the image, 1, or loses it, -1."""
    return lambda _mirror, _joints: ([*range(len(signs))], [*signs])


def joints(mirror: Mirror, names: Sequence[str]) -> Columns:
    """Show one number per joint."""
    return [names.index(mirror.partner(name)) for name in names], [
        -1.0 if name.endswith(mirror.flipped) else 1.0 for name in names
    ]


def grid(along_x: int, along_y: int) -> Term:
    """Show heights above a grid around the base, one row along x after the other, as Isaac Lab's patterns have them."""

    def columns(mirror: Mirror, _joints: Sequence[str]) -> Columns:
        cells = torch.arange(along_y * along_x).view(along_y, along_x)
        cells = cells.flip([dim for dim, sign in ((1, mirror.vector[0]), (0, mirror.vector[1])) if sign < 0])
        return cells.flatten().tolist(), [1.0] * cells.numel()

    return columns


def ring(rays: int) -> Term:
    """Show what is seen all around, from behind counterclockwise at equal angles, as Isaac Lab's lidars see it."""

    def columns(mirror: Mirror, _joints: Sequence[str]) -> Columns:
        behind = 0 if mirror.vector[1] < 0 else rays // 2
        return [(behind - ray) % rays for ray in range(rays)], [1.0] * rays

    return columns


def wrenches(bodies: Sequence[str], vector: tuple[float, float, float]) -> Term:
    """Show a force and a torque on each of some bodies.

    Args:
        bodies: Their names, in order.
        vector: Signs of a force's image in the frame in which it is measured.
    """

    def columns(mirror: Mirror, _joints: Sequence[str]) -> Columns:
        first = [6 * bodies.index(mirror.partner(body)) for body in bodies]
        signs = [*vector, *(-sign for sign in vector)]
        return [at + column for at in first for column in range(6)], signs * len(bodies)

    return columns


def with_images(
    env: ManagerBasedRLEnv,
    obs: TensorDict | None,
    actions: torch.Tensor | None,
    mirrors: tuple[Mirror, ...],
    terms: Mapping[str, Term],
    action: Term = joints,
) -> tuple[TensorDict | None, torch.Tensor | None]:
    """Return samples, and after them their images in each mirror, in each after the others, too.

    This is what RSL-RL asks a ``RslRlSymmetryCfg.data_augmentation_func`` for; its results have 2 ** mirrors times as
    many rows.

    Args:
        env: The environment.
        obs: Observations; the policy's are mirrored, and there are no others. None, if there are none.
        actions: Shape (rows, actions). None, if there are none.
        mirrors: Planes.
        terms: What the image of each of the policy's observations is.
        action: What the image of an action is.

    Raises:
        UserError: If the policy observes what terms don't tell of, or another number of columns of it.
    """
    manager, names = env.unwrapped.observation_manager, tuple(env.unwrapped.scene["robot"].joint_names)
    if obs is not None:
        for term, shape in zip(manager.active_terms["policy"], manager.group_obs_term_dim["policy"], strict=True):
            way_out = "train without mirrored samples, --agent rsl_rl_cfg_entry_point"
            if term not in terms:
                raise UserError(f"observation {term!r} has no image in a mirror: {way_out}")
            if math.prod(shape) != (width := len(terms[term](mirrors[0], names)[0])):
                raise UserError(
                    f"observation {term!r} has {math.prod(shape)} numbers, and its image {width}: {way_out}"
                )
        seen = tuple(terms[term] for term in manager.active_terms["policy"])
        images = _seen(obs["policy"], mirrors, seen, names)
        obs = TensorDict({"policy": images}, batch_size=[len(images)], device=images.device)
    return obs, None if actions is None else _seen(actions, mirrors, (action,), names)


def _seen(
    rows: torch.Tensor, mirrors: tuple[Mirror, ...], terms: tuple[Term, ...], names: tuple[str, ...]
) -> torch.Tensor:
    """Return rows and their images."""
    for mirror in mirrors:
        source, sign = _columns(mirror, terms, names, str(rows.device))
        rows = torch.cat([rows, rows[:, source] * sign])
    return rows


@functools.cache
def _columns(
    mirror: Mirror, terms: tuple[Term, ...], names: tuple[str, ...], device: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return of which column each column of an image is made, and its sign, of terms one after the other."""
    sources: list[int] = []
    signs: list[float] = []
    for term in terms:
        columns, factors = term(mirror, names)
        sources, signs = sources + [len(sources) + column for column in columns], signs + factors
    with torch.inference_mode(False):  # kept, for whoever comes to need gradients
        return torch.tensor(sources, device=device), torch.tensor(signs, device=device)
