"""Panels, read from TOML files, and the seeds of their held-out episodes."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from ledger_lab.documents import read_toml
from ledger_lab.errors import UserError, nearest
from ledger_lab.files import panel_files
from ledger_lab.panels.perturbations import Perturbation, read_perturbations

PANEL_SEED_LIMIT = 2**32
"""Seeds in a panel file are below this number; fresh seeds that this module draws are not."""

_FRESH_SEEDS = 2**52 - PANEL_SEED_LIMIT

type Purpose = Literal["startup", "episode", "condition", "disturbance", "ground"]
"""Purpose of a stream: the task's start-up randomization, the task's draws within an episode, a cell's perturbations
that stay constant in an episode, its perturbations that vary within an episode, or held-out ground."""


def stream_key(purpose: Purpose, task: str, seed: int, cell: str = "") -> int:
    """Return the key of one random stream of an episode.

    The task's own draws don't depend on the cell. An episode therefore starts alike in every cell, and cells can be
    compared seed by seed.

    Args:
        purpose: Purpose of the stream.
        task: Gymnasium id of the task.
        seed: Seed of the episode.
        cell: Name of the cell, for the draws of the cell itself; empty for the draws of the task.

    Returns:
        A number below 2^64.
    """
    digest = hashlib.sha256(f"ledger_lab/stream/{purpose}/{task}/{cell}/{seed}".encode()).digest()
    return int.from_bytes(digest[:8], "big")


def proof_seeds(run_id: str, proof: int, count: int, extension: int = 0) -> tuple[int, ...]:
    """Draw the fresh seeds of a panel of a run's proof.

    No panel file has any of these seeds. Two panels of proofs share a seed only if two hashes collide.

    Args:
        run_id: The run.
        proof: Number of the proof in the run, from 1.
        count: Seeds to draw.
        extension: Number of the panel within the proof, from 0.

    Returns:
        Different numbers in [2^32, 2^52).
    """
    panel = f"{proof}.{extension}" if extension else str(proof)
    return _fresh_seeds(f"confirmation/{run_id}/{panel}", count)


def comparison_seeds(first: str, second: str, count: int) -> tuple[int, ...]:
    """Draw the fresh seeds on which two policies are compared.

    The seeds depend on both policies and on nothing else. So neither policy was selected on them, a comparison with a
    third policy has other seeds, and a repeated comparison has the same episodes. No panel file has any of these seeds,
    and no proof has them, unless two hashes collide.

    Args:
        first: SHA-256 of the checkpoint of one policy.
        second: SHA-256 of the checkpoint of the other policy. The order makes no difference.
        count: Seeds to draw.

    Returns:
        Different numbers in [2^32, 2^52).
    """
    return _fresh_seeds("comparison/" + "/".join(sorted((first, second))), count)


def _fresh_seeds(purpose: str, count: int) -> tuple[int, ...]:
    """Draw different seeds in [2^32, 2^52) that depend on a text."""
    seeds: dict[int, None] = {}
    position = 0
    while len(seeds) < count:
        text = f"ledger_lab/{purpose}/{position}"
        number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        seeds[PANEL_SEED_LIMIT + number % _FRESH_SEEDS] = None
        position += 1
    return tuple(seeds)


type EarlyTimeOut = Literal["failure", "judged"]


@dataclass(frozen=True)
class Cell:
    """One condition of a panel."""

    name: str
    perturbations: tuple[Perturbation, ...] = ()
    """Changes to the task; empty in a nominal cell."""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Held-out episodes, and the condition under which an episode is a success.

    An episode succeeds if no termination ended it before its full length, and the success function was true at every
    step of the last :attr:`hold_s` seconds. For terminations that are time-outs, see :attr:`early_time_out`.
    """

    name: str
    source: str
    """Argument with which :func:`load_panel` finds the panel again: its name, or the absolute path of its file."""
    task: str
    """Gymnasium id of the task."""
    description: str
    seeds: tuple[int, ...]
    """Identities of the episodes, the same for every cell."""
    episode_length_s: float
    """Full length of an episode [s]."""
    target_success: float
    """Share of successful episodes that a working policy reaches, in (0, 1]."""
    success_function: str
    """``module:function``; called like a termination term, it returns a boolean tensor of shape (num_envs,)."""
    success_params: dict[str, Any] = field(default_factory=dict)
    hold_s: float = 0.0
    """How long the success function must be true at the end [s]; 0 requires the last step only."""
    early_time_out: EarlyTimeOut = "failure"
    """What happens if a termination with ``time_out=True`` ends an episode before its full length.

    ``failure``: the episode fails. ``judged``: the success function decides, as at the full length. In the last step,
    such terminations have no effect. Other terminations always mean a failure.
    """
    cells: tuple[Cell, ...] = (Cell("nominal"),)

    fresh: bool = False
    """Whether every episode has a seed of its own, in the order of :attr:`episodes`.

    This is so in a proof and in a comparison of two policies, because their episodes must be independent of
    each other. In all other panels, every seed has one episode per cell.
    """

    @property
    def episodes(self) -> tuple[tuple[str, int], ...]:
        """All (cell, seed) pairs, in the order of their slots."""
        if not self.fresh:
            return tuple((cell.name, seed) for cell in self.cells for seed in self.seeds)
        each = len(self.seeds) // len(self.cells)
        names = (cell.name for cell in self.cells for _ in range(each))
        return tuple(zip(names, self.seeds, strict=True))

    def proof(self, run_id: str, number: int, extension: int = 0) -> Panel:
        """Return a panel of a run's proof: the same panel with fresh seeds.

        Args:
            run_id: The run.
            number: Number of the proof in the run, from 1.
            extension: Number of the panel within the proof, from 0.
        """
        return replace(self, seeds=proof_seeds(run_id, number, len(self.episodes), extension), fresh=True)

    def comparison(self, first: str, second: str) -> Panel:
        """Return the panel on which two policies are compared: the same panel with fresh seeds, common to both.

        Args:
            first: SHA-256 of the checkpoint of one policy.
            second: SHA-256 of the checkpoint of the other policy. The order makes no difference.
        """
        return replace(self, seeds=comparison_seeds(first, second, len(self.episodes)), fresh=True)


