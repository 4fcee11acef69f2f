"""Mirror images of samples, so that a symmetric robot also learns from its mirrored experience.

An image is a permutation of columns, with a sign for each. These functions give the image of an observation term:
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
"""Source column and sign of each column of the image."""


@dataclass(frozen=True)
class Mirror:
    """A mirror plane through a robot, and the pairs of bodies on its two sides."""

    vector: tuple[float, float, float]
    """Signs of a vector's image, in the frame of the base: -1 along the plane's normal."""
    sides: tuple[tuple[str, str], ...]
    """Pairs of prefixes of joint and body names, on one side and on the other."""
    flipped: tuple[str, ...]
    """Suffixes of the names of joints that turn the other way in the image."""

    @property
    def spin(self) -> tuple[float, float, float]:
        """Signs of the image of a rotation axis: the opposite of those of a vector."""
        x, y, z = self.vector
        return -x, -y, -z

    def partner(self, name: str) -> str:
        """Return the name of the mirrored joint or body."""
        for pair in self.sides:
            for mine, other in (pair, pair[::-1]):
                if name.startswith(mine):
                    return other + name.removeprefix(mine)
        return name


Term = Callable[[Mirror, Sequence[str]], Columns]
"""Returns the image of a term, for a mirror and joint names."""


def vectors(mirror: Mirror, _joints: Sequence[str]) -> Columns:
    """Mirror a vector, such as a velocity or a direction."""
    return [0, 1, 2], [*mirror.vector]


def spins(mirror: Mirror, _joints: Sequence[str]) -> Columns:
    """Mirror a rotation, such as a rate or a torque."""
    return [0, 1, 2], [*mirror.spin]


def planar_velocities(mirror: Mirror, _joints: Sequence[str]) -> Columns:
    """Mirror velocities along x and y, and a rate about z."""
    return [0, 1, 2], [*mirror.vector[:2], mirror.spin[2]]


def signed(*signs: float) -> Term:
    """Mirror numbers that each keep (1) or change (-1) their sign."""
    return lambda _mirror, _joints: ([*range(len(signs))], [*signs])


def joints(mirror: Mirror, names: Sequence[str]) -> Columns:
    """Mirror one number per joint."""
    return [names.index(mirror.partner(name)) for name in names], [
        -1.0 if name.endswith(mirror.flipped) else 1.0 for name in names
    ]


def grid(along_x: int, along_y: int) -> Term:
    """Mirror heights on a grid around the base, row by row along x, as in Isaac Lab's patterns."""

    def columns(mirror: Mirror, _joints: Sequence[str]) -> Columns:
        cells = torch.arange(along_y * along_x).view(along_y, along_x)
        cells = cells.flip([dim for dim, sign in ((1, mirror.vector[0]), (0, mirror.vector[1])) if sign < 0])
        return cells.flatten().tolist(), [1.0] * cells.numel()

    return columns


def ring(rays: int) -> Term:
    """Mirror a full circle of equally spaced rays, counterclockwise from behind, as in Isaac Lab's lidars."""

    def columns(mirror: Mirror, _joints: Sequence[str]) -> Columns:
        behind = 0 if mirror.vector[1] < 0 else rays // 2
        return [(behind - ray) % rays for ray in range(rays)], [1.0] * rays

    return columns


def wrenches(bodies: Sequence[str], vector: tuple[float, float, float]) -> Term:
    """Mirror a force and a torque on each of some bodies.

    Args:
        bodies: Names of the bodies, in order.
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
    """Return samples, followed by their images in every combination of mirrors.

    RSL-RL calls it as ``RslRlSymmetryCfg.data_augmentation_func``. The results have 2 ** mirrors times as many rows.

    Args:
        env: The environment.
        obs: Observations of the policy, the only group; None if there are none.
        actions: Shape (rows, actions); None if there are none.
        mirrors: Mirror planes.
        terms: Image of each observation term of the policy.
        action: Image of an action.

    Raises:
        UserError: If the policy has an observation that ``terms`` lacks, or that has another number of columns.
    """
    manager, names = env.unwrapped.observation_manager, tuple(env.unwrapped.scene["robot"].joint_names)
    if obs is not None:
        for term, shape in zip(manager.active_terms["policy"], manager.group_obs_term_dim["policy"], strict=True):
            way_out = "train without mirrored samples, --no_symmetry"
            if term not in terms:
                raise UserError(f"observation {term!r} has no known mirror image: {way_out}")
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
    """Return source column and sign of each column of an image, for terms in a row."""
    sources: list[int] = []
    signs: list[float] = []
    for term in terms:
        columns, factors = term(mirror, names)
        sources, signs = sources + [len(sources) + column for column in columns], signs + factors
    with torch.inference_mode(False):  # cached as plain tensors, so that code with gradients can use them
        return torch.tensor(sources, device=device), torch.tensor(signs, device=device)
