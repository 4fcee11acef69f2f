"""Sums over the rows of a run, from which its figures are computed; and when things happened in it.

Wall-clock time is that of all attempts, or of all until a moment of the run.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ledger_lab.ledger import (
    Attempt,
    AttemptEnded,
    CheckpointSaved,
    Evaluation,
    Health,
    Outcomes,
    PanelResult,
    PhaseWindow,
    Run,
    Telemetry,
)
from ledger_lab.ledger.costs.model import EnergyCost, billable_usd, energy_cost
from ledger_lab.ledger.costs.prices import Price
from ledger_lab.ledger.libraries import LIBRARIES, algorithm_of
from ledger_lab.ledger.meters.phases import LOOP_PHASES, TRAINING_PHASES, Phase
from ledger_lab.reports.checkpoints import (
    CheckpointSummary,
    Proof,
    ScoredCheckpoint,
    share_of,
)
from ledger_lab.reports.columns import summarize
from ledger_lab.reports.ranks import NoisePart, summarize_noise
from ledger_lab.reports.usage import EnergySummary, evaluation_kwh, summarize_energy


@dataclass(frozen=True, kw_only=True)
class Moment:
    """A moment of a run, by the clock of one of its attempts."""

    attempt: Attempt
    wall_ns: int
    """Age of the attempt [ns]."""


def phase_times(run: Run) -> Counter[str]:
    """Return nanoseconds per phase over all attempts; they sum to the attempts' wall-clock time.

    Args:
        run: The run.
    """
    total: Counter[str] = Counter()
    for attempt in run.attempts:
        total.update(attempt_times(run, attempt))
    return total


def window_times(run: Run, attempt: Attempt, window: PhaseWindow) -> Mapping[str, int]:
    """Return nanoseconds per phase of a window; what a later attempt did again counts as ``restart``."""
    return {Phase.RESTART: sum(window.phase_ns.values())} if run.is_lost(attempt, window) else window.phase_ns


def last_times(run: Run, attempt: Attempt) -> Mapping[str, int]:
    """Return nanoseconds per phase of an attempt after its last window.

    A killed attempt may have written rows after its last window, and an attempt that ended takes a while to exit. If
    the first process could not write its end, another process did, by its own clock.
    """
    ended_ns = attempt.wall_ns if attempt.ended is None else max(attempt.ended.wall_ns, attempt.sums.wall_ns)
    rest = Phase.RESTART if run.was_resumed(attempt) else Phase.UNATTRIBUTED
    times = {rest: ended_ns - attempt.sums.wall_ns, Phase.SHUTDOWN: attempt.wall_ns - ended_ns}
    return {phase: spent_ns for phase, spent_ns in times.items() if spent_ns}


def attempt_times(run: Run, attempt: Attempt) -> Counter[str]:
    """Return nanoseconds per phase of a whole attempt; they sum to its wall-clock time."""
    if len(run.attempts) == 1:  # no window needs to be read
        total = Counter(attempt.sums.phase_ns)
    else:
        total = Counter()
        for window in attempt.windows:
            total.update(window_times(run, attempt, window))
    total.update(last_times(run, attempt))
    return total


def attempt_starts_s(run: Run) -> dict[int, float]:
    """Return the seconds of all earlier attempts, by attempt number [s].

    A row's ``wall_ns`` counts from the start of its own attempt. A run's wall-clock time is the sum of its attempts. It
    leaves out the pauses between them, in which nothing is billed.
    """
    starts: dict[int, float] = {}
    passed_ns = 0
    for attempt in run.attempts:
        starts[attempt.number] = passed_ns / 1e9
        passed_ns += attempt.wall_ns
    return starts


def saved_at_s(run: Run) -> dict[str, float]:
    """Return when checkpoints were saved, by path [s]; if a resumed run saved a path twice, the later time."""
    starts = attempt_starts_s(run)
    return {
        saved.path: starts[attempt.number] + saved.wall_ns / 1e9
        for attempt in run.attempts
        for saved in attempt.of(CheckpointSaved)
    }


def target_moment(judged: Iterable[tuple[Attempt | None, PanelResult]]) -> Moment | None:
    """Return when a policy was proven to reach the target during the training; ``None`` if none was.

    Args:
        judged: Panel results, see :attr:`ledger_lab.ledger.Run.judged`.
    """
    found = ((attempt, row) for attempt, row in judged if attempt is not None and row.proves)
    return next((Moment(attempt=attempt, wall_ns=row.wall_ns) for attempt, row in found), None)


def seconds_to_target(run: Run, judged: Iterable[tuple[Attempt | None, PanelResult]]) -> float | None:
    """Return the wall-clock time until a policy was proven to reach the target [s], over all attempts.

    Args:
        run: The run.
        judged: Its panel results, see :attr:`ledger_lab.ledger.Run.judged`.

    Returns:
        ``None`` if no policy was proven.
    """
    moment = target_moment(judged)
    return None if moment is None else attempt_starts_s(run)[moment.attempt.number] + moment.wall_ns / 1e9


def sampled(attempt: Attempt) -> Iterator[tuple[Telemetry, float | None]]:
    """Yield the telemetry of an attempt, each row with the time over which its processor seconds were counted.

    The first sample of the host covers the time since the attempt began; each later sample covers the time since the
    sample before.

    Args:
        attempt: The attempt.

    Yields:
        A row and its time [s]; the time is ``None`` if the row has no host sample.
    """
    for journal in attempt.journals:
        before_ns = 0
        for row in journal.of(Telemetry):
            if row.host is None:
                yield row, None
                continue
            yield row, (row.wall_ns - before_ns) / 1e9
            before_ns = row.wall_ns


_STEP = frozenset({Phase.SIMULATE, Phase.MANAGE})


class RunFacts:
    """Sums over the rows of a run. ``None`` means not measured, or without a denominator."""

    def __init__(self, run: Run, price: Price | None = None) -> None:
        """Start without any sum.

        Args:
            run: The run.
            price: Price to use in place of the declared price.
        """
        self.run, self.declared = run, run.declared
        self.declared_price = Price.from_dict(self.declared.price)
        self.price = price or self.declared_price
        self.last = run.attempts[-1] if run.attempts else None
        self.wall_s = sum(attempt.wall_ns for attempt in run.attempts) / 1e9
        self.updates, self.env_steps = self._progress()
        spent_ns = phase_times(run)
        self.phase_ns = {str(phase): spent_ns[phase] for phase in Phase if spent_ns[phase]}

    @property
    def algorithm(self) -> str | None:
        """The algorithm that trained the policy; ``None`` if another trainer recorded the run."""
        declared = self.declared
        is_known = declared.rl_library in LIBRARIES and not declared.is_recorded
        return algorithm_of(declared.rl_library, declared.agent) if is_known else None

    def spent_s(self, phases: Iterable[Phase]) -> float | None:
        """Return the seconds in some phases; ``None`` before the first iteration."""
        known = self.phase_ns
        return sum([known[phase] for phase in phases if phase in known]) / 1e9 if self.updates else None

    @property
    def train_s(self) -> float | None:
        """Seconds in the training phases."""
        return self.spent_s(TRAINING_PHASES)

    @property
    def loop_s(self) -> float | None:
        """Wall-clock seconds of the training loop: the training phases and the scoring."""
        return self.spent_s(LOOP_PHASES)

    @property
    def step_s(self) -> float | None:
        """Seconds in the environment's steps, without the held-out slots' share."""
        return self.spent_s(_STEP)

    @property
    def infer_s(self) -> float | None:
        """Seconds in the policy's forward passes of the rollout."""
        return self.spent_s({Phase.INFER})

    @property
    def update_s(self) -> float | None:
        """Seconds in which the learner updated its policy."""
        return self.spent_s((Phase.RETURNS, Phase.REPLAY_SAMPLE, Phase.LEARN, Phase.SYNCHRONIZE))

    @property
    def evaluate_s(self) -> float | None:
        """Seconds of scoring policies; ``None`` if the run scored none."""
        return self.phase_ns[Phase.EVALUATE] / 1e9 if Phase.EVALUATE in self.phase_ns else None

    @cached_property
    def energy(self) -> EnergySummary:
        """Energy of the accelerators."""
        return summarize_energy(self.run)

    @cached_property
    def gradient_noise(self) -> list[NoisePart]:
        """Noise of the gradients in each third of the training."""
        return summarize_noise(self.run)

    @cached_property
    def energy_cost(self) -> EnergyCost | None:
        """Cost of the energy, if it is paid on top of the price per hour."""
        return energy_cost(price=self.price, **self._billed)

    def cost_usd(self, price: Price) -> float | None:
        """Return what the run costs at a price [USD]."""
        return billable_usd(price=price, **self._billed)

    @cached_property
    def _evaluations(self) -> list[Evaluation]:
        """Stand-alone evaluations of its checkpoints whose duration is known."""
        return [each for each in self.run.evaluations if each.wall_ns]

    @property
    def evaluation_afterwards_s(self) -> float | None:
        """Seconds of stand-alone evaluations; ``None`` if there was none."""
        return math.fsum(each.share * each.wall_ns / 1e9 for each in self._evaluations) if self._evaluations else None

    @property
    def evaluation_afterwards_usd(self) -> float | None:
        """Cost of stand-alone evaluations [USD], each billed like an attempt of one process."""
        costs = [
            billable_usd([each.wall_ns / 1e9], self.price, devices=1, machines=1, attempt_kwh=[evaluation_kwh(each)])
            for each in self._evaluations
        ]
        known = [each.share * usd for each, usd in zip(self._evaluations, costs, strict=True) if usd is not None]
        return math.fsum(known) if costs and len(known) == len(costs) else None

    @property
    def queue_s(self) -> float | None:
        """Seconds in the queue of a scheduler before all attempts; ``None`` if it is unknown for one of them."""
        starts = [start for attempt in self.run.attempts if (start := attempt.first_start) is not None]
        waits = [start.job.queue_s for start in starts if start.job is not None]
        known = [wait for wait in waits if wait is not None]
        return math.fsum(known) if waits and len(known) == len(waits) else None

    @cached_property
    def _billed(self) -> dict[str, Any]:
        """What it is billed for, as the arguments of :func:`~ledger_lab.ledger.costs.billable_usd`."""
        return {
            "attempt_wall_s": [attempt.wall_ns / 1e9 for attempt in self.run.attempts],
            "devices": self.declared.devices,
            "machines": self.declared.machines,
            "attempt_kwh": self.energy.attempt_kwh,
        }

    def peak_gb(self, name: str) -> float | None:
        """Return the largest peak among the end rows of the attempts [GB = 10^9 bytes]."""
        ends = [end for attempt in self.run.attempts for end in attempt.of(AttemptEnded)]
        measured = [peak for end in ends if (peak := getattr(end, name)) is not None]
        return max(measured) / 1e9 if measured else None

    @property
    def replay_gb(self) -> float | None:
        """Return the memory that the replay memory of a process takes [GB]; ``None`` without one."""
        held = [saved.replay_bytes for saved in self.run.checkpoints if saved.replay_bytes is not None]
        return max(held) / 1e9 if held else None

    @cached_property
    def judged(self) -> list[tuple[Attempt | None, PanelResult]]:
        """Scores of the run's checkpoints in order, with their attempts."""
        return self.run.judged

    @cached_property
    def invalid_reason(self) -> str | None:
        """The reason why scores are invalid, from the last invalid score."""
        return next((row.invalid for _, row in reversed(self.judged) if row.invalid is not None), None)

    @cached_property
    def changed_code(self) -> str | None:
        """Names of the code that had changed when a checkpoint was scored, or when another one began the run."""
        names = {name for _, row in self.judged for name in row.changed_code}
        names |= set((self.declared.began_from or {}).get("changed_code", ()))
        return ", ".join(sorted(names)) or None

    @cached_property
    def _proofs(self) -> dict[tuple[str, str], Proof]:
        """The last proof of each checkpoint, or the one that passed."""
        found: dict[tuple[str, str], Proof] = {}
        for _, row in self.judged:
            if row.invalid is not None or row.purpose != "proof":
                continue
            key = row.checkpoint, row.checkpoint_sha256
            known = found[key].panels if key in found else ()
            if any(panel.proves for panel in known):
                continue
            extended = [each for each in known if each.proof == row.proof]
            found[key] = Proof((*(each for each in extended if _is_extended_by(each, row)), row))
        return found

    @cached_property
    def _scores(self) -> dict[tuple[str, str], PanelResult]:
        """The first score of each checkpoint, because repeating a score until it passes would bias it."""
        found: dict[tuple[str, str], PanelResult] = {}
        for _, row in self.judged:
            own = row.panel_id == self.declared.panel_id and row.purpose != "proof"
            if row.invalid is None and own:
                found.setdefault((row.checkpoint, row.checkpoint_sha256), row)
        return found

    @cached_property
    def checkpoints(self) -> list[CheckpointSummary]:
        """The saved checkpoints with their scores."""
        at_s = saved_at_s(self.run)
        scored = []
        for saved in self.run.checkpoints:
            key = saved.path, saved.sha256
            row = self._scores.get(key)
            score, exactness = (row.outcomes, row.exactness) if row else (None, None)
            scored.append(ScoredCheckpoint(saved, at_s[saved.path], score, exactness, self._proofs.get(key)))
        return [summarize(CheckpointSummary, each) for each in scored]

    @cached_property
    def proof(self) -> Proof | None:
        """The proof that passed."""
        return next((row for row in self._proofs.values() if row.proves), None)

    @cached_property
    def outcomes(self) -> Outcomes | None:
        """Outcomes of the proof; without one, of the last checkpoint that was checked."""
        keys = ((saved.path, saved.sha256) for saved in reversed(self.run.checkpoints))
        if self.proof is not None:
            return self.proof.outcomes
        return next((self._scores[key].outcomes for key in keys if key in self._scores), None)

    @cached_property
    def success(self) -> tuple[float, tuple[float, float]] | None:
        """Share of these episodes that succeeded, and its 95 % interval.

        The interval of a proven policy assumes that the policy reaches its target.
        """
        if self.proof is not None:
            proven = self.proof.share(self.declared.target_success)
            return proven.share, proven.interval()
        return share_of(self.outcomes) if self.outcomes else None

    def _progress(self) -> tuple[int, int]:
        """Return iterations and environment steps of the training, without lost iterations."""
        if len(self.run.attempts) > 1:
            counts = [(window.iteration or 0, window.env_steps) for _, window in self.run.windows]
        else:  # no window needs to be read
            counts = [(attempt.sums.iterations, attempt.sums.env_steps) for attempt in self.run.attempts]
        return max((each for each, _ in counts), default=0), max((each for _, each in counts), default=0)


