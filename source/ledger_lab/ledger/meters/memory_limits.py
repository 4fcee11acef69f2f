"""Memory limits of the control groups that this process belongs to."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ledger_lab.ledger.control_groups import control_groups, read_text
from ledger_lab.ledger.meters.process_tree import available_bytes


@dataclass(frozen=True)
class _Version:
    """Names of the memory controller's files in one version of control groups."""

    limit: str
    used: str
    reclaimable: str
    """Key in ``memory.stat`` of the cached file pages that the kernel can drop at once."""
    kills: str
    """File with the count of processes that the kernel killed."""


_V1 = _Version("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "memory.oom_control")
_V2 = _Version("memory.max", "memory.current", "inactive_file", "memory.events")


def kill_counters(root: Path = Path("/")) -> Iterator[Path]:
    """Yield the files that count processes killed for memory, of the nearest control group first.

    Args:
        root: Folder that contains ``proc`` and ``sys``.
    """
    for folder, version in _memory_groups(root):
        yield folder / version.kills


def usable_bytes(root: Path = Path("/")) -> int:
    """Return the memory that this process can still take [B]: of the host, or less in a limited control group.

    Args:
        root: Folder that contains the ``proc`` and ``sys`` of the control groups.

    Raises:
        OSError: If the kernel does not report the memory of the host.
    """
    left = [available_bytes()]
    for folder, version in _memory_groups(root):
        limit, used = _number(folder / version.limit), _number(folder / version.used)
        if limit is not None and used is not None:
            cached = re.search(rf"^{version.reclaimable} (\d+)$", read_text(folder / "memory.stat"), re.MULTILINE)
            left.append(limit - used + (int(cached[1]) if cached else 0))
    return max(0, min(left))


def memory_bytes(root: Path = Path("/")) -> int:
    """Return the memory that this process may use [B]: that of the host, or the limit of its control group if lower.

    Args:
        root: Folder that contains the ``proc`` and ``sys`` of the control groups.
    """
    limits = [_number(folder / version.limit) for folder, version in _memory_groups(root)]
    of_host = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([of_host, *(limit for limit in limits if limit is not None)])


def _memory_groups(root: Path) -> Iterator[tuple[Path, _Version]]:
    """Yield the folders of the control groups of this process and of their parents, the nearest first."""
    versions = {1: _V1, 2: _V2}
    yield from ((folder, versions[version]) for folder, version in control_groups("memory", root))


def _number(path: Path) -> int | None:
    """Return the number in a file; ``None`` if there is none, such as ``max``."""
    text = read_text(path).strip()
    return int(text) if text.isdecimal() else None
