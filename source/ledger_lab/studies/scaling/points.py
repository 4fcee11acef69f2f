"""Trainings as points of scaling studies: how large, how fast, how many steps to the target, how long, how much."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ledger_lab.ledger import Run, RunDeclared, Status
from ledger_lab.ledger.costs.model import billable_usd, sum_if_known
from ledger_lab.ledger.costs.prices import Price
from ledger_lab.ledger.libraries import replays
from ledger_lab.ledger.meters.phases import TRAINING_PHASES, Phase
from ledger_lab.reports.facts import Moment, RunFacts, attempt_times, target_moment
from ledger_lab.reports.summary import RunSummary
from ledger_lab.studies.scaling.laws import BatchFit, Kind, Law, RateFit, Refusal, TargetRun
from ledger_lab.tasks.pack import TASKS

_SIZE = ("physics=", "env.scene.num_envs=")
"""Beginnings of overrides that are no treatment: other fields tell them."""


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Where the time until the target went; without the target, the time until the run ended.

    ``time = start-up + steps / rate + scoring + interruptions + residual``, by the phases of the first process.
    """

    time_s: float
    """By the clock of the row that proved the target; without the target, of the run's end [s]."""
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

    @property
    def rate(self) -> float | None:
        """Environment steps per second of the training phases; ``None`` before the first iteration."""
        return self.steps / self.training_s if self.steps and self.training_s > 0 else None

    @property
    def residual_s(self) -> float:
        """Time that is in none of the parts [s]."""
        return self.time_s - (self.start_up_s + self.training_s + self.scoring_s + self.interruptions_s)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What must be equal before two runs are points of one study."""

    task: str
    library: str
    physics: str
    treatment: str
    """What was changed besides the size, for example the learning rate, in the words of the command line; empty for
    nothing."""
    panel: str
    panel_id: str
    target: float
    device: str
    """``cpu`` or ``cuda``."""
    hardware: str | None
    """The machine of :attr:`~ledger_lab.ledger.RunDeclared.machine`; ``None`` if unknown."""
    instance: str
    """Entry of the price book."""
    measured_by: str
    """As :attr:`~ledger_lab.reports.summary.RunSummary.measured_by`."""


@dataclass(frozen=True, kw_only=True)
class ScaledRun:
    """One training with its figures up to the target. ``None`` means not measured, or without a denominator."""

    declared: RunDeclared
    summary: RunSummary
    identity: Identity
    cost_to_target_usd: float | None
    """What the time to the target costs at the run's price [USD]; ``None`` without target or price."""
    repeated: bool = False
    """Whether another run stands for it: something outside of it ended it, and the same training was started again, or
    an earlier run had made the same training."""
    repeated_usd: float | None = 0.0
    """What the runs cost that it stands for [USD]; ``None`` if unknown."""

    @property
    def run_id(self) -> str:
        """Its id."""
        return self.summary.run_id

    @property
    def reached(self) -> bool:
        """Whether a policy was proven to reach the target during the training."""
        return self.summary.wall_to_target_s is not None

    @property
    def interrupted(self) -> bool:
        """Whether something outside of it ended it short of the target."""
        return self.summary.unfinished and not self.reached

    @property
    def setting(self) -> Setting:
        """What it must share with other points of its study."""
        run = self.summary
        return Setting(
            task=run.task,
            library=run.rl_library,
            physics=run.physics,
            treatment=" ".join(_treatment(self.declared)),
            panel=run.panel,
            panel_id=run.panel_id,
            target=run.target_success,
            device=run.device.partition(":")[0],
            hardware=self.declared.machine,
            instance=run.instance,
            measured_by=run.measured_by,
        )

    @property
    def machines(self) -> int | None:
        """Its machines; ``None`` if unknown."""
        return self.declared.machines or (1 if self.declared.world_size == 1 else None)

    @property
    def batch(self) -> int:
        """Samples per iteration, over all processes."""
        return self.declared.env_steps_per_iteration

    @property
    def limit_steps(self) -> int:
        """Environment steps at which the run would have ended without the target.

        If something else ended the run short of the target, the steps that it made.
        """
        ended_early = not self.reached and self.summary.status != Status.COMPLETED
        return self.summary.env_steps if ended_early else self.declared.max_iterations * self.batch

    @property
    def censored_at(self) -> float:
        """Environment steps from which on its steps to the target would be unknown."""
        steps = self.identity.steps  # a run that reaches the target with its last step has reached it
        return max(self.limit_steps, steps) + 1.0 if self.reached else float(steps)

    @property
    def steps_to_target(self) -> int | None:
        """Environment steps of the learner until the target was proven; ``None`` if it was not reached."""
        return self.identity.steps if self.reached else None

    @property
    def time_to_target_s(self) -> float | None:
        """Wall-clock time until the target was proven [s]; ``None`` if it was not reached."""
        return self.summary.wall_to_target_s


