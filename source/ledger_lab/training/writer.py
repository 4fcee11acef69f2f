"""Writes the rows of an attempt. Training and ``record_run`` both write through it."""

from __future__ import annotations

import math
import os
import socket
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ledger_lab.errors import UserError
from ledger_lab.files import file_sha256
from ledger_lab.ledger import (
    Anchor,
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    Outcomes,
    PanelResult,
    PhaseWindow,
    Row,
    RunDeclared,
    SchedulerJob,
    Status,
)
from ledger_lab.ledger.anchors import anchors_of
from ledger_lab.ledger.endings import reason_of
from ledger_lab.ledger.liveness import identify_process
from ledger_lab.ledger.meters.host import measured_or_none, peak_host_memory_bytes
from ledger_lab.ledger.meters.phases import TRAINING_PHASES, Phase, PhaseClock

if TYPE_CHECKING:
    from ledger_lab.panels.verdict import NextPanel  # needs NumPy, and a supervisor does not


class AttemptWriter:
    """Writes what attempts of runs and stand-alone evaluations have in common: the time per phase, and the end."""

    def __init__(
        self,
        append: Callable[[Row], None],
        clock: PhaseClock,
        ended_row: type[AttemptEnded] = AttemptEnded,
        env_steps: int = 0,
    ) -> None:
        """Begin with no iteration completed.

        Args:
            append: Writes a row.
            clock: The attempt's clock.
            ended_row: Class of the row that ends it.
            env_steps: Environment steps of earlier attempts, up to the state that this attempt resumes from.
        """
        self.append = append
        """Writes a row."""
        self.clock = clock
        """The attempt's clock."""
        self.iteration: int | None = None
        """Iterations completed; ``None`` outside the training loop."""
        self.env_steps = env_steps
        """Environment steps of training so far."""
        self._ended_row = ended_row

    def beat(self, figures: Mapping[str, float] | None = None) -> tuple[dict[str, int], int]:
        """Write the time per phase since the last beat. This is also the heartbeat of the attempt.

        Args:
            figures: Figures of the training since then, by the names of :data:`ledger_lab.ledger.FIGURES`.

        Returns:
            Nanoseconds per phase since then, and the attempt's age [ns].
        """
        phase_ns, wall_ns = self.clock.flush()
        figures = figures or {}
        self.append(
            PhaseWindow(
                iteration=self.iteration,
                env_steps=self.env_steps,
                phase_ns=phase_ns,
                wall_ns=wall_ns,
                figures={name: float(value) for name, value in figures.items() if math.isfinite(value)},
                non_finite=[name for name, value in figures.items() if not math.isfinite(value)],
                device_bound_ns=self.clock.flush_device_bound(),
            )
        )
        return phase_ns, wall_ns

    def end(
        self, status: Status, error: BaseException | None, peak_gpu_memory_bytes: Callable[[], int | None]
    ) -> AttemptEnded:
        """Write the last beat, and make the row of the end.

        Args:
            status: How the attempt ended.
            error: The exception that ended it, if one did.
            peak_gpu_memory_bytes: Returns the largest device memory in use; ``None`` if no accelerator was used.

        Returns:
            The row. The caller writes it: where there is a supervisor, into the supervisor's journal.
        """
        self.clock.measure_host_only()  # a device that fails again must not hide the end
        _, wall_ns = self.beat()
        return self._ended_row(
            status=status,
            reason=None if error is None else reason_of(error),
            wall_ns=wall_ns,
            peak_host_memory_bytes=peak_host_memory_bytes(),
            peak_gpu_memory_bytes=measured_or_none(peak_gpu_memory_bytes),
        )


