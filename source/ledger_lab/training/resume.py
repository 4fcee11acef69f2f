"""``train.py --resume``: finds the run and its state, and refuses runs that can't be resumed."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

import msgspec

from ledger_lab.errors import UserError
from ledger_lab.files import file_sha256
from ledger_lab.ledger import (
    STATE_FILE,
    AttemptStarted,
    CheckpointSaved,
    PanelResult,
    Run,
    RunDeclared,
    StateSaved,
    Status,
)
from ledger_lab.ledger.find import find_run
from ledger_lab.ledger.liveness import file_system_time, is_alive, may_still_write, modified_s
from ledger_lab.ledger.meters.phases import TRAINING_PHASES, Phase
from ledger_lab.ledger.runs import attempt_number, silence_limit
from ledger_lab.panels import RULE_VERSION, few_differences
from ledger_lab.reports.terminal.request import flag_names
from ledger_lab.training.request import TrainRequest
from ledger_lab.training.runners.process_group import ALONE, ProcessGroup

OVER = (Status.COMPLETED, Status.TARGET_REACHED, Status.INVALID, Status.STOPPED, Status.LIMIT_REACHED)
"""Statuses of runs that have ended for good."""

FIELDS_THAT_MAY_DIFFER = ("command", "git", "request", "save_state_every")
"""Fields of a declaration that may differ between the attempts of a run."""


@dataclass(frozen=True, kw_only=True)
class Resumption:
    """An interrupted run, and the state that its next attempt resumes from."""

    run_dir: Path
    declared: RunDeclared
    request: TrainRequest
    """The request that the run was declared with."""
    attempt: int
    """Number of the new attempt."""
    state: StateSaved
    saved_by: int
    """Number of the attempt that saved the state."""
    checkpoints: list[CheckpointSaved]
    """Checkpoints of earlier attempts."""
    results: list[PanelResult]
    """Held-out scores of earlier attempts, including scores after the state was saved."""
    train_ns: int
    """Time in the training phases up to the state [ns]."""
    evaluate_ns: int
    """Time in the phase ``evaluate`` up to the state [ns]."""
    spent_ns: int = 0
    """Wall-clock time of all earlier attempts, as it is billed [ns]."""
    reasons: tuple[str, ...] = ()
    """What differs from an uninterrupted training, besides that episodes begin anew."""

    @property
    def scored(self) -> list[tuple[PanelResult, int]]:
        """Held-out scores of checkpoints up to the state, with the iteration of each checkpoint."""
        iterations = {saved.path: saved.iteration for saved in self.checkpoints}
        found = [(row, iterations[row.checkpoint]) for row in self.results]
        return [(row, iteration) for row, iteration in found if iteration <= self.state.iteration]

    def to_data(self) -> dict[str, Any]:
        """Return the fields except :attr:`reasons` as a JSON value, for other processes."""
        data: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(replace(self, reasons=()), enc_hook=str))
        return data

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        """Rebuild a resumption from the result of :meth:`to_data`."""
        return msgspec.convert(data, cls, dec_hook=lambda kind, value: kind(value))


def find_resumption(asked: TrainRequest, group: ProcessGroup = ALONE) -> tuple[TrainRequest, Resumption]:
    """Find the run to resume, and make the request for its next attempt.

    Args:
        asked: A request with a run to resume.
        group: The processes of the training; the first process looks for the run.

    Returns:
        The request that the run was declared with, updated by the flags that each attempt may set; and the resumption.

    Raises:
        UserError: If there is no such run, the run can't be resumed, or flags differ from its declaration.
    """
    name, log_root = str(asked.resume), asked.log_root.resolve()
    resumed = Resumption.from_data(group.first(lambda: _resumption(find_run(name, log_root)).to_data()))
    if group.world.size != resumed.declared.world_size:
        group.agree(lambda: _refuse_processes(resumed.declared, group.world.size))
    group.agree(lambda: _require_as_declared(asked, resumed))
    return resumed.request.resumed_by(asked), resumed


def _refuse_processes(declared: RunDeclared, processes: int) -> None:
    """Raise the error for a number of processes that differs from a run's declaration."""
    way = f"use --nproc {declared.world_size}" if declared.world_size > 1 else "leave --nproc and --distributed out"
    raise UserError(f"run {declared.run_id} was declared for {declared.world_size} processes, not {processes}: {way}")


