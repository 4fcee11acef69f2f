"""A journal keeps its rows, and changes by other programs are detected."""

from __future__ import annotations

import dataclasses
import errno
import os
from pathlib import Path

import numpy as np
import pytest

from ledger_lab.ledger import AttemptEnded, Journal, Outcomes, PhaseWindow, Status, read_journal
from ledger_lab.ledger.journal import SYNC_AT_LEAST_EVERY


def window(iteration: int) -> PhaseWindow:
    return PhaseWindow(
        iteration=iteration,
        env_steps=16 * iteration,
        phase_ns={"learn": 5},
        wall_ns=5 * iteration,
        figures={},
        non_finite=[],
    )


END = AttemptEnded(
    status=Status.INTERRUPTED, reason=None, wall_ns=1, peak_host_memory_bytes=None, peak_gpu_memory_bytes=None
)


def written(path: Path, count: int = 3) -> Path:
    with Journal(path) as journal:
        for iteration in range(count):
            journal.append(window(iteration))
    return path


def test_a_journal_has_one_writer(tmp_path: Path) -> None:
    written(tmp_path / "journal-1-0.jsonl")
    with pytest.raises(FileExistsError):
        Journal(tmp_path / "journal-1-0.jsonl")


def test_telemetry_waits_for_disk_space_and_keeps_its_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, data: bytes, offset: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    troubles: list[OSError] = []
    with Journal(tmp_path / "journal-1-0.jsonl", troubles.append) as journal:
        journal.append(window(0))
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", full)
            journal.append(window(1))
            journal.append(window(2))
            with pytest.raises(OSError, match="No space left"):
                journal.append(END)
        journal.append(window(3))
    assert read_journal(tmp_path / "journal-1-0.jsonl").rows == (window(0), window(1), window(2), END, window(3))
    assert [trouble.errno for trouble in troubles] == [errno.ENOSPC], "told once, not for every row"


