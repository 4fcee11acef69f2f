"""Trainings as points of a scaling study: how large, how fast, how many steps to the target, how long, how much.

Everything here is plain figures. :mod:`ledger_lab.studies.scaling.scaled_runs` reads them from a ledger, and
:mod:`ledger_lab.studies.scaling.published` from tables that others published.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ledger_lab.ledger.costs import Price
from ledger_lab.studies.scaling.batch import BatchFit
from ledger_lab.studies.scaling.laws import Figure, RateFit
from ledger_lab.studies.scaling.rates import Kind, Refusal, SizeRates


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Where the time until the target went; without the target, the time until the run ended.

    ``time = start-up + steps / rate + scoring + interruptions + residual``, by the phases of the first process.
    """

    time_s: float
    """By the clock of the row that confirmed the target; without the target, of the run's end [s]."""
    start_up_s: float
    """Start-up and compilation [s]."""
    steps: int
    """Environment steps of the learner, over all processes, until then."""
    training_s: float
    """Training phases until then: ``steps / rate`` [s]."""
    scoring_s: float
    """Scoring of policies until then [s]."""
    interruptions_s: float
    """Restarts with what was trained twice, suspension and shutdown until then [s]; 0 for an undisturbed run."""
    split_s: float
    """How much of the time lies in the phase window that the confirmation divides [s]: between the end of an iteration
    and the row. Its phases are known only as a whole; it counts as scoring as far as it can, and then as training."""

    @property
    def rate(self) -> float | None:
        """Environment steps per second of the training phases; ``None`` before the first iteration."""
        return self.steps / self.training_s if self.steps and self.training_s > 0 else None

    @property
    def residual_s(self) -> float:
        """Time that is in none of the parts [s]."""
        parts = self.start_up_s + self.training_s + self.scoring_s + self.interruptions_s
        return self.time_s - parts


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What must be equal before two runs are points of one study."""

    task: str
    rl_library: str
    physics: str
    treatment: str
    """What was changed besides the size, for example the learning rate, in the words of the command line; empty for
    nothing."""
    panel: str
    panel_id: str
    target_success: float
    device: str
    """``cpu`` or ``cuda``."""
    hardware: str | None
    """The machine of :attr:`~ledger_lab.ledger.RunDeclared.machine`; ``None`` if unknown."""
    instance: str
    """Entry of the price book."""
    measured_by: str = ""
    """As :attr:`ScaledRun.measured_by`."""


@dataclass(frozen=True, kw_only=True)
class ScaledRun:
    """One training. ``None`` means not measured, or without a denominator."""

    run_id: str
    cohort: str | None
    task: str
    rl_library: str
    physics: str
    seed: int
    code: str | None
    """Hash of the code that trained it, and of the versions of its packages; ``None`` if unknown."""
    treatment: str
    """As :attr:`Setting.treatment`."""
    processes: int
    machines: int | None
    num_envs: int
    """Environments of each process."""
    horizon: int
    minibatches: int | None
    """Minibatches per epoch; ``None`` if the algorithm learns from a replay memory."""
    instance: str
    """Entry of the price book."""
    price: Price
    """Price of the instance."""
    usd_per_hour: float | None
    """Price of the instance [USD/h]."""
    accelerators: int
    """Accelerators that the run pays for; 0 without any."""
    device: str
    hardware: str | None
    """The machine of :attr:`~ledger_lab.ledger.RunDeclared.machine`; ``None`` if unknown."""
    panel: str
    panel_id: str
    target_success: float
    fps_step: float | None
    """Environment steps of all processes ÷ seconds of ``simulate + manage``, without held-out slots [1/s]."""
    fps_step_inference: float | None
    """The same with ``infer`` [1/s]."""
    fps_total: float | None
    """The same steps ÷ seconds of all training phases [1/s]."""
    epoch_s: float | None
    """Mean wall-clock time of an iteration of collecting and learning, scoring included [s]."""
    phases: dict[str, float]
    """Seconds per phase of the whole run; they sum to :attr:`wall_s`."""
    identity: Identity
    status: str
    """How its last attempt ended."""
    reached: bool
    """Whether a policy was confirmed to reach the target during the training."""
    env_steps: int
    """Environment steps of the whole run."""
    limit_steps: int
    """Environment steps at which the run would have ended without the target. If something else ended the run short of
    the target, its :attr:`env_steps`."""
    wall_s: float
    """Seconds of all attempts."""
    cost_to_target_usd: float | None
    """What the time to the target costs at the run's price [USD]; ``None`` without target or price."""
    billable_usd: float | None
    """What the whole run cost [USD]."""
    interrupted: bool = False
    """Whether something outside of it ended it short of the target."""
    repeated: bool = False
    """Whether another run stands for it: something outside of it ended it, and the same training was started again, or
    an earlier run had made the same training."""
    repeated_usd: float | None = 0.0
    """What the runs cost that it stands for [USD]; ``None`` if unknown."""
    measured_by: str = ""
    """Fields of its declaration that forbid a comparison if they differ, as JSON; empty if unknown."""
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Fields whose differences a comparison names, as JSON, by their names; empty if unknown."""
    gradient_noise: Figure | None = None
    """Gradient noise scale in the last third of the training [samples], infinite if the noise hides the gradient;
    ``None`` for a run of one process."""

    @property
    def setting(self) -> Setting:
        """What it must share with other points of its study."""
        return Setting(
            task=self.task,
            rl_library=self.rl_library,
            physics=self.physics,
            treatment=self.treatment,
            panel=self.panel,
            panel_id=self.panel_id,
            target_success=self.target_success,
            device=self.device.partition(":")[0],
            hardware=self.hardware,
            instance=self.instance,
            measured_by=self.measured_by,
        )

    @property
    def is_evidence(self) -> bool:
        """Whether it tells how often trainings reach the target; one that was interrupted might have reached it."""
        return not (self.interrupted or self.repeated)

    @property
    def batch(self) -> int:
        """Samples per iteration, over all processes."""
        return self.num_envs * self.horizon * self.processes

    @property
    def minibatch(self) -> int | None:
        """Samples per gradient step, over all processes; ``None`` as for :attr:`minibatches`."""
        return None if self.minibatches is None else self.batch // self.minibatches

    @property
    def start_up_s(self) -> float:
        """Start-up and compilation [s]."""
        return self.identity.start_up_s

    @property
    def scoring_s(self) -> float:
        """Scoring of policies until the target, or until the end [s]."""
        return self.identity.scoring_s

    @property
    def steps_to_target(self) -> int | None:
        """Environment steps of the learner until the target was confirmed; ``None`` if it was not reached."""
        return self.identity.steps if self.reached else None

    @property
    def time_to_target_s(self) -> float | None:
        """Wall-clock time until the target was confirmed [s]; ``None`` if it was not reached."""
        return self.identity.time_s if self.reached else None


@dataclass(frozen=True, kw_only=True)
class ScalingPoint:
    """All runs of one size."""

    processes: int
    machines: int | None
    num_envs: int
    """Environments of each process."""
    runs: tuple[ScaledRun, ...]

    @property
    def batch(self) -> int:
        """Samples per iteration, over all processes."""
        return self.runs[0].batch

    def median(self, read: Callable[[ScaledRun], float | None]) -> float | None:
        """Return the median of a figure over the runs that have it; ``None`` if none has.

        Args:
            read: Takes a run, and returns its figure.
        """
        known = [value for run in self.runs if (value := read(run)) is not None]
        return statistics.median(known) if known else None

    @property
    def rates(self) -> SizeRates:
        """Medians of the rates."""
        return SizeRates(
            processes=self.processes,
            num_envs=self.num_envs,
            machines=self.machines,
            fps_step=self.median(lambda run: run.fps_step),
            fps_step_inference=self.median(lambda run: run.fps_step_inference),
            fps_total=self.median(lambda run: run.fps_total),
            epoch_s=self.median(lambda run: run.epoch_s),
        )

    @property
    def counted(self) -> list[ScaledRun]:
        """Its runs, without those that were interrupted or repeated."""
        return [run for run in self.runs if run.is_evidence]

    @property
    def reached(self) -> int:
        """Number of runs that reached the target."""
        return sum(run.reached for run in self.counted)

    def median_to_target(self, read: Callable[[ScaledRun], float | None]) -> float | None:
        """Return the median of a figure up to the target over all counted runs; those that missed it have larger ones.

        Args:
            read: Takes a run, and returns its figure; ``None`` if the run missed the target.

        Returns:
            The median; ``None`` if half of the runs or more missed the target, or a run that reached it has no figure.
        """
        runs = self.counted
        if not runs or any(run.reached and read(run) is None for run in runs):
            return None
        known = sorted(value for run in runs if (value := read(run)) is not None)
        middle = [(len(runs) - 1) // 2, len(runs) // 2]
        return None if middle[-1] >= len(known) else (known[middle[0]] + known[middle[1]]) / 2


@dataclass(frozen=True, kw_only=True)
class ScalingStudy:
    """Runs that differ only in their size and seed."""

    setting: Setting
    """What they have in common."""
    kind: Kind
    points: tuple[ScalingPoint, ...]
    """In ascending order of size; at least one."""
    rate_law: RateFit | Refusal = field(compare=False)
    """The law of the total rate, fitted to its runs; or why there is none."""
    batch_law: BatchFit | Refusal = field(compare=False)
    """The law of the steps to the target against the batch, fitted to *all* runs of this setting, also those of other
    studies; or why there is none."""

    @property
    def runs(self) -> Sequence[ScaledRun]:
        """All its runs."""
        return [run for point in self.points for run in point.runs]
