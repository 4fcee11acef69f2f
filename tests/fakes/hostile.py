"""Runs with hostile text in one field of one kind of row, for every field of every kind."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ledger_lab.ledger import (
    AttemptEnded,
    AttemptStarted,
    CapacityUsed,
    CheckpointSaved,
    CohortDeclared,
    DeviceSample,
    GradientNorms,
    Health,
    HostSample,
    LearnerHashed,
    Row,
    ShutdownEnded,
    StateRestored,
    StateSaved,
    Status,
    SupervisionStarted,
    Telemetry,
)
from ledger_lab.ledger.content import KINDS
from ledger_lab.ledger.encoding import GENESIS, encode_line, encode_value, hash_of
from ledger_lab.ledger.rows import EvaluationEnded, EvaluationStarted
from ledger_lab.ledger.telemetry import Tally, TelemetryStarted
from tests.fakes.ledgers import SECOND, declared, result, sha256_of, window

Rows = dict[str, list[Row]]
"""Rows by the name of their journal."""


@dataclass(frozen=True)
class HostileField:
    """A field, or a part of one, and what stands in it."""

    kind: str
    path: tuple[str, ...]
    """Names of the field, and of its parts below."""
    text: str

    @property
    def name(self) -> str:
        """Kind and path, for messages."""
        return ".".join((self.kind, *self.path))


def one_of_each() -> Rows:
    """Return the journals of a run that hold a row of every kind."""
    began = {"run_id": "00", "task": "T", "checkpoint": "model_1.pt", "sha256": "00", "wall_s": 1.0, "usd": None}
    beginning = {**began, "env_steps": 1, "attempt": 1}
    host = socket.gethostname()
    start = {"run_id": "aa", "attempt": 1, "pid": 2**22 + 1, "wall_ns": SECOND}
    of_host = HostSample(cpu_s=1.0, busiest_thread=0.5, memory_bytes=10**9, available_bytes=10**9)
    device = DeviceSample(
        uuid="GPU-1", utilization=0.5, memory_used_bytes=10**9, power_w=100.0, energy_mj=10**6, temperature_c=50.0,
        sm_clock_mhz=1000,
    )  # fmt: skip
    state: dict[str, Any] = {"sha256": "00", "iteration": 1, "env_steps": 40}
    figures = {"mean_return": 1.0, "value_loss": 2.0}
    training = window(2, 80, {"simulate": SECOND, "learn": SECOND}, 8 * SECOND)
    ended: dict[str, Any] = {"peak_host_memory_bytes": 10**9, "peak_gpu_memory_bytes": 10**9}
    capacity = {"constraints": 1, "constraint_capacity": 2, "contacts": 3, "contact_capacity": 4, "slots": 1}
    return {
        "journal-1-0.jsonl": [
            declared(
                "aa", cohort="c", world_size=2, began_from=beginning, overrides=["a=1"], stop_on=["kl"],
                panel_fields={"task": "T"}, config_sha256={"a": "00"}, versions={"torch": "2"}, git={"commit": "00"},
                hardware={"accelerator": "GPU", "cpu": "CPU", "cpu_cores": 2}, command=["train.py"],
                code_sha256={"ledger_lab": "00"}, agent="agent",
            ),
            AttemptStarted(**start, rank=0, host=host, seed=1),
            Tally(windows={}, telemetry={}),
            window(None, 0, {"startup": 2 * SECOND}, 2 * SECOND),
            type(training)(**{**training.to_data(), "figures": figures, "non_finite": ["kl"]}),
            CheckpointSaved(
                path="model_1.pt",
                sha256=sha256_of("aa", "model_1.pt"),
                size_bytes=1,
                iteration=1,
                env_steps=40,
                wall_ns=5 * SECOND,
                train_ns=2 * SECOND,
                evaluate_ns=SECOND,
                peak_host_memory_bytes=10**9,
                peak_gpu_memory_bytes=10**9,
                endings={"time_out": 3},
            ),
            Health(event="kl", iteration=1, wall_ns=5 * SECOND, evidence="e", advice="a", stops=True),
            LearnerHashed(sha256="00", iteration=1, wall_ns=5 * SECOND),
            GradientNorms(iteration=1, steps=40, own_square=3.0, average_square=2.0),
            StateSaved(**state, size_bytes=1, wall_ns=5 * SECOND),
            StateRestored(**state, attempt=1, saved_wall_ns=5 * SECOND, reasons=["r"], wall_ns=5 * SECOND),
            result("aa", "model_1.pt", 9, purpose="check"),
            result("aa", "model_1.pt", 9, "p1-fresh", purpose="proof"),
            CapacityUsed(**capacity, wall_ns=9 * SECOND),
            AttemptEnded(status=Status.STOPPED, reason="because", wall_ns=9 * SECOND, **ended),
        ],
        "journal-1-1.jsonl": [
            AttemptStarted(**start, rank=1, host=host, seed=2),
            LearnerHashed(sha256="11", iteration=1, wall_ns=5 * SECOND),
            GradientNorms(iteration=1, steps=40, own_square=4.0, average_square=2.0),
        ],
        "journal-1-supervisor.jsonl": [
            SupervisionStarted(**start, host=host, rank=0),
            ShutdownEnded(wall_ns=10 * SECOND, exit_code=1, signal="SIGTERM", overdue=False),
        ],
        "journal-1-telemetry.jsonl": [
            TelemetryStarted(run_id="aa", attempt=1, rank=0),
            *(Telemetry(wall_ns=second * SECOND, host=of_host, devices=[device]) for second in range(1, 10)),
        ],
        "journal-evaluation-00-0.jsonl": [
            EvaluationStarted(
                run_id="aa", panel="p", panel_id="p1-bb", panel_fields={"task": "T"}, checkpoints=["model_1.pt"],
                device="cpu", versions={"torch": "2"}, code_sha256={"a": "00"}, host=host, pid=2**22 + 1, wall_ns=1,
            ),
            result("aa", "model_1.pt", 5, "p1-bb"),
            EvaluationEnded(status=Status.COMPLETED, reason="r", wall_ns=9 * SECOND, **ended),
        ],
        "cohorts/journal-declaration.jsonl": [CohortDeclared(cohort="c", size=3)],
    }  # fmt: skip


def write_hostile_runs(root: Path, text: str) -> list[tuple[Path, HostileField]]:
    """Write a run for each part of each field, in folders of their own.

    Args:
        root: Where to write.
        text: The hostile text. Each ``FIELD`` in it becomes the name of the field.

    Returns:
        The roots of the runs' ledgers.
    """
    rows = one_of_each()
    flat = [row for journal in rows.values() for row in journal]
    assert {type(row).__name__ for row in flat} == set(KINDS), "a new kind of row needs an example here"
    written = []
    seen: Counter[str] = Counter()
    for example in {type(row): row for row in flat}.values():
        paths = list(_paths(example.to_data()))
        assert {path[0] for path in paths} == {each.name for each in fields(example)}
        for path in paths:
            kind = type(example).__name__
            hostile = HostileField(kind, path, text.replace("FIELD", ".".join((kind, *path))))
            seen[kind] += 1
            folder = root / f"{kind}-{seen[kind]}"
            _write(folder, rows, hostile, run_id=f"{kind}{seen[kind]}")
            written.append((folder, hostile))
    return written


def _write(folder: Path, rows: Rows, hostile: HostileField, run_id: str) -> None:
    """Write the journals of a run, with the text in one place of all rows of a kind."""
    (folder / "cohorts").mkdir(parents=True)
    for name, journal in rows.items():
        lines: list[bytes] = []
        for place, row in enumerate(journal):
            data = row.to_data()
            if "run_id" in data:
                data["run_id"] = hostile.text if hostile.path == ("run_id",) else run_id
            if type(row).__name__ == hostile.kind:
                data = _planted(data, hostile.path, hostile.text)
            previous = hash_of(lines[-1]) if lines else GENESIS
            time = f"2026-01-01T00:00:{place:02}.000+00:00"
            lines.append(encode_line(place, time, type(row).__name__, encode_value(data), previous))
        (folder / name).write_bytes(b"".join(lines))


def _paths(data: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the path of each value; of a list of samples, those of its members."""
    for key, value in data.items():
        yield (key,)
        inner = value[0] if isinstance(value, list) and value and isinstance(value[0], dict) else value
        if isinstance(inner, dict):
            yield from ((key, *rest) for rest in _paths(inner))
            yield (key, "")  # a key of its own


def _planted(data: dict[str, Any], path: Sequence[str], text: str) -> dict[str, Any]:
    """Return the data with the text in one place."""
    name, *rest = path
    if not name:
        return {**data, text: 1}
    if name not in data:  # another row of the kind lacks this part
        return data
    value = data[name]
    if not rest:
        planted: Any = [text] * len(value) if isinstance(value, list) else text
    elif isinstance(value, list):
        planted = [_planted(each, rest, text) for each in value]
    else:
        planted = _planted(value, rest, text)
    return {**data, name: planted}