def _require_as_declared(asked: TrainRequest, resumed: Resumption) -> None:
    """Refuse flags and overrides that a run was not declared with.

    A flag may also have the value that the run resolved it to. Fields of the declaration have the names of the flags.
    """
    declared, free = resumed.declared, flag_names(TrainRequest, each_attempt=True)
    for name in asked.given:
        value, then, resolved = (getattr(each, name, None) for each in (asked, resumed.request, declared))
        if name in free or value in (then, resolved):
            continue
        then = resolved if then is None else then
        words = "without it" if then is None or isinstance(value, bool) else f"with {_shown(then)}"
        flag = f"--no_{name}" if value is False else f"--{name}" if value is True else f"--{name} {_shown(value)}"
        raise UserError(f"{flag}: run {declared.run_id} was declared {words}, which can't change: leave the flag out")
    if strangers := [override for override in asked.overrides if override not in resumed.request.overrides]:
        raise UserError(
            f"override {strangers[0]!r}: run {declared.run_id} was declared without it, which can't change: "
            "leave it out"
        )


def _shown(value: Any) -> str:
    """Return a value as it is written on a command line."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def require_same_declaration(
    now: RunDeclared, resumed: Resumption, group: ProcessGroup, allow_changed_code: bool
) -> Resumption:
    """Refuse to resume a run whose declaration would be different now.

    Args:
        now: The declaration that the run would get now.
        resumed: The run.
        group: The processes of the training; the first process compares.
        allow_changed_code: Whether the code may differ.

    Returns:
        The resumption, with what differs.

    Raises:
        UserError: If configuration, panel, code or packages differ; the message names the fields.
    """
    reasons: list[str] = group.first(lambda: _changes(now, resumed, allow_changed_code))
    return replace(resumed, reasons=tuple(reasons))


def _changes(now: RunDeclared, resumed: Resumption, allow_changed_code: bool) -> list[str]:
    """Return the permitted changes between two declarations, and refuse all others."""
    (found, code_now, machine_now), (then, code_then, machine_then) = map(_split, (now, resumed.declared))
    run = f"run {resumed.declared.run_id}"
    if what := few_differences(found, then):
        raise UserError(
            f"{run} was declared differently: {what} (now != then). Restore these values, or start a new run"
        )
    code = few_differences(code_now, code_then)
    if code and not allow_changed_code:
        raise UserError(
            f"{run} was started with other code: {code} (now != then). Restore the code, or use --allow_changed_code, "
            "which the ledger records"
        )
    reasons = [f"other code: {code}"] if code else []
    if machine := few_differences({"hardware": machine_now}, {"hardware": machine_then}):
        reasons.append(f"other hardware: {machine}")
    return reasons


def _split(declared: RunDeclared) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return the fields of a declaration about the run, the code and the machine, without fields that may differ."""
    data: dict[str, Any] = json.loads(json.dumps(declared.to_data()))
    hashes = {**(data.pop("scoring_code") or {}), **data.pop("code_sha256")}
    sources = {f"the source of {name}": sha256[:12] for name, sha256 in hashes.items()}
    code, machine = {**sources, "versions": data.pop("versions")}, data.pop("hardware")
    return {name: value for name, value in data.items() if name not in FIELDS_THAT_MAY_DIFFER}, code, machine


def require_whole(path: Path, *known_sha256: str) -> str:
    """Check that a file holds a state that the ledger knows.

    Args:
        path: The file.
        known_sha256: Hashes that the ledger knows.

    Returns:
        The hash of the file.

    Raises:
        UserError: If the file is missing, or has changed.
    """
    if not path.is_file():
        raise UserError(f"{path} is missing, and the training can't be resumed without it: start a new run")
    found = file_sha256(path)
    if found not in known_sha256:
        raise UserError(
            f"{path} is damaged: its SHA-256 is {found[:12]}…, which the ledger does not know. Restore the file, or "
            "start a new run"
        )
    return found


