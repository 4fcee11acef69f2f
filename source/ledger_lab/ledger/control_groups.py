"""The control groups that this process belongs to, such as those of a container: their limits of processors and memory.

There are two versions, which name files differently (cgroups(7)).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


def control_groups(controller: str, root: Path = Path("/")) -> Iterator[tuple[Path, int]]:
    """Yield the folders of the control groups of this process and of their parents, the nearest first.

    Args:
        controller: What the groups limit, like ``memory``.
        root: Folder that contains ``proc`` and ``sys``.

    Yields:
        A folder, and the version of control groups, 1 or 2.
    """
    mount = root / "sys" / "fs" / "cgroup"
    for line in read_text(root / "proc" / "self" / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            top, version = mount, 2
        elif controller in controllers.split(","):
            top, version = mount / controller, 1
        else:
            continue
        group = top / path.lstrip("/")  # in a container, only the upper levels may be visible
        yield from ((folder, version) for folder in (group, *group.parents) if folder.is_relative_to(top))


def cpu_quota(root: Path = Path("/")) -> float | None:
    """Return how many processors the control groups allow at a time; ``None`` without a limit.

    Args:
        root: Folder that contains ``proc`` and ``sys``.
    """
    return min(_cpu_quotas(root), default=None)


def _cpu_quotas(root: Path) -> Iterator[float]:
    """Yield the limits of all control groups."""
    for folder, version in control_groups("cpu", root):
        names = ("cpu.max",) if version == 2 else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        words = " ".join(read_text(folder / name) for name in names).split()
        if len(words) == 2 and all(word.isdecimal() for word in words):
            yield int(words[0]) / int(words[1])


def read_text(path: Path) -> str:
    """Return the text of a kernel file; empty if it can't be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


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
    left = [_available_bytes()]
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


def _available_bytes() -> int:
    """Return the available memory of the host (``MemAvailable``) [B].

    Raises:
        OSError: If the kernel does not report it.
    """
    found = re.search(r"^MemAvailable: +(\d+) kB$", read_text(Path("/proc/meminfo")), re.MULTILINE)
    if found is None:
        raise OSError("/proc/meminfo has no MemAvailable")
    return int(found[1]) * 1024
