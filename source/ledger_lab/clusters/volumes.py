"""Sites whose trainings run in containers, and write into a volume that this machine mounts at the same path."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from ledger_lab.clusters.engine import Site
from ledger_lab.clusters.part import PART_VARIABLES
from ledger_lab.clusters.plans import Plan
from ledger_lab.clusters.submission_folders import folder_of
from ledger_lab.errors import UserError

_IMAGE = re.compile(r"[a-z0-9][\w.:/@-]*", re.ASCII)
_LONGEST_STEM = 40
"""Characters of the readable part of a name: the names of pods add to it, and have at most 63."""


@dataclass(frozen=True, kw_only=True)
class VolumeSite(Site):
    """Keys of a site whose trainings run in containers with a shared volume."""

    container: str
    """Image of the trainings."""
    mount: Path | None = None
    """Where the volume is mounted, in the container and on this machine; ``None`` for :attr:`log_root`."""
    project: Path = Path("/workspace/ledger_lab")
    """Folder of LedgerLab in the image."""
    python: str = "python"
    """Python in the image."""

    @property
    def volume_path(self) -> Path:
        """Where the volume is mounted."""
        return self.mount or self.log_root

    def __post_init__(self) -> None:
        """Check what becomes a part of the files.

        Raises:
            ValueError: If a value is refused.
        """
        require_names("container", [self.container], _IMAGE, "give the name of an image, such as REGISTRY/NAME:TAG")
        for what in ("log_root", "volume_path", "project", "python"):
            value = str(getattr(self, what))
            if not value.isprintable() or not value.strip() or set(":$") & set(value) or ".." in Path(value).parts:
                key = "mount" if what == "volume_path" else what
                raise ValueError(f"{key} = {value!r}: give a path without '..', ':', '$' and control characters")
        if not self.volume_path.is_absolute() or not self.log_root.is_relative_to(self.volume_path):
            raise ValueError(f"mount = {str(self.mount)!r}: must be log_root or a folder above it: {self.log_root}")
        if self.project.is_relative_to(self.volume_path):
            raise ValueError(f"mount = {str(self.volume_path)!r}: it would hide LedgerLab in the image: {self.project}")
        if own := sorted(PART_VARIABLES & self.environment.keys()):
            raise ValueError(f"environment: {own[0]} is a variable of the script of the job: leave it out")

    def require_mounted(self, volume: str) -> None:
        """Refuse to go on if this machine can't have mounted the volume.

        Args:
            volume: What the volume is, for people.

        Raises:
            UserError: If there is no such folder.
        """
        if not self.volume_path.is_dir():
            raise UserError(
                f"{self.volume_path} is no folder here: mount the storage of {volume} there, so that this machine and "
                "the trainings share the ledger"
            )

    def submission_folder(self, plan: Plan, name: str) -> Path:
        """Return the folder of a submission, as the containers see it.

        Args:
            plan: The plan.
            name: Name of the job; see :func:`~ledger_lab.clusters.submission_folders.job_name`.
        """
        number = name.removeprefix(f"ledger_lab-{plan.name}-").partition("-")[0]
        return folder_of(self.log_root, plan.name) / number


def require_names(what: str, names: Collection[str], form: re.Pattern[str], hint: str) -> None:
    """Refuse names of another form.

    Args:
        what: The key that holds them.
        names: The names.
        form: What they look like.
        hint: How to write them.

    Raises:
        ValueError: If one has another form.
    """
    for name in names:
        if not form.fullmatch(name):
            raise ValueError(f"{what}: {name!r}: {hint}")


def unique_name(name: str, rest: Sequence[str]) -> str:
    """Return a name that Kubernetes and SkyPilot take. Other submissions have other names.

    Args:
        name: Name of the job; see :func:`~ledger_lab.clusters.submission_folders.job_name`.
        rest: What tells apart submissions of the same name to one cluster.
    """
    stem = re.sub(r"[^a-z0-9]+", "-", name.lower())[:_LONGEST_STEM].strip("-")
    return f"{stem}-{hashlib.sha256(chr(0).join((name, *rest)).encode()).hexdigest()[:8]}"