def _resumption(run: Run) -> Resumption:
    """Return the resumption of a run.

    Raises:
        UserError: If the run can't be resumed.
    """
    name, last = f"run {run.declared.run_id}", run.attempts[-1] if run.attempts else None
    if last is None:
        raise UserError(f"{name} was declared, but its training never began: start a new run")
    if may_still_write(last, run.directory) or (last.shutdown is None and last.shows_life(here=True)):
        start = next(iter(last.of(AttemptStarted)), None)
        where = "" if start is None else f" (process {start.pid} on {start.host})"
        way = "wait until it has ended, or end it, before it is resumed"
        if start is not None and (blind := _blindness(start)):
            way += f"; {blind} it counts as lost after {last.silence_limit // timedelta(minutes=1)} silent minutes"
        raise UserError(f"{name} is still alive{where}: {way}")
    if last.status in OVER or run.proven:
        status = Status.TARGET_REACHED if run.proven else last.status
        raise UserError(f"{name} has ended: {status.replace('_', ' ')}. There is nothing to resume: start a new run")
    states = [(attempt.number, row) for attempt in run.attempts for row in attempt.of(StateSaved)]
    if not states:
        raise UserError(f"{name} ended before it saved a state: start a new run")
    sha256 = require_whole(run.directory / STATE_FILE, *(row.sha256 for _, row in states))
    saved_by, state = next(found for found in reversed(states) if found[1].sha256 == sha256)
    request = _declared_request(run.declared)
    if run.declared.verdict_rule > RULE_VERSION:
        raise UserError(
            f"{name} was declared with version {run.declared.verdict_rule} of the verdict's rule, and this LedgerLab "
            f"knows versions up to {RULE_VERSION}: resume it with the version that declared it"
        )
    spent_ns = sum(attempt.wall_ns for attempt in run.attempts)
    if request.limit_s is not None and spent_ns >= request.limit_s * 1e9:
        raise UserError(
            f"{name} has used up its --limit_s {request.limit_s:g}: its attempts took {spent_ns / 1e9:.1f} s. There "
            "is nothing to resume: start a new run"
        )
    numbers = _attempts_begun(run)
    kept = [
        window
        for attempt, window in run.windows
        if (attempt.number, window.wall_ns) <= (saved_by, state.wall_ns) and window.iteration is not None
    ]
    return Resumption(
        run_dir=run.directory,
        declared=run.declared,
        request=request,
        attempt=max(numbers) + 1,
        state=state,
        saved_by=saved_by,
        checkpoints=run.checkpoints,
        results=[row for attempt in run.attempts for row in attempt.of(PanelResult)],
        train_ns=sum(ns for window in kept for phase, ns in window.phase_ns.items() if phase in TRAINING_PHASES),
        evaluate_ns=sum(window.phase_ns.get(Phase.EVALUATE, 0) for window in kept),
        spent_ns=spent_ns,
    )


def _blindness(start: AttemptStarted) -> str | None:
    """Tell why this process can't know whether another one runs; ``None`` if it can."""
    if start.host != socket.gethostname():
        return "on another host"
    unknown = is_alive(start.pid, start.process) is None
    return "seen from another container or by another user" if unknown else None


def _attempts_begun(run: Run) -> list[int]:
    """Return the numbers of all attempts that have a journal, including journals without a row.

    Raises:
        UserError: If an attempt may have begun since the ledger was read: it has a recent journal without a row.
    """
    known = max(attempt.number for attempt in run.attempts)
    numbers, now_s = [], file_system_time(run.directory)
    for path in run.directory.iterdir():
        if (number := attempt_number(path)) is None:
            continue
        numbers.append(number)
        if numbers[-1] > known and now_s - modified_s(path) < silence_limit(supervised=True).total_seconds():
            raise UserError(f"run {run.declared.run_id} is being resumed already: {path} exists")
    return numbers


def _declared_request(declared: RunDeclared) -> TrainRequest:
    """Return the request that a run was declared with.

    Raises:
        UserError: If the declaration holds flags of another version.
    """
    try:
        return TrainRequest.from_data(declared.request or {})
    except (TypeError, ValueError, UserError) as error:
        raise UserError(
            f"run {declared.run_id} was declared with flags that this version of LedgerLab refuses ({error}): resume "
            "it with the version that declared it, or start a new run"
        ) from error
