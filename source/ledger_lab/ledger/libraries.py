"""The RL libraries that LedgerLab trains with. A new one is a folder, and a line here."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ledger_lab.errors import UserError, nearest

if TYPE_CHECKING:
    from ledger_lab.tasks.recipes.dialect import Dialect


PPO = "ppo"
"""The algorithm that every library has."""


@dataclass(frozen=True)
class Library:
    """Where to find what is particular to a library."""

    folder: str
    """Dotted name of its package, whose module ``dialect`` has a ``DIALECT`` (see
    :class:`~ledger_lab.tasks.recipes.dialect.Dialect`) and whose module ``adapter`` has an ``ADAPTER`` (see
    :class:`ledger_lab.training.runners.adapter.Adapter`). Both are imported on demand; only the adapter needs the
    library."""
    distribution: str
    """Installed package whose version runs record."""
    algorithms: tuple[str, ...] = (PPO,)
    """Algorithms that LedgerLab trains with the library, by their names on the command line. For those besides PPO, the
    modules ``dialect`` and ``adapter`` of :attr:`off_policy` have objects like ``SAC``."""
    off_policy: str = ""
    """Dotted name of the package with the modules of the algorithms besides PPO."""
    lacks: tuple[str, ...] = ()
    """Algorithms of other libraries that this library itself does not have."""


LIBRARIES = {
    "rsl_rl": Library("ledger_lab.training.runners.rsl_rl", "rsl-rl-lib", lacks=("sac", "td3")),
    "rl_games": Library(
        "ledger_lab.training.runners.rl_games", "rl-games", (PPO, "sac"), "ledger_lab.off_policy.rl_games", ("td3",)
    ),
    "skrl": Library("ledger_lab.training.runners.skrl", "skrl", (PPO, "sac", "td3"), "ledger_lab.off_policy.skrl"),
}
"""All libraries by their names on the command line, in the order of their columns in the documentation."""

if importlib.util.find_spec("ledger_lab.off_policy") is None:  # a wing that is not installed
    LIBRARIES = {name: replace(library, algorithms=(PPO,)) for name, library in LIBRARIES.items()}


def require_library(library: str) -> None:
    """Refuse an unknown library.

    Args:
        library: Its name.

    Raises:
        UserError: If there is none of this name.
    """
    if library not in LIBRARIES:
        raise UserError(f"unknown library {library!r}: {nearest(library, LIBRARIES)}")


def algorithms() -> list[str]:
    """Return the algorithms that some library trains with."""
    return list(dict.fromkeys(name for library in LIBRARIES.values() for name in library.algorithms))


def library_with(algorithm: str, preferred: str) -> str:
    """Return a library that has an algorithm: the preferred one, or else the one that has most algorithms.

    So different algorithms of a task are of the same library if possible, and can be compared.

    Args:
        algorithm: Name on the command line.
        preferred: The library to take if it has the algorithm.

    Raises:
        UserError: If no library has it.
    """
    having = [name for name, library in LIBRARIES.items() if algorithm in library.algorithms]
    if not having:
        raise UserError(f"--algorithm {algorithm}: {nearest(algorithm, algorithms())}")
    return preferred if preferred in having else max(having, key=lambda name: len(LIBRARIES[name].algorithms))


def agent_key(library: str, algorithm: str) -> str:
    """Return the key under which tasks register a library's configuration of an algorithm, as in Isaac Lab.

    Args:
        library: Name on the command line.
        algorithm: Name on the command line.

    Raises:
        UserError: If the library does not have the algorithm.
    """
    if algorithm not in LIBRARIES[library].algorithms:
        reason = (
            f"{dialect_of(library).title} has no {algorithm.upper()}"
            if algorithm in LIBRARIES[library].lacks
            else f"LedgerLab trains {library} with {' or '.join(LIBRARIES[library].algorithms)} only"
        )
        raise UserError(f"--algorithm {algorithm}: {reason}: use --rl_library {library_with(algorithm, library)}")
    return f"{library}_cfg_entry_point" if algorithm == PPO else f"{library}_{algorithm}_cfg_entry_point"


def algorithm_of(library: str, agent: str | None) -> str:
    """Return the algorithm of an agent configuration; PPO unless its key names another one.

    Args:
        library: Name on the command line.
        agent: Key of the agent's configuration; ``None`` for the library's usual configuration.
    """
    known = {agent_key(library, name): name for name in LIBRARIES[library].algorithms}
    return PPO if agent is None else known.get(agent, PPO)


def replays(algorithm: str | None) -> bool:
    """Tell whether an algorithm learns from a replay memory.

    Args:
        algorithm: Its name; ``None`` if unknown.
    """
    return algorithm not in (PPO, None)


def part_of(library: str, algorithm: str, name: str) -> Any:  # noqa: ANN401 - a dialect or an adapter
    """Import what is particular to a library and an algorithm.

    Args:
        library: Name on the command line.
        algorithm: An algorithm that it has.
        name: ``dialect`` or ``adapter``.
    """
    own, is_ppo = LIBRARIES[library], algorithm == PPO
    module = importlib.import_module(f"{own.folder if is_ppo else own.off_policy}.{name}")
    return getattr(module, name.upper() if is_ppo else algorithm.upper())


def dialect_of(library: str, algorithm: str = PPO) -> Dialect:
    """Return the dialect of a library: where it keeps the fields of a recipe.

    Args:
        library: Name on the command line.
        algorithm: An algorithm that it has.
    """
    dialect: Dialect = part_of(library, algorithm, "dialect")
    return dialect


def dialects(algorithm: str = PPO) -> list[Dialect]:
    """Return the dialects of all libraries that have an algorithm.

    Args:
        algorithm: Name on the command line.
    """
    return [dialect_of(name, algorithm) for name, library in LIBRARIES.items() if algorithm in library.algorithms]
