"""The clusters where the trainings of a study run: that of ``--on``, or those of the table ``[machine]``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ledger_lab.clusters.engine import Engine, Site, load_site
from ledger_lab.errors import UserError
from ledger_lab.studies.declared import Arm, Study


@dataclass(frozen=True)
class Cluster:
    """A file in ``config/clusters``."""

    engine: Engine
    site: Site


@dataclass(frozen=True)
class StudyClusters:
    """The clusters of a study. They share one ledger."""

    by_machine: Mapping[str | None, Cluster]
    """Clusters by the levels of the table ``[machine]``; that of ``--on`` has no level."""

    def of(self, arm: Arm) -> Cluster:
        """Return the cluster where the trainings of an arm run."""
        return self.by_machine[arm.machine]

    @property
    def log_root(self) -> Path:
        """Root of the ledger."""
        return next(iter(self.by_machine.values())).site.log_root

    @property
    def names(self) -> str:
        """Names of all clusters, for people."""
        return ", ".join(dict.fromkeys(cluster.site.name for cluster in self.by_machine.values()))


def study_clusters(study: Study, on: str | None) -> StudyClusters:
    """Read the files of all clusters of a study.

    Args:
        study: The study.
        on: Value of ``--on``; ``None`` for the clusters of the table ``[machine]``.

    Raises:
        UserError: If a file is missing or wrong, or the clusters do not share one ledger.
    """
    if on is not None:
        return StudyClusters({None: Cluster(*load_site(on))})
    by_file = {machine.cluster: Cluster(*load_site(machine.cluster)) for machine in study.machines.values()}
    first = next(iter(by_file.values())).site
    by_name: dict[str, Cluster] = {}
    for cluster in by_file.values():
        site = cluster.site
        if by_name.setdefault(site.name, cluster).site != site:
            raise UserError(f"study {study.name}: two files of clusters are named {site.name}: rename one of them")
        if site.log_root.resolve() != first.log_root.resolve():
            raise UserError(
                f"study {study.name}: cluster {first.name} writes to {first.log_root}, and cluster {site.name} to "
                f"{site.log_root}: the trainings of a study share one ledger: set the same log_root in both files"
            )
    return StudyClusters({level: by_file[machine.cluster] for level, machine in study.machines.items()})