@dataclass(frozen=True, kw_only=True)
class ScalingPoint:
    """All runs of one size in one setting, with medians over them; a run that missed the target needs more than all."""

    processes: int
    machines: int | None
    num_envs: int
    """Environments of each process."""
    batch: int
    """Samples per iteration, over all processes."""
    runs: tuple[ScaledRun, ...]
    counted: int
    """Its runs that tell how often the target is reached: without those that were interrupted or repeated."""
    reached: int
    """Counted runs that reached the target."""
    fps_total: float | None
    """Environment steps of all processes per second of all training phases [1/s]."""
    fps_step: float | None
    """Environment steps of all processes per second of ``simulate + manage`` [1/s]."""
    fps_step_inference: float | None
    """The same with ``infer`` [1/s]."""
    epoch_s: float | None
    """Wall-clock time of an iteration of collecting and learning, scoring included [s]."""
    steps_to_target: float | None
    """Environment steps of the learner until the target was proven."""
    time_to_target_s: float | None
    """Wall-clock time until then [s]."""
    cost_to_target_usd: float | None
    """Cost until then [USD]."""
    speed_up: float | None = None
    """Total rate ÷ that of the smallest size of its strong or weak study; ``None`` in neither, like the next four."""
    of_rate: float | None = None
    """The same, per process."""
    of_samples: float | None = None
    """Steps to the target of the smallest size ÷ steps to the target."""
    of_training: float | None = None
    """``of_rate`` × ``of_samples``."""
    of_time: float | None = None
    """Time to the target of the smallest size ÷ time to the target, per process; with start-up and scoring."""

    @property
    def size(self) -> str:
        """Processes × environments of each, as ``2 × 512``."""
        return size_name(self.processes, self.num_envs, self.machines)

    def compared_with(self, base: ScalingPoint) -> ScalingPoint:
        """Return it with its efficiency.

        Args:
            base: The smallest size of its study.
        """
        more = self.processes / base.processes
        speed_up = _ratio(self.fps_total, base.fps_total)
        of_samples = _ratio(base.steps_to_target, self.steps_to_target)
        of_time = _ratio(base.time_to_target_s, self.time_to_target_s)
        return replace(
            self,
            speed_up=speed_up,
            of_rate=None if speed_up is None else speed_up / more,
            of_samples=of_samples,
            of_training=None if speed_up is None or of_samples is None else speed_up / more * of_samples,
            of_time=None if of_time is None else of_time / more,
        )


def size_name(processes: int, num_envs: int, machines: int | None) -> str:
    """Return a size as processes × environments of each, and its machines if there are several."""
    several = f" on {machines} machines" if (machines or 1) > 1 else ""
    return f"{processes} × {num_envs}{several}"


def point_of(runs: Sequence[ScaledRun]) -> ScalingPoint:
    """Return the point of all runs of one size in one setting.

    Args:
        runs: The runs; at least one.
    """
    first = runs[0]
    counted = [run for run in runs if not (run.interrupted or run.repeated)]
    return ScalingPoint(
        processes=first.summary.world_size,
        machines=first.machines,
        num_envs=first.summary.num_envs,
        batch=first.batch,
        runs=tuple(runs),
        counted=len(counted),
        reached=sum(run.reached for run in counted),
        fps_total=_median(run.summary.env_steps_per_s for run in runs),
        fps_step=_median(run.summary.fps_step for run in runs),
        fps_step_inference=_median(run.summary.fps_step_inference for run in runs),
        epoch_s=_median(60 / rate if (rate := run.summary.updates_per_wall_min) else None for run in runs),
        steps_to_target=median_to_target(runs, lambda run: run.steps_to_target),
        time_to_target_s=median_to_target(runs, lambda run: run.time_to_target_s),
        cost_to_target_usd=median_to_target(runs, lambda run: run.cost_to_target_usd),
    )


