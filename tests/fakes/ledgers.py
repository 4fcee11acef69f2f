"""Ledgers written by hand, for what must follow from rows alone."""

from __future__ import annotations

import hashlib
import socket
import tempfile
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from ledger_lab.ledger import (
    STATE_FILE,
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    DeviceSample,
    Journal,
    LearnerHashed,
    Outcomes,
    PanelResult,
    PhaseWindow,
    Row,
    RunDeclared,
    StateSaved,
    Status,
)
from ledger_lab.ledger.content import JournalContent, read_journal
from ledger_lab.ledger.costs.prices import load_prices
from ledger_lab.ledger.encoding import GENESIS, encode_fields, encode_line, hash_of
from ledger_lab.ledger.rows import ProcessIdentity

SECOND = 1_000_000_000

PANEL_EPISODES = 256
"""Episodes of a panel of :func:`proven`."""


_FOLDER = tempfile.TemporaryDirectory()
"""Journals of :func:`journal_of`, whose samples are read again."""


def journal_of(rows: Sequence[Row], times: Sequence[datetime]) -> JournalContent:
    """Return a verified journal with rows that were written at certain times."""
    previous = GENESIS
    path = Path(tempfile.mkdtemp(dir=_FOLDER.name), "journal-1-0.jsonl")
    with path.open("wb") as file:
        for number, (row, time) in enumerate(zip(rows, times, strict=True)):
            written = time.isoformat(timespec="milliseconds")
            line = encode_line(number, written, type(row).__name__, encode_fields(row), previous)
            previous = hash_of(line)
            file.write(line)
    return read_journal(path)


def outcomes(successes: int, episodes: int = 10) -> Outcomes:
    """Return outcomes with so many successes; the failures fell."""
    won = [index < successes for index in range(episodes)]
    return Outcomes(
        cell=["nominal"] * episodes,
        seed=list(range(episodes)),
        success=won,
        success_any=won,
        steps=[300] * episodes,
        episode_return=[1.0] * episodes,
        ended_by=["horizon" if success else "fell" for success in won],
        fingerprint=[f"{index:016x}" for index in range(episodes)],
    )


def declared(run_id: str, **changes: object) -> RunDeclared:
    """Return the declaration of a run with 10 environments and 4 steps an iteration."""
    fields: dict[str, object] = {
        "run_id": run_id,
        "cohort": None,
        "task": "T",
        "rl_library": "rsl_rl",
        "experiment": "e",
        "overrides": [],
        "seed": 1,
        "device": "cpu",
        "num_envs": 10,
        "world_size": 1,
        "max_iterations": 2,
        "horizon": 4,
        "epochs": 1,
        "minibatches": 1,
        "panel": "p",
        "panel_id": "p1-aa",
        "panel_fields": {},
        "target_success": 0.9,
        "held_out_slots": 10,
        "eval_every": None,
        "stop_at_target": True,
        "error_budget": 0.05,
        "stop_on": [],
        "physics": "newton/mjwarp",
        "timing": "host",
        "price": load_prices()["local"].to_dict(),
        "config_sha256": {"env": "0", "agent": "0"},
        "versions": {},
        "git": {},
        "hardware": {},
        "command": [],
    }
    return RunDeclared(**{**fields, **changes})  # type: ignore[arg-type]


def sha256_of(run_id: str, checkpoint: str) -> str:
    """Return a hash for a checkpoint that has no file."""
    return hashlib.sha256(f"{run_id}/{checkpoint}".encode()).hexdigest()


def window(iteration: int | None, env_steps: int, phase_ns: dict[str, int], wall_ns: int) -> PhaseWindow:
    """Return a window without figures of training."""
    return PhaseWindow(
        iteration=iteration, env_steps=env_steps, phase_ns=phase_ns, wall_ns=wall_ns, figures={}, non_finite=[]
    )


