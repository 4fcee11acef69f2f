"""The control groups that this process belongs to, such as those of a container, and their limit of processors.

There are two versions, which name files differently (cgroups(7)).
"""

from __future__ import annotations

from collections.abc import Iterator
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
