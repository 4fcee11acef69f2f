"""Trainings in containers, which write into a volume that this machine mounts at the same path: site and script.

Each start is a part of the job. The script passes SIGTERM on, and notes start, output and exit status beside the plan.
It is constant: all values are its arguments.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ledger_lab.clusters.engine import Site
from ledger_lab.clusters.plans import Plan
from ledger_lab.errors import UserError

_LONGEST_STEM = 40
"""Characters of the readable part of a name: the names of pods add to it, and have at most 63."""
PART_SCRIPT = """\
umask o-w # what this script writes decides what the next part runs
folder=$1 engine=$2 index=$3 plan=$4 python=$5
if ! { cd "$folder" && echo >>"started/$index" && : >>"output/$index.log"; }; then
    echo "user $EUID can't write to $folder here: the machine that submits and the nodes must share this folder"
    exit 2
fi
echo "the output goes to $folder/output/$index.log"
rm -f "exits/$index"
mapfile -t starts <"started/$index"
export LEDGER_LAB_PARTS=${#starts[@]}

training=
asked=
pass_on() {
    asked=yes
    [[ -z $training ]] || kill -s TERM "$training" 2>/dev/null
}
trap pass_on TERM
"$python" -P -m ledger_lab.clusters.planned "$engine" "$folder" "$index" "$plan" >>"output/$index.log" 2>&1 &
training=$!
[[ -z $asked ]] || pass_on
wait "$training"
status=$?
while kill -0 "$training" 2>/dev/null; do # a signal has ended the wait, and not the training
    wait "$training"
    status=$?
done
wait "$training" 2>/dev/null # the status of a training that ended between the two commands
last=$?
((last == 127)) || status=$last
echo "$status" >"exits/$index"
exit "$status"
"""
"""Carries out one training of a plan, in bash. Its arguments are the folder of the submission, the engine, the index of
the training, the SHA-256 of the plan, and Python. It holds no ``$(`` and no ``$$``, which Kubernetes would replace."""

_PARTS = "LEDGER_LAB_PARTS"
"""Environment variable with the number of starts of the training, this one included."""


def earlier_parts(environ: Mapping[str, str]) -> int:
    """Return how often the training had been started before.

    Args:
        environ: The environment of the process.

    Raises:
        UserError: If :data:`PART_SCRIPT` has not started this process.
    """
    parts = environ.get(_PARTS, "")
    if not parts.isdecimal() or int(parts) < 1:
        raise UserError(f"{_PARTS} is {parts!r}: the script of the job starts this program")
    return int(parts) - 1


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
        """Check the paths.

        Raises:
            ValueError: If a value is refused.
        """
        if not self.log_root.is_relative_to(self.volume_path):
            raise ValueError(f"mount = {str(self.mount)!r}: must be log_root or a folder above it: {self.log_root}")
        if self.project.is_relative_to(self.volume_path):
            raise ValueError(f"mount = {str(self.volume_path)!r}: it would hide LedgerLab in the image: {self.project}")

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
            name: Name of the job.
        """
        number = name.removeprefix(f"ledger_lab-{plan.name}-").partition("-")[0]
        return self.log_root / "submissions" / plan.name / number


def unique_name(name: str) -> str:
    """Return the name of a job as Kubernetes and SkyPilot take it. Other submissions have other names.

    Args:
        name: Name of the job.
    """
    stem = re.sub(r"[^a-z0-9]+", "-", name.lower())[:_LONGEST_STEM].strip("-")
    return f"{stem}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