def median_to_target(runs: Iterable[ScaledRun], read: Callable[[ScaledRun], float | None]) -> float | None:
    """Return the median of a figure up to the target over all counted runs; those that missed it have larger ones.

    Args:
        runs: Runs of one size; those that were interrupted or repeated do not count.
        read: Takes a run, and returns its figure; ``None`` if the run missed the target.

    Returns:
        The median; ``None`` if half of the runs or more missed the target, or a run that reached it has no figure.
    """
    counted = [run for run in runs if not (run.interrupted or run.repeated)]
    if not counted or any(run.reached and read(run) is None for run in counted):
        return None
    median = statistics.median(math.inf if (value := read(run)) is None else value for run in counted)
    return median if math.isfinite(median) else None


def _median(figures: Iterable[float | None]) -> float | None:
    """Return the median of the known figures; ``None`` if there is none."""
    known = [each for each in figures if each is not None]
    return statistics.median(known) if known else None


def _ratio(above: float | None, below: float | None) -> float | None:
    """Return a ratio; ``None`` if one of both is missing."""
    return above / below if above and below else None


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
    def runs(self) -> list[ScaledRun]:
        """All its runs."""
        return [run for point in self.points for run in point.runs]

    @property
    def words(self) -> str:
        """What stays constant."""
        first = self.points[0]
        if self.kind is Kind.STRONG:
            return f"strong scaling: {first.num_envs * first.processes} environments in all"
        if self.kind is Kind.WEAK:
            return f"weak scaling: {first.num_envs} environments in each process"
        return "sizes that belong to neither strong nor weak scaling"


def scaled_runs(runs: Sequence[Run], summaries: Sequence[RunSummary], price: Price | None = None) -> list[ScaledRun]:
    """Return runs as points of scaling studies. A run without an attempt is none: it took no time and tells nothing.

    As in :mod:`ledger_lab.reports.cohort_summary`, runs are marked for which another run stands, and that one has their
    cost; but here, the two may be of different cohorts.

    Args:
        runs: The runs.
        summaries: Their summaries, in the same order.
        price: Price that replaces the declared prices; the summaries must have been made with it.
    """
    begun = [(run, summary) for run, summary in zip(runs, summaries, strict=True) if run.attempts]
    begun.sort(key=lambda pair: pair[0].declared_at)
    latest = {(run.cohort, run.declared.configuration): run.run_id for run, _ in begun}
    first: dict[tuple[str, bool], str] = {}
    stands: dict[str, str] = {}
    spent: dict[str, list[float | None]] = {}
    for run, summary in begun:
        if run.cohort is not None and summary.unfinished:
            stands[run.run_id] = latest[run.cohort, run.declared.configuration]
        else:
            same = (run.declared.training, run.attempts[-1].status.failed)
            stands[run.run_id] = first.setdefault(same, run.run_id)
        if stands[run.run_id] != run.run_id:
            spent.setdefault(stands[run.run_id], []).append(summary.billable_usd)
    return [
        replace(
            scaled_run(run, summary, price),
            repeated=stands[run.run_id] != run.run_id,
            repeated_usd=sum_if_known(spent.get(run.run_id, [])),
        )
        for run, summary in begun
    ]


def scaled_run(run: Run, summary: RunSummary, price: Price | None = None) -> ScaledRun:
    """Return a run as a point of a scaling study.

    Args:
        run: The run.
        summary: Its summary.
        price: Price that replaces the declared price; the summary must have been made with it.
    """
    facts = RunFacts(run, price)
    moment = target_moment(facts.judged)
    whole = (facts.wall_s, facts.phase_ns, facts.env_steps)
    identity = _identity(*whole) if moment is None else _identity_until(run, moment)
    return ScaledRun(
        declared=run.declared,
        summary=summary,
        identity=identity,
        cost_to_target_usd=None if moment is None else _cost_until(facts, moment),
    )