class RunWriter(AttemptWriter):
    """Writes the rows of an attempt of a run, and refuses rows that would contradict others.

    Each process of the attempt has one. The first process alone writes the declaration, checkpoints and panel results.
    """

    def __init__(
        self,
        append: Callable[[Row], None],
        clock: PhaseClock,
        *,
        run_id: str,
        directory: Path,
        device: str,
        attempt: int = 1,
        rank: int = 0,
        env_steps: int = 0,
        train_ns: int = 0,
        evaluate_ns: int = 0,
        peak_gpu_memory_bytes: Callable[[], int | None] = lambda: None,
    ) -> None:
        """Begin with nothing written.

        Args:
            append: Writes a row into the journal of this process.
            clock: The attempt's clock.
            run_id: The run.
            directory: Where this process saves checkpoints: the run's directory in the first process.
            device: Where the policies act.
            attempt: Number of the attempt.
            rank: Rank of this process.
            env_steps: As for :class:`AttemptWriter`.
            train_ns: Time of earlier attempts in the training phases, up to the state that this attempt resumes from.
            evaluate_ns: The same for the phase ``evaluate``.
            peak_gpu_memory_bytes: Called at each checkpoint; see :meth:`AttemptWriter.end`.
        """
        super().__init__(append, clock, env_steps=env_steps)
        self.directory = directory.resolve()
        """Where this process saves checkpoints."""
        self.train_ns = train_ns
        """Time in the training phases up to the last beat, over all attempts without lost work [ns]."""
        self.evaluate_ns = evaluate_ns
        """Time in the phase ``evaluate`` up to the last beat, over all attempts without lost work [ns]."""
        self.replay_bytes: int | None = None
        """Memory that the replay memory takes [B]; ``None`` without one."""
        self._peak_gpu_memory_bytes = peak_gpu_memory_bytes
        self._endings: Counter[str] | None = None
        """Training episodes that ended since the last checkpoint; ``None`` before :meth:`count_endings`."""
        self._run_id, self._device, self._attempt, self._rank = run_id, device, attempt, rank
        self._sha256_of: dict[str, str] = {}

    def declare(self, declared: RunDeclared) -> None:
        """Write what the run is going to do.

        Args:
            declared: The row.
        """
        self._append_once(declared)

    def start(self, seed: int | None = None, job: SchedulerJob | None = None) -> None:
        """Write that this process has begun the attempt.

        Args:
            seed: Training seed of this process, where processes have seeds of their own.
            job: The job that it runs in.
        """
        self.append(
            AttemptStarted(
                run_id=self._run_id,
                attempt=self._attempt,
                rank=self._rank,
                pid=os.getpid(),
                host=socket.gethostname(),
                wall_ns=self.clock.wall_ns(),
                seed=seed,
                process=identify_process(os.getpid()),
                anchors=self._anchors(),
                job=job,
            )
        )

    def _anchors(self) -> dict[str, Anchor]:
        """Return anchors of the journals of earlier attempts; only the first process of an attempt writes them."""
        if self._attempt == 1 or self._rank != 0:
            return {}
        own = f"journal-{self._attempt}-"
        return {name: anchor for name, anchor in anchors_of(self.directory).items() if not name.startswith(own)}

    def beat(self, figures: Mapping[str, float] | None = None) -> tuple[dict[str, int], int]:
        """Write the time per phase since the last beat, and add it up for the next checkpoint."""
        phase_ns, wall_ns = super().beat(figures)
        self.train_ns += sum(phase_ns.get(phase, 0) for phase in TRAINING_PHASES)
        self.evaluate_ns += phase_ns.get(Phase.EVALUATE, 0)
        return phase_ns, wall_ns

    def count_endings(self, endings: Mapping[str, int]) -> None:
        """Count training episodes for the next checkpoint.

        Args:
            endings: Number of episodes that ended since the last call, by the termination that ended them.
        """
        self._endings = (Counter() if self._endings is None else self._endings) + Counter(endings)

    def checkpoint(self, path: str | Path, iteration: int, env_steps: int) -> CheckpointSaved:
        """Write that a policy is on disk.

        Args:
            path: Its file, inside :attr:`directory`.
            iteration: Iterations completed when it was saved.
            env_steps: Environment steps of training when it was saved.

        Returns:
            The row.

        Raises:
            UserError: If the file doesn't exist, lies outside the directory, or held another policy earlier in this
                attempt.
        """
        file = Path(path).resolve()
        if not file.is_file() or not file.is_relative_to(self.directory):
            raise UserError(f"checkpoint {path}: must be a file inside the run's directory {self.directory}")
        saved = CheckpointSaved(
            path=str(file.relative_to(self.directory)),
            sha256=file_sha256(file),
            size_bytes=file.stat().st_size,
            iteration=iteration,
            env_steps=env_steps,
            wall_ns=self.clock.wall_ns(),
            train_ns=self.train_ns,
            evaluate_ns=self.evaluate_ns,
            peak_host_memory_bytes=peak_host_memory_bytes(),
            peak_gpu_memory_bytes=measured_or_none(self._peak_gpu_memory_bytes),
            replay_bytes=self.replay_bytes,
            endings=None if self._endings is None else dict(self._endings),
        )
        if self._sha256_of.setdefault(saved.path, saved.sha256) != saved.sha256:
            raise UserError(f"checkpoint {saved.path}: had another policy before: use one file per policy")
        self._append_once(saved)
        self._endings = None if self._endings is None else Counter()
        return saved

    def result(
        self,
        saved: CheckpointSaved,
        outcomes: Outcomes,
        what: NextPanel,
        *,
        panel: str,
        panel_id: str,
        seeds: Sequence[int],
        exactness: Literal["bitwise", "statistical"],
        invalid: str | None = None,
        changed_code: Mapping[str, str] | None = None,
        replayed: int | None = None,
        starts: dict[str, str] | None = None,
    ) -> PanelResult:
        """Write a checkpoint's score on a panel.

        Args:
            saved: The checkpoint.
            outcomes: Outcomes of the panel's episodes.
            what: What the panel is for.
            panel: Name of the panel.
            panel_id: Identity of the panel.
            seeds: Seeds of the panel, one per episode.
            exactness: Whether a repetition gives the same episodes bit for bit.
            invalid: Why the score proves nothing; ``None`` if it is valid.
            changed_code: Code that differs from what the run declared, as in the row; ``None`` for none.
            replayed: Episodes that were replayed in other slots; ``None`` for none.
            starts: Hashes of what the episodes started with, as in the row.

        Returns:
            The row.

        Raises:
            UserError: If the outcomes are not those of the seeds.
        """
        require_outcomes(panel, seeds, outcomes)
        result = PanelResult(
            run_id=self._run_id,
            checkpoint=saved.path,
            checkpoint_sha256=saved.sha256,
            panel=panel,
            panel_id=panel_id,
            purpose=what.purpose,
            proof=what.proof,
            extension=what.extension,
            needed=what.needed,
            exactness=exactness,
            device=self._device,
            wall_ns=self.clock.wall_ns(),
            invalid=invalid,
            changed_code=dict(changed_code or {}),
            replayed=replayed,
            starts=starts,
            outcomes=outcomes,
        )
        self._append_once(result)
        return result

    def _append_once(self, row: Row) -> None:
        """Write a row about the whole run; only the first process writes it."""
        if self._rank == 0:
            self.append(row)


def require_outcomes(panel: str, seeds: Sequence[int], outcomes: Outcomes) -> None:
    """Refuse outcomes that are not those of a panel's episodes.

    Args:
        panel: Name of the panel.
        seeds: Seeds of the panel, one per episode.
        outcomes: The outcomes.

    Raises:
        UserError: If an episode is missing, or there are others.
    """
    if sorted(outcomes.seed) != sorted(seeds):
        raise UserError(f"panel {panel}: give one outcome for each of its {len(seeds)} seeds")
