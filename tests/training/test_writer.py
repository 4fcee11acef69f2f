"""Each row of an attempt is written once, and no row contradicts another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ledger_lab.ledger import (
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    EvaluationEnded,
    Outcomes,
    PanelResult,
    PhaseWindow,
    Row,
    Status,
)
from ledger_lab.ledger.meters.phases import Phase, PhaseClock
from ledger_lab.panels.verdict import NextPanel
from ledger_lab.training.writer import AttemptWriter, RunWriter
from tests.fakes.ledgers import declared, outcomes


def make(directory: Path, rank: int = 0) -> tuple[RunWriter, list[Row]]:
    rows: list[Row] = []
    writer = RunWriter(
        rows.append,
        PhaseClock(0),
        run_id="aaaaaaaa",
        directory=directory,
        device="cpu",
        attempt=2,
        rank=rank,
    )
    return writer, rows


def save(writer: RunWriter, name: str = "model.pt", weights: bytes = b"weights") -> CheckpointSaved:
    (writer.directory / name).write_bytes(weights)
    return writer.checkpoint(writer.directory / name, 3, 192)


def score(writer: RunWriter, saved: CheckpointSaved, found: Outcomes, **changes: Any) -> PanelResult:
    fields: dict[str, Any] = {
        "panel": "panel",
        "panel_id": "p1-x",
        "seeds": list(found.seed),
        "exactness": "bitwise",
    }
    return writer.result(saved, found, NextPanel("check", 1, 0, 9), **{**fields, **changes})


def test_only_the_first_process_writes_rows_about_the_whole_run(tmp_path: Path) -> None:
    written = {}
    for rank in (0, 1):
        writer, rows = make(tmp_path / str(rank), rank)
        writer.directory.mkdir()
        writer.declare(declared("aaaaaaaa"))
        writer.start(seed=7 + rank)
        writer.beat()
        assert score(writer, save(writer), outcomes(9, 10)).passes, "every process knows what came of it"
        written[rank] = [type(row).__name__ for row in rows]
        (start,) = [row for row in rows if isinstance(row, AttemptStarted)]
        assert (start.attempt, start.rank, start.seed) == (2, rank, 7 + rank)
    assert written[0] == ["RunDeclared", "AttemptStarted", "PhaseWindow", "CheckpointSaved", "PanelResult"]
    assert written[1] == ["AttemptStarted", "PhaseWindow"]


def test_a_checkpoint_tells_time_memory_and_how_episodes_ended(tmp_path: Path) -> None:
    now_s = 0
    clock = PhaseClock(0, base=Phase.UNATTRIBUTED, clock_ns=lambda: now_s * 10**9)
    writer = RunWriter(
        lambda row: None, clock, run_id="aa", directory=tmp_path, device="cpu", train_ns=50 * 10**9,
        evaluate_ns=7 * 10**9, peak_gpu_memory_bytes=lambda: 5,
    )  # fmt: skip
    assert save(writer, "zero.pt").endings is None, "none were counted"
    with clock.window(Phase.EVALUATE):
        now_s += 1
    now_s += 2
    assert writer.beat() == ({"evaluate": 10**9, "unattributed": 2 * 10**9}, 3 * 10**9)
    writer.count_endings({"time_out": 2, "fell": 0})
    writer.count_endings({"time_out": 1, "fell": 4, "flew": 0})
    saved = save(writer, "one.pt")
    assert (saved.train_ns, saved.evaluate_ns) == (52 * 10**9, 8 * 10**9)
    assert saved.peak_gpu_memory_bytes == 5
    assert saved.peak_host_memory_bytes is not None and saved.peak_host_memory_bytes > 10**6
    assert saved.endings == {"time_out": 3, "fell": 4}, "terminations that ended no episode are left out"
    assert save(writer, "two.pt").endings == {}, "since the last checkpoint"


@pytest.mark.parametrize("ended_row", [AttemptEnded, EvaluationEnded])
def test_the_end_follows_the_last_beat_and_is_returned_to_the_caller(
    ended_row: type[AttemptEnded],
) -> None:
    rows: list[Row] = []
    writer = AttemptWriter(rows.append, PhaseClock(0), ended_row, env_steps=64)
    writer.iteration = 3
    writer.beat({"mean_return": 1.5, "kl": float("inf")})
    ended = writer.end(Status.CRASHED, ValueError("no\nway"), lambda: 5)
    assert type(ended) is ended_row
    assert (ended.status, ended.reason, ended.peak_gpu_memory_bytes) == (Status.CRASHED, "ValueError: no", 5)
    first, last = rows
    assert isinstance(first, PhaseWindow) and isinstance(last, PhaseWindow)
    assert (first.iteration, first.env_steps, first.figures, first.non_finite) == (3, 64, {"mean_return": 1.5}, ["kl"])
    assert last.wall_ns == ended.wall_ns