class _Seeds(msgspec.Struct, forbid_unknown_fields=True):
    """A range of seeds in a panel file."""

    first: Annotated[int, Meta(ge=0)]
    count: Annotated[int, Meta(ge=1, le=1_000_000)]

    def __post_init__(self) -> None:
        """Refuse seeds that are reserved for proofs and comparisons."""
        if self.first + self.count > PANEL_SEED_LIMIT:
            raise ValueError(f"seeds must lie below {PANEL_SEED_LIMIT}")


class _Success(msgspec.Struct, forbid_unknown_fields=True):
    """The table ``success`` of a panel file."""

    function: str
    hold_s: Annotated[float, Meta(ge=0)] = 0.0
    params: dict[str, Any] = {}
    early_time_out: EarlyTimeOut = "failure"

    def __post_init__(self) -> None:
        """Refuse what names no function."""
        if self.function.count(":") != 1:
            raise ValueError("function must read 'module:function'")


class _File(msgspec.Struct, forbid_unknown_fields=True):
    """A panel file. In a table of ``cells``, all keys but the name are perturbations."""

    task: str
    description: str
    seeds: _Seeds | Annotated[list[_Seeds], Meta(min_length=1)]
    episode_length_s: Annotated[float, Meta(gt=0)]
    target_success: Annotated[float, Meta(gt=0, le=1)]
    success: _Success
    cells: Annotated[list[dict[str, Any]], Meta(min_length=1)] | None = None


def find_panels() -> dict[str, Path]:
    """Return the files of the panels that come with the project, by name."""
    return {path.stem: path for path in sorted(panel_files(), key=lambda path: path.stem)}