def write_run(
    root: Path,
    run_id: str,
    scores: tuple[int, ...] = (5, 9),
    proof: int | None = None,
    status: Status | None = Status.COMPLETED,
    pid: int = 2**22 + 1,
    host: str | None = None,
    state: bool = False,
    process: ProcessIdentity | None = None,
    compared: Sequence[LearnerHashed] = (),
    **changes: object,
) -> Path:
    """Write a run: 2 s of start-up, two iterations of 3 s with a checkpoint each, 1 s of scoring.

    Args:
        root: Root of the ledger.
        run_id: The run.
        scores: Successes of 10 of the two checkpoints; none for a run that ends after its first iteration.
        proof: Successes of 10 on fresh seeds of the last one, if it came to that; it needs 9.
        status: How it ends; ``None`` for a run that never says.
        pid: Its process; by default one that can't exist.
        host: Its host; this one by default.
        state: Whether it leaves a state to be resumed from, after its first iteration.
        process: Identity of its process.
        compared: What it compared with other processes.
        changes: Fields of the declaration.

    Returns:
        The run's directory.
    """
    run_dir = root / "rsl_rl" / "e" / run_id
    run_dir.mkdir(parents=True)
    with Journal(run_dir / "journal-1-0.jsonl") as journal:
        journal.append(declared(run_id, **changes))
        began = {"host": host or socket.gethostname(), "wall_ns": SECOND, "process": process}
        journal.append(AttemptStarted(run_id=run_id, attempt=1, rank=0, pid=pid, **began))  # type: ignore[arg-type]
        journal.append(window(None, 0, {"startup": 2 * SECOND}, 2 * SECOND))
        for iteration in range(1, 3 if scores else 2):
            wall_ns = (2 + 3 * iteration) * SECOND
            phase_ns = {"simulate": SECOND, "manage": SECOND // 2, "infer": SECOND // 2, "learn": SECOND}
            journal.append(window(iteration, 40 * iteration, phase_ns, wall_ns))
            journal.append(
                CheckpointSaved(
                    path=f"model_{iteration}.pt",
                    sha256=sha256_of(run_id, f"model_{iteration}.pt"),
                    size_bytes=1,
                    iteration=iteration,
                    env_steps=40 * iteration,
                    wall_ns=wall_ns,
                )
            )
        for row in compared:
            journal.append(row)
        if state:
            saved = b"a state"
            (run_dir / STATE_FILE).write_bytes(saved)
            journal.append(
                StateSaved(
                    sha256=hashlib.sha256(saved).hexdigest(),
                    size_bytes=len(saved),
                    iteration=1,
                    env_steps=40,
                    wall_ns=5 * SECOND,
                )
            )
        for iteration, successes in enumerate(scores, start=1):
            journal.append(result(run_id, f"model_{iteration}.pt", successes, purpose="check"))
        if proof is not None:
            again = result(run_id, f"model_{len(scores)}.pt", proof, "p1-fresh", purpose="proof")
            journal.append(again)
        if scores:
            journal.append(window(None, 80, {"evaluate": SECOND}, 9 * SECOND))
        if status is not None:
            journal.append(
                AttemptEnded(
                    status=status,
                    reason=None,
                    wall_ns=9 * SECOND if scores else 5 * SECOND,
                    peak_host_memory_bytes=2_000_000_000,
                    peak_gpu_memory_bytes=None,
                )
            )
    return run_dir


def write_further_rank(run_dir: Path, rank: int = 1, attempt: int = 1) -> Path:
    """Write the journal of a further process, which only begins.

    Args:
        run_dir: Directory of a run of several processes; its name is the run's id.
        rank: The process.
        attempt: The attempt.

    Returns:
        The journal.
    """
    path = run_dir / f"journal-{attempt}-{rank}.jsonl"
    with Journal(path) as journal:
        journal.append(
            AttemptStarted(
                run_id=run_dir.name,
                attempt=attempt,
                rank=rank,
                pid=2**22 + 1,
                host=socket.gethostname(),
                wall_ns=SECOND,
            )
        )
    return path


def result(
    run_id: str,
    checkpoint: str,
    successes: int,
    panel_id: str = "p1-aa",
    purpose: Literal["check", "proof", "evaluation"] = "evaluation",
    invalid: str | None = None,
) -> PanelResult:
    """Return the score of a checkpoint, 9 s after the start."""
    return PanelResult(
        run_id=run_id,
        checkpoint=checkpoint,
        checkpoint_sha256=sha256_of(run_id, checkpoint),
        panel="p",
        panel_id=panel_id,
        purpose=purpose,
        proof=None if purpose == "evaluation" else 1,
        needed=None if purpose == "evaluation" else 9,
        exactness="bitwise",
        device="cpu",
        wall_ns=9 * SECOND,
        invalid=invalid,
        outcomes=outcomes(successes),
    )


def proof_of(run_id: str, number: int, successes: int, needed: int, extension: int = 0) -> PanelResult:
    """Return a panel of a proof."""
    row = result(run_id, f"model_{number}.pt", successes, f"p1-{number}-{extension}", "proof")
    won = outcomes(successes, PANEL_EPISODES)
    return replace(row, proof=number, extension=extension, needed=needed, outcomes=won)


def write_proven(root: Path, run_id: str, *rows: PanelResult, **changes: object) -> None:
    """Write a run with proofs."""
    run_dir = write_run(root, run_id, scores=(), **changes)  # type: ignore[arg-type]
    with Journal(run_dir / "journal-2-0.jsonl") as journal:
        journal.append(AttemptStarted(run_id=run_id, attempt=2, rank=0, pid=2**22 + 1, host="h", wall_ns=1))
        for row in rows:
            saved = {"path": row.checkpoint, "sha256": row.checkpoint_sha256, "size_bytes": 1, "iteration": 1}
            journal.append(CheckpointSaved.from_data({**saved, "env_steps": 40, "wall_ns": 1}))
            journal.append(row)


def priced(usd_per_hour: float | None = 3600.0, **changes: object) -> dict[str, Any]:
    """Return a price entry; without arguments, a dollar a second."""
    custom = {"market": "custom", "source": "s", "date": "2026-01-01", "usd_per_hour": usd_per_hour}
    return {**load_prices()["local"].to_dict(), **custom, **changes}


def ended(status: Status, wall_ns: int, reason: str | None = None, **peaks: int | None) -> AttemptEnded:
    """Return the end of an attempt; its memory was not measured unless its peaks are given."""
    unknown = {"peak_host_memory_bytes": None, "peak_gpu_memory_bytes": None}
    return AttemptEnded(status=status, reason=reason, wall_ns=wall_ns, **{**unknown, **peaks})


def device_sample(uuid: str = "GPU-a", **meters: float | None) -> DeviceSample:
    """Return a sample of an accelerator, which has only these meters."""
    unknown = dict.fromkeys(each.name for each in fields(DeviceSample) if each.name != "uuid")
    return DeviceSample(uuid=uuid, **{**unknown, **meters})  # type: ignore[arg-type]
