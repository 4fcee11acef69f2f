"""The table ``[machine]`` of a study: the same training on several machines."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ledger_lab.errors import UserError, nearest
from ledger_lab.studies.declared.arguments import check_arguments

MACHINE_FLAGS = ("--instance",)
"""Flags of ``train.py`` that a study with machines sets itself."""
_KEYS = ("cluster", "instance", "arguments")


@dataclass(frozen=True, kw_only=True)
class Machine:
    """One entry of the table ``[machine]``: where trainings run, and what that costs."""

    cluster: str
    """Name of a file in ``config/clusters``, such as ``local``, or path of a ``.toml`` file."""
    instance: str | None
    """Entry of the price file; ``None`` for that of the cluster's file."""
    own: tuple[str, ...]
    """Further arguments of ``train.py``."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """Arguments of ``train.py``."""
        return self.own if self.instance is None else (*self.own, "--instance", self.instance)


def read_machines(where: str, found: object, taken: Sequence[str]) -> dict[str, Machine]:
    """Check the table ``[machine]`` of a study.

    Args:
        where: The file and the table, for messages.
        found: The content of the table.
        taken: Flags that the study sets itself.

    Returns:
        The machines by the names of their levels.

    Raises:
        UserError: If it is not such a table.
    """
    if not isinstance(found, dict) or not found or not all(isinstance(each, Mapping) for each in found.values()):
        raise UserError(f'{where}: must be a table like l4 = {{ cluster = "slurm", instance = "aws-g6.xlarge" }}')
    return {level: _machine(f"{where}, {level}", content, taken) for level, content in found.items()}


def _machine(where: str, content: Mapping[str, object], taken: Sequence[str]) -> Machine:
    """Check one entry."""
    if unknown := sorted(content.keys() - {*_KEYS}):
        raise UserError(f"{where}: unknown key {unknown[0]!r}: {nearest(unknown[0], _KEYS)}")
    cluster, instance = content.get("cluster"), content.get("instance")
    if not isinstance(cluster, str) or not cluster:
        raise UserError(f"{where}: cluster must name a file in config/clusters, such as local, or a .toml file")
    if instance is not None and (not isinstance(instance, str) or not instance):
        raise UserError(f"{where}: instance must name an entry of the price file")
    own = check_arguments(f"{where}, arguments", content.get("arguments", []), taken)
    return Machine(cluster=os.path.expanduser(cluster), instance=instance, own=own)
