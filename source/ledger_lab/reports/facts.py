"""Sums over the rows of a run, from which its figures are computed. Each sum is computed once."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property
from typing import Any

from ledger_lab.ledger import Attempt, AttemptEnded, Evaluation, Outcomes, PanelResult, Run
from ledger_lab.ledger.costs import EnergyCost, Price, billable_usd, energy_cost
from ledger_lab.ledger.libraries import LIBRARIES, algorithm_of
from ledger_lab.ledger.meters import LOOP_PHASES, TRAINING_PHASES, Phase
from ledger_lab.panels.slot_count import slots_in_all
from ledger_lab.reports.checkpoints import (
    BestTry,
    CheckpointSummary,
    Confirmation,
    ScoredCheckpoint,
    best_try,
    share_of,
)
from ledger_lab.reports.clock import phase_times, saved_at_s
from ledger_lab.reports.columns import summarize
from ledger_lab.reports.energy import EnergySummary, evaluation_kwh, summarize_energy
from ledger_lab.reports.gradient_noise import NoisePart, summarize_noise

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
    def whole_step_s(self) -> float | None:
        """Seconds in the environment's steps of all slots together, held-out slots included.

        The held-out slots' share counts for the phase ``evaluate``. It is proportional to their number.
        """
        slots = slots_in_all(self.declared.num_envs, self.declared.held_out_slots)
        return None if self.step_s is None else self.step_s * slots / self.declared.num_envs

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
    def _confirmations(self) -> dict[tuple[str, str], Confirmation]:
        """The last confirmation of each checkpoint; a confirmation that proves the target stays."""
        found: dict[tuple[str, str], Confirmation] = {}
        for _, row in self.judged:
            if row.invalid is not None or row.purpose != "confirmation":
                continue
            key = row.checkpoint, row.checkpoint_sha256
            known = found[key].panels if key in found else ()
            if any(panel.confirms for panel in known):
                continue
            extended = [each for each in known if each.confirmation == row.confirmation]
            found[key] = Confirmation((*(each for each in extended if _is_extended_by(each, row)), row))
        return found

    @cached_property
    def _scores(self) -> dict[tuple[str, str], PanelResult]:
        """The first score of each checkpoint, because repeating a score until it passes would bias it."""
        found: dict[tuple[str, str], PanelResult] = {}
        for _, row in self.judged:
            own = row.panel_id == self.declared.panel_id and row.purpose != "confirmation"
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
            scored.append(ScoredCheckpoint(saved, at_s[saved.path], score, exactness, self._confirmations.get(key)))
        return [summarize(CheckpointSummary, each) for each in scored]

    @cached_property
    def proof(self) -> Confirmation | None:
        """The confirmation that proved that a policy reaches the target."""
        return next((row for row in self._confirmations.values() if row.confirms), None)

    @cached_property
    def best_try(self) -> BestTry | None:
        """The best confirmation, or the best screening; ``None`` if a policy is proven, or none was screened."""
        if self.proof is not None:
            return None
        own = [row for _, row in self.judged if row.panel_id == self.declared.panel_id and row.invalid is None]
        return best_try(self._confirmations.values(), [row for row in own if row.purpose == "screening"])

    @cached_property
    def outcomes(self) -> Outcomes | None:
        """Outcomes of the proof; without one, of the last checkpoint that was screened."""
        keys = ((saved.path, saved.sha256) for saved in reversed(self.run.checkpoints))
        if self.proof is not None:
            return self.proof.outcomes
        return next((self._scores[key].outcomes for key in keys if key in self._scores), None)

    @cached_property
    def success(self) -> tuple[float, tuple[float, float]] | None:
        """Share of these episodes that succeeded, and its 95 % interval.

        The interval of a confirmed policy assumes that the policy reaches its target.
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
    """Tell whether a panel extends an earlier panel of its confirmation: a seed that occurs again proves nothing."""
    return earlier.extension < row.extension and set(earlier.outcomes.seed).isdisjoint(row.outcomes.seed)
