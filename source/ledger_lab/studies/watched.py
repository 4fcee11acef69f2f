"""Studies for those who watch a ledger: the known ones, and the watch of one."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from ledger_lab.errors import UserError
from ledger_lab.files import config_root
from ledger_lab.ledger import read_ledger
from ledger_lab.reports.watch.model import PlannedStudy, Watch
from ledger_lab.reports.watch.view import watch_ledger
from ledger_lab.studies.declared import Study, load_study
from ledger_lab.wings import wing_part


def planned(study: Study) -> PlannedStudy:
    """Return what a watch needs to know of a study."""
    cohorts = tuple(arm.cohort for arm in study.arms)
    return PlannedStudy(
        name=study.name, seeds=study.seeds, cohorts=cohorts, budget_usd=study.budget_usd, budget_h=study.budget_h
    )


def planned_study(name: str) -> PlannedStudy:
    """Return what a watch needs to know of the study that a user names."""
    return planned(load_study(name))


def known_studies() -> tuple[list[PlannedStudy], list[str]]:
    """Read the studies in ``config/studies``.

    Returns:
        The studies; and in words, which files can't be read.
    """
    studies: list[PlannedStudy] = []
    notes: list[str] = []
    for path in sorted((config_root() / "studies").glob("*.toml")):
        try:
            studies.append(planned_study(str(path)))
        except UserError as error:  # a file that is being edited must not silence all alerts
            notes.append(str(error))
    return studies, notes


def watch_study(study: Study, log_root: Path, *, ask: bool = False) -> Watch:
    """Watch one study: its spend, and the alerts about it and its runs.

    Args:
        study: The study.
        log_root: Root of the ledger, which need not exist.
        ask: Whether to ask the schedulers about its submitted trainings.
    """
    ask_queues = wing_part("queues") if ask else None
    queues, notes = ([], []) if ask_queues is None else ask_queues(log_root, [study.name])
    found = watch_ledger(
        read_ledger(log_root, tolerate_damage=True),
        now=datetime.now(UTC),
        studies=[planned(study)],
        asked=[study.name],
        queues=queues,
        notes=notes,
    )
    own = {run.run_id for run in found.runs if run.study == study.name} | {study.name} | {job.job for job in queues}
    own |= {f"{job.job}_{job.index}" for job in queues}
    return replace(found, alerts=tuple(alert for alert in found.alerts if alert.subject in own))
