"""Who listens to a training in the tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ledger_lab.files import file_sha256
from ledger_lab.ledger import CheckpointSaved


@dataclass
class Heard:
    """Writes down what a training tells, and stops it after so many iterations."""

    stop_after: int | None = None
    on_each: Callable[[int], None] = lambda iterations: None
    """Called with the iterations completed, from inside the loop."""
    figures: dict[int, dict[str, float]] = field(default_factory=dict)
    """Figures by the iterations completed."""
    checkpoints: dict[int, Path] = field(default_factory=dict)
    """Checkpoints by the iterations completed."""

    def on_iteration(self, iterations: int, figures: Mapping[str, float]) -> bool:
        """Write it down."""
        assert iterations not in self.figures, "told twice"
        self.figures[iterations] = dict(figures)
        self.on_each(iterations)
        return iterations != self.stop_after

    def record(self, path: Path, iterations: int) -> CheckpointSaved:
        """Write it down."""
        assert iterations not in self.checkpoints, "saved twice"
        self.checkpoints[iterations] = path
        return CheckpointSaved(
            path=path.name,
            sha256=file_sha256(path),
            size_bytes=path.stat().st_size,
            iteration=iterations,
            env_steps=0,
            wall_ns=0,
        )