def _treatment(declared: RunDeclared) -> list[str]:
    """Return what was changed besides the size, as flags and overrides.

    What LedgerLab itself derived from the size, such as a scaled learning rate, is not in a request: only its rule is.
    """
    request = declared.request or {"overrides": declared.overrides}
    overrides = request.get("overrides")  # a ledger may hold anything
    texts = map(str, overrides if isinstance(overrides, list) else ())
    found = sorted(each for each in texts if not each.startswith(_SIZE))
    if rule := request.get("scale_lr"):
        found.append(f"--scale_lr {'sqrt' if rule is True else rule}")
    if request.get("keep_minibatch_size"):
        found.append("--keep_minibatch_size")
    if declared.eval_every is not None:
        found.append(f"--eval_every {declared.eval_every}")
    if not declared.stop_at_target:
        found.append("--no_stop_at_target")
    if declared.timing == "synchronized":
        found.append("--timing synchronized")
    task = TASKS.get(declared.task)
    by_default = declared.rl_library == "rsl_rl" and declared.agent is None and task is not None and task.symmetry
    if request.get("no_symmetry") or (by_default and not declared.symmetry):
        found.append("--no_symmetry")
    if declared.agent is not None:
        found.append(f"--agent {declared.agent}")
    if declared.began_from is not None:
        found.append(f"--checkpoint {declared.began_from['run_id']}")
    return found


def _identity(time_s: float, phase_ns: Mapping[str, int], steps: int) -> Identity:
    """Sort phases into the parts of the identity."""

    def seconds(*phases: Phase) -> float:
        return sum(phase_ns.get(phase, 0) for phase in phases) / 1e9

    return Identity(
        time_s=time_s,
        start_up_s=seconds(Phase.STARTUP, Phase.COMPILE),
        steps=steps,
        training_s=seconds(*TRAINING_PHASES),
        scoring_s=seconds(Phase.EVALUATE),
        interruptions_s=seconds(Phase.RESTART, Phase.SUSPENDED, Phase.SHUTDOWN),
    )


def _identity_until(run: Run, moment: Moment) -> Identity:
    """Return where the time until a moment went.

    The window that the moment falls into is not split by its rows. Its first part, up to the moment, counts as
    ``evaluate`` as far as the whole window has so much of it, because a score is written when its panel has ended. The
    rest of this part counts for the window's training phases, in their order, again as far as it has so much of them.
    """
    number = moment.attempt.number
    until = replace(run, attempts=tuple(each for each in run.attempts if each.number <= number))
    total: Counter[str] = Counter()
    for attempt in until.attempts[:-1]:
        total.update(attempt_times(until, attempt))
    windows = moment.attempt.windows
    before = [window for window in windows if window.wall_ns <= moment.wall_ns]
    for window in before:
        total.update(window.phase_ns)
    if (after := next((window for window in windows if window.wall_ns > moment.wall_ns), None)) is not None:
        part_ns = moment.wall_ns - (before[-1].wall_ns if before else 0)
        for phase in (Phase.EVALUATE, *(phase for phase in Phase if phase in TRAINING_PHASES)):
            spent_ns = min(part_ns, after.phase_ns.get(phase, 0))
            total[phase] += spent_ns
            part_ns -= spent_ns
    trained = [w.env_steps for a, w in until.windows if a.number < number] + [w.env_steps for w in before]
    passed_ns = sum(attempt.wall_ns for attempt in until.attempts[:-1]) + moment.wall_ns
    return _identity(passed_ns / 1e9, total, max(trained, default=0))


def _cost_until(facts: RunFacts, moment: Moment) -> float | None:
    """Return what a run would have cost if it had ended at a moment [USD]; ``None`` if it has no price.

    The energy of the attempt that the moment falls into counts by its share of the time.
    """
    earlier = [each for each in facts.run.attempts if each.number < moment.attempt.number]
    kwh = list(facts.energy.attempt_kwh[: len(earlier) + 1])
    whole_ns = moment.attempt.wall_ns
    if kwh and kwh[-1] is not None and whole_ns:
        kwh[-1] *= moment.wall_ns / whole_ns
    return billable_usd(
        [*(each.wall_ns / 1e9 for each in earlier), moment.wall_ns / 1e9],
        facts.price,
        devices=facts.declared.devices,
        machines=facts.declared.machines,
        attempt_kwh=kwh,
    )