def _is_extended_by(earlier: PanelResult, row: PanelResult) -> bool:
    """Tell whether a panel extends an earlier panel of its proof: a seed that occurs again proves nothing."""
    return earlier.extension < row.extension and set(earlier.outcomes.seed).isdisjoint(row.outcomes.seed)


@dataclass(frozen=True, kw_only=True)
class HealthSummary:
    """All health events of one kind in a run."""

    event: str
    times: int
    iteration: int
    """Iterations completed at the first event."""
    evidence: str
    advice: str
    """Evidence and advice of the first event."""
    stopped: bool
    """Whether an event of this kind ended the run."""


def summarize_health(run: Run) -> list[HealthSummary]:
    """Gather the health events of a run.

    Args:
        run: The run.

    Returns:
        One summary per kind of event, in the order of their first events.
    """
    rows = [row for attempt in run.attempts for row in attempt.of(Health)]
    first: dict[str, Health] = {}
    for row in rows:
        first.setdefault(row.event, row)
    times = Counter(row.event for row in rows)
    return [
        HealthSummary(
            event=event,
            times=times[event],
            iteration=row.iteration,
            evidence=row.evidence,
            advice=row.advice,
            stopped=any(each.stops for each in rows if each.event == event),
        )
        for event, row in first.items()
    ]