@pytest.mark.parametrize("moment", ["pwrite", "fsync"])
def test_a_signal_at_any_moment_leaves_a_valid_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    real_pwrite = os.pwrite

    def interrupted(descriptor: int, data: bytes = b"", offset: int = 0) -> int:
        if moment == "pwrite":
            real_pwrite(descriptor, data[: len(data) // 2], offset)
        raise KeyboardInterrupt

    with Journal(tmp_path / "journal-1-0.jsonl") as journal:
        journal.append(window(0))
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(os, moment, interrupted)
            journal.append(END)
        journal.append(window(1))
    rows = read_journal(tmp_path / "journal-1-0.jsonl").rows
    assert rows == (window(0), END, window(1))


def test_rows_that_the_disk_lost_are_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A real device that fails needs a kernel module; fsync is patched, and the loss of the cached pages is enacted.
    path = tmp_path / "journal-1-0.jsonl"

    def failing(descriptor: int) -> None:
        os.truncate(path, safe)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with Journal(path) as journal:
        journal.append(END)
        safe = path.stat().st_size
        journal.append(window(1))
        with monkeypatch.context() as patch, pytest.raises(OSError, match="Input/output error"):
            patch.setattr(os, "fsync", failing)
            journal.append(END)
        assert len(read_journal(path).rows) == 1
        journal.append(window(2))
        assert read_journal(path).rows == (END, window(1), END, window(2))


def test_telemetry_reaches_the_disk_without_durable_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    with Journal(tmp_path / "journal-1-0.jsonl") as journal:
        monkeypatch.setattr(os, "fsync", synced.append)
        while not synced:
            journal.append(window(1))
        size = (tmp_path / "journal-1-0.jsonl").stat().st_size
    assert size >= SYNC_AT_LEAST_EVERY > size - 2000


def test_non_finite_numbers_are_refused_in_telemetry(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal-1-0.jsonl") as journal:
        with pytest.raises(ValueError, match="JSON compliant"):
            journal.append(dataclasses.replace(window(1), figures={"kl": float("nan")}))
        journal.append(dataclasses.replace(window(1), iteration=None, figures={"kl": np.float64(0.25)}))
    (row,) = read_journal(tmp_path / "journal-1-0.jsonl").of(PhaseWindow)
    assert (row.iteration, row.figures) == (None, {"kl": 0.25})


def test_bytes_that_are_not_text_do_not_prevent_a_row(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal-1-0.jsonl") as journal:
        journal.append(dataclasses.replace(END, reason="no file /data/\udcff.bin"))
    assert read_journal(tmp_path / "journal-1-0.jsonl").of(AttemptEnded)[0].reason == "no file /data/?.bin"


def test_durable_rows_are_synchronized_and_telemetry_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    with Journal(tmp_path / "journal-1-0.jsonl") as journal:
        monkeypatch.setattr(os, "fsync", synced.append)
        journal.append(window(0))
        assert not synced
        journal.append(
            AttemptEnded(
                status=Status.COMPLETED, reason=None, wall_ns=1, peak_host_memory_bytes=None, peak_gpu_memory_bytes=None
            )
        )
        assert len(synced) == 1


def outcomes(**changes: list[object]) -> Outcomes:
    columns = {
        "cell": ["nominal"] * 2,
        "seed": [0, 1],
        "success": [True, False],
        "success_any": [True, True],
        "steps": [300, 12],
        "episode_return": [1.5, None],
        "ended_by": ["horizon", "non_finite"],
        "fingerprint": ["00", "01"],
    }
    return Outcomes(**{**columns, **changes})  # type: ignore[arg-type]


def test_outcomes_count_each_episode_once() -> None:
    assert (outcomes().successes, outcomes().episodes) == (1, 2)
    with pytest.raises(ValueError, match="twice"):
        outcomes(seed=[0, 0])
    with pytest.raises(ValueError, match="length"):
        outcomes(steps=[300])
    with pytest.raises(ValueError, match="finite"):
        outcomes(episode_return=[float("inf"), 0.0])


def test_the_status_lost_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="lost"):
        AttemptEnded(
            status=Status.LOST, reason=None, wall_ns=0, peak_host_memory_bytes=None, peak_gpu_memory_bytes=None
        )


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"env_steps": 1e5}, r"PhaseWindow: .*int.*float.*env_steps"),
        ({"iteration": True}, r"PhaseWindow: .*int.*bool.*iteration"),
        ({"wall_ns": -1}, r"PhaseWindow: .*>= 0.*wall_ns"),
        ({"phase_ns": {"learn": None}}, r"PhaseWindow: .*int.*null"),
    ],
)
def test_a_row_that_readers_would_refuse_is_not_written(
    tmp_path: Path, change: dict[str, object], complaint: str
) -> None:
    with Journal(tmp_path / "j.jsonl") as journal:
        journal.append(window(1))
        with pytest.raises(ValueError, match=complaint):
            journal.append(dataclasses.replace(window(2), **change))  # type: ignore[arg-type]
        journal.append(window(3))
    assert [row.iteration for row in read_journal(tmp_path / "j.jsonl").rows] == [1, 3]


def test_numpy_numbers_are_written_as_plain_ones(tmp_path: Path) -> None:
    row = dataclasses.replace(
        window(1), env_steps=np.int64(16), figures={"kl": np.float32(0.5)}, phase_ns={"learn": np.uint8(5)}
    )
    end = dataclasses.replace(END, wall_ns=np.int32(1))
    with Journal(tmp_path / "j.jsonl") as journal:
        journal.append(row)
        journal.append(end)
        with pytest.raises(TypeError, match="ndarray cannot be written as JSON"):
            journal.append(dataclasses.replace(END, wall_ns=np.arange(2)))
    first, second = read_journal(tmp_path / "j.jsonl").rows
    assert first == dataclasses.replace(window(1), figures={"kl": 0.5}) and second == END