def sizes_of(runs: Iterable[ScaledRun]) -> dict[Setting, list[ScalingPoint]]:
    """Sort runs by their settings, and those of each setting by their sizes, the smallest first.

    Args:
        runs: Runs, of any settings.
    """
    settings: dict[Setting, dict[tuple[int, int, int], list[ScaledRun]]] = {}
    for run in runs:
        size = (run.summary.world_size, run.summary.num_envs, run.machines or 0)
        settings.setdefault(run.setting, {}).setdefault(size, []).append(run)
    return {setting: [point_of(own) for _, own in sorted(sizes.items())] for setting, sizes in settings.items()}


def find_studies(runs: Iterable[ScaledRun]) -> list[ScalingStudy]:
    """Sort runs into studies. A run can be a point of a strong and of a weak study.

    Args:
        runs: Runs, of any settings.

    Returns:
        For each setting, in the order of the first runs: the strong studies by their environments in all, the weak
        studies by their environments per process, and a study of all sizes that are in neither.
    """
    return [study for setting, points in sizes_of(runs).items() for study in _studies_of(setting, points)]


def _studies_of(setting: Setting, points: Sequence[ScalingPoint]) -> list[ScalingStudy]:
    """Return the studies of one setting."""
    batch_law = _fit_batch([run for point in points for run in point.runs])
    found: list[tuple[Kind, list[ScalingPoint]]] = []
    totals = sorted({point.num_envs * point.processes for point in points})
    found += [(Kind.STRONG, [p for p in points if p.num_envs * p.processes == total]) for total in totals]
    found += [(Kind.WEAK, [p for p in points if p.num_envs == each]) for each in sorted({p.num_envs for p in points})]
    found = [(kind, members) for kind, members in found if len({point.processes for point in members}) > 1]
    covered = {id(point) for _, members in found for point in members}
    found = [(kind, [point.compared_with(members[0]) for point in members]) for kind, members in found]
    if rest := [point for point in points if id(point) not in covered]:
        found.append((Kind.OTHER, rest))
    return [
        ScalingStudy(setting=setting, kind=kind, points=tuple(own), rate_law=_fit_rate(kind, own), batch_law=batch_law)
        for kind, own in found
    ]


def _fit_rate(kind: Kind, points: Sequence[ScalingPoint]) -> RateFit | Refusal:
    """Fit the law of the rate that suits a kind of scaling, or return why there is none."""
    if kind is Kind.OTHER:
        return Refusal("neither the environments in all nor those of a process are the same for several sizes")
    if repeated := [size for size, count in Counter(point.processes for point in points).items() if count > 1]:
        return Refusal(
            f"{repeated[0]} processes ran on different numbers of machines, and a law has one rate for each number of "
            "processes: name the runs or cohorts of one of them"
        )
    measured = [
        (point.processes, rate) for point in points for run in point.runs if (rate := run.summary.env_steps_per_s)
    ]
    law = Law.AMDAHL if kind is Kind.STRONG else Law.GUSTAFSON
    try:
        return RateFit(law, [size for size, _ in measured], [rate for _, rate in measured])
    except ValueError as error:
        return Refusal(str(error))


def _fit_batch(runs: Sequence[ScaledRun]) -> BatchFit | Refusal:
    """Fit the steps to the target against the batch; runs that missed it, or were interrupted, count as censored."""
    trained = [run for run in runs if run.identity.steps and not run.repeated]
    if any(replays(run.summary.algorithm) for run in trained):
        return Refusal("with a replay memory, the size of a gradient step does not follow from the environments")
    try:
        return BatchFit(
            [
                TargetRun(batch=run.batch, samples=run.identity.steps, reached=run.reached, limit=run.censored_at)
                for run in trained
            ]
        )
    except ValueError as error:
        return Refusal(str(error))