def is_panel_file(name_or_path: str) -> bool:
    """Tell whether a panel is given by the path of its file, rather than by its name.

    Args:
        name_or_path: Name of a panel, or path of a file.
    """
    return name_or_path.endswith(".toml") or "/" in name_or_path


def require_target(target: float | None) -> None:
    """Refuse a target outside of (0, 1].

    Args:
        target: Value of ``--target``; ``None`` if the flag is not given.

    Raises:
        UserError: If it does not lie in (0, 1].
    """
    if target is not None and not 0 < target <= 1:
        raise UserError(f"--target {target}: must be above 0 and at most 1")


def load_panel(name_or_path: str) -> Panel:
    """Load a panel by its name, or from a file.

    Args:
        name_or_path: Name of a panel of the project, or path of a TOML file.

    Returns:
        The panel.

    Raises:
        UserError: If the panel does not exist, or its file is not a valid panel.
    """
    if is_panel_file(name_or_path):
        path = Path(name_or_path)
    else:
        known = find_panels()
        if name_or_path not in known:
            raise UserError(
                f"unknown panel {name_or_path!r}: {nearest(name_or_path, known)}, or a path to a .toml file"
            )
        path = known[name_or_path]
    source = name_or_path if path != Path(name_or_path) else str(path.resolve())
    try:
        return _panel(path, source, read_toml(path))
    except OSError as error:
        raise UserError(f"cannot read panel file {path}: {error.strerror}") from error
    except (ValueError, UserError) as error:
        raise UserError(f"panel file {path}: {error}") from error


def _panel(path: Path, source: str, content: dict[str, Any]) -> Panel:
    """Build a panel from the content of its file; refuse unknown fields and wrong values."""
    file = msgspec.convert(content, _File)
    if not _finite(content):
        raise ValueError("numbers must be finite, and dates are none")
    if file.success.hold_s > file.episode_length_s:
        raise ValueError("success.hold_s must lie between 0 and episode_length_s")
    ranges = file.seeds if isinstance(file.seeds, list) else [file.seeds]
    seeds = [seed for each in ranges for seed in range(each.first, each.first + each.count)]
    if len(set(seeds)) < len(seeds):
        raise ValueError("the ranges of seeds overlap")
    return Panel(
        name=path.stem,
        source=source,
        task=file.task,
        description=file.description,
        seeds=tuple(seeds),
        episode_length_s=file.episode_length_s,
        target_success=file.target_success,
        success_function=file.success.function,
        success_params=file.success.params,
        hold_s=file.success.hold_s,
        early_time_out=file.success.early_time_out,
        cells=_cells(file.cells or [{"name": "nominal"}]),
    )


def _cells(tables: list[dict[str, Any]]) -> tuple[Cell, ...]:
    """Return the cells of a panel."""
    cells: dict[str, Cell] = {}
    for table in tables:
        name = table.pop("name", None)
        if not isinstance(name, str) or not name:
            raise ValueError("give each cell a name")
        if name in cells:
            raise ValueError(f"two cells have the name {name!r}: rename one of them")
        cells[name] = Cell(name, read_perturbations(f"cell {name!r}", table))
    return tuple(cells.values())


def _finite(value: Any) -> bool:
    """Tell whether a value of a TOML file can be written as JSON."""
    if isinstance(value, dict | list):
        return all(_finite(item) for item in (value.values() if isinstance(value, dict) else value))
    return isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value))


SLOTS_MULTIPLE = 64
"""The number of slots is a multiple of this number, so that every slot is computed by the same instructions.

On a CPU, torch computes a tensor with vector instructions. It computes the remainder of its rows with other
instructions, whose ``atan2`` differs in the last bit. A multiple leaves no remainder."""


def slots_in_all(training: int, held_out: int) -> int:
    """Return the number of slots of a simulation; with held-out slots, a multiple of :data:`SLOTS_MULTIPLE`.

    Args:
        training: Training slots.
        held_out: Held-out slots; 0 for none.
    """
    return training if held_out == 0 else -(-(training + held_out) // SLOTS_MULTIPLE) * SLOTS_MULTIPLE
