"""Judging policies while training goes on: screening, confirmation, and when to stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from ledger_lab.ledger import CheckpointSaved, Outcomes, PanelResult
from ledger_lab.meters import Phase
from ledger_lab.panels import Panel, PanelIdentity, VerdictRule
from ledger_lab.physics import exactness
from ledger_lab.recording.writer import RunWriter
from ledger_lab.runners import Policy
from ledger_lab.training.plan import TrainPlan
from ledger_lab.training.spread_slots import SpreadSlots


@dataclass(frozen=True)
class Judged:
    """What came of a checkpoint on a panel."""

    saved: CheckpointSaved
    result: PanelResult


@dataclass(frozen=True)
class _Evaluation:
    """A policy whose episodes are running on a panel."""

    policy: Policy
    saved: CheckpointSaved
    purpose: Literal["screening", "confirmation"]
    confirmation: int
    panel: Panel
    needed: int


class Judge:
    """Decides which policy takes the panel next, and what its result means.

    Each snapshot is a checkpoint on disk: it is saved, hashed, and the policy that acts is loaded from that file. One
    that passes the screening is confirmed on fresh seeds, with its share of the run's error budget.
    """

    def __init__(
        self,
        plan: TrainPlan,
        slots: SpreadSlots,
        writer: RunWriter,
        snapshot: Callable[[], CheckpointSaved],
        load: Callable[[CheckpointSaved], Policy],
    ) -> None:
        """Begin with nothing judged.

        Args:
            plan: The run.
            slots: Its held-out slots.
            writer: Writes its panel results.
            snapshot: Saves the policy of the last iteration, or returns what is saved of it already.
            load: Makes a policy of a checkpoint.
        """
        self._plan, self._slots, self._writer = plan, slots, writer
        self._clock, self._snapshot, self._load = writer.clock, snapshot, load
        self._share = (slots.count, slots.first + slots.count)
        self._clock.share(*self._share)  # all along: between two panels they are simulated, too
        self._rule = VerdictRule(plan.panel.target_success)
        self._evaluation: _Evaluation | None = None
        self._confirmations = 0
        self._screened: int | None = None
        self._spent: dict[int, str] = {}
        self._final: dict[tuple[str, int | None, str], PanelResult] = {}
        """Results of earlier attempts, by purpose, number of the confirmation, and hash of the checkpoint."""
        self.last: PanelResult | None = None
        """The newest result."""
        self.valid = 0
        """Results that are proofs of something."""
        self.confirmed: PanelResult | None = None
        """The result that proved that a policy reaches the target."""

    @property
    def ends_training(self) -> bool:
        """Whether a policy is proven, and the run was asked to end then."""
        return self.confirmed is not None and self._plan.stop_at_target

    def state(self) -> dict[str, Any]:
        """Return what judging goes on from when the training is resumed, as plain values, for this process."""
        running = self._evaluation
        evaluation = None
        if running is not None:
            evaluation = {
                "saved": running.saved.to_data(),
                "purpose": running.purpose,
                "confirmation": running.confirmation,
                "needed": running.needed,
            }
        return {
            "confirmations": self._confirmations,
            "screened": self._screened,
            "taking": self._slots.taking,
            "evaluation": evaluation,
        }

    def resume(self, state: dict[str, Any], results: Sequence[PanelResult], whole: bool) -> None:
        """Continue from the state that an earlier attempt saved.

        Args:
            state: What :meth:`state` returned.
            results: Results of earlier attempts, including those after the state was saved: a spent error budget stays
                spent.
            whole: Whether held-out episodes continue in the middle. If not, an unfinished panel starts again on the
                same seeds, whose outcomes are still unknown.
        """
        self._confirmations, self._screened = state["confirmations"], state["screened"]
        for row in results:
            if row.purpose == "confirmation" and row.confirmation is not None:
                self._spent[row.confirmation] = row.checkpoint_sha256
        self._final = {(row.purpose, row.confirmation, row.checkpoint_sha256): row for row in results}
        self.valid = sum(row.invalid is None for row in results)
        self.last = results[-1] if results else None
        self.confirmed = next((row for row in results if row.confirms), None)
        if not whole:
            self._confirmations = max([self._confirmations, *self._spent])
        evaluation = None if state["evaluation"] is None else self._resumed_evaluation(**state["evaluation"])
        if whole:
            self._evaluation = evaluation
            taking = state["taking"]
            if evaluation is None:
                self._slots.go_on([], taking)
            else:
                self._slots.go_on([evaluation.policy], taking, evaluation.panel)
        elif evaluation and (evaluation.saved.sha256, evaluation.purpose) not in {
            (row.checkpoint_sha256, row.purpose) for row in results
        }:
            self._begin(evaluation)

    def _resumed_evaluation(
        self, saved: dict[str, Any], purpose: Literal["screening", "confirmation"], confirmation: int, needed: int
    ) -> _Evaluation:
        """Return the evaluation that was running when the state was saved."""
        row, panel = CheckpointSaved.from_data(saved), self._plan.panel
        if purpose == "confirmation":
            panel = panel.confirmation(self._plan.run_id, confirmation)
        return _Evaluation(self._load(row), row, purpose, confirmation, panel, needed)

    def after_iteration(self, iterations: int) -> list[Judged]:
        """Take the result of a panel that is over, and let the next policy begin.

        Args:
            iterations: Iterations completed.

        Returns:
            What was found since the last call.
        """
        with self._clock.window(Phase.EVALUATE):
            found = self._conclude()
            if self._evaluation is None and not self.ends_training and self._is_due(iterations):
                self._screen()
        return found

    def finish(self, on_step: Callable[[], None]) -> list[Judged]:
        """Judge the last policy of a training that ended without a confirmed one.

        Args:
            on_step: Called after each step.

        Returns:
            What was found.
        """
        found: list[Judged] = []
        idle = torch.zeros(self._slots.first, self._slots.action_count, device=self._plan.device)
        self._clock.share(1, 1)  # nobody trains meanwhile
        with torch.inference_mode():
            while self._evaluation is not None or self._last_is_unjudged():
                if self._evaluation is None:
                    self._screen()
                while not self._slots.idle_here:
                    self._slots.step(idle)
                    on_step()
                found += self._conclude()
                if self.confirmed is not None:
                    break
        self._clock.share(*self._share)
        return found

    def _is_due(self, iterations: int) -> bool:
        """Tell whether the next policy is to be judged now."""
        every = self._plan.request.eval_every
        return every is None or self._screened is None or iterations - self._screened >= every

    def _last_is_unjudged(self) -> bool:
        """Tell whether the newest policy has not been screened."""
        return self._screened != self._snapshot().iteration

    def _screen(self) -> None:
        """Let the newest policy take the panel."""
        saved = self._snapshot()
        self._screened = saved.iteration
        number = self._confirmations + 1
        needed = self._rule.screening_needs(number, len(self._plan.panel.episodes))
        self._begin(_Evaluation(self._load(saved), saved, "screening", number, self._plan.panel, needed))

    def _confirm(self, screened: _Evaluation) -> None:
        """Let a policy that passed the screening take the panel once more, with fresh seeds."""
        number = self._confirmations + 1
        if self._spent.get(number, screened.saved.sha256) != screened.saved.sha256:
            number = max(self._spent) + 1  # an attempt that was lost has asked these seeds about another policy
        self._confirmations = number
        panel = self._plan.panel.confirmation(self._plan.run_id, number)
        needed = self._rule.confirmation_needs(number, len(panel.episodes))
        self._begin(_Evaluation(screened.policy, screened.saved, "confirmation", number, panel, needed))

    def _begin(self, evaluation: _Evaluation) -> None:
        """Let a policy begin a panel."""
        self._evaluation = evaluation
        self._slots.begin([evaluation.policy], evaluation.panel)

    def _conclude(self) -> list[Judged]:
        """Write the result of an evaluation that is over, and confirm a policy that has passed its screening.

        Returns:
            The result; nothing while episodes are running.
        """
        over = self._evaluation
        if over is None or not self._slots.idle:
            return []
        (outcomes,) = self._slots.outcomes()
        result = self._final.get((over.purpose, over.confirmation, over.saved.sha256))
        if result is None:  # a result that is written is final, even if the same episodes went otherwise this time
            result = self._write(over, outcomes)
        self._evaluation, self.last = None, result
        self.valid += result.invalid is None
        if result.confirms:
            self.confirmed = self.confirmed or result
        elif over.purpose == "screening" and result.passes and self.confirmed is None:
            self._confirm(over)
        return [Judged(over.saved, result)]

    def _write(self, over: _Evaluation, outcomes: Outcomes) -> PanelResult:
        """Write the result of an evaluation."""
        return self._writer.result(
            over.saved,
            outcomes,
            panel=over.panel.name,
            panel_id=PanelIdentity.of(over.panel, self._plan.simulation).id,
            seeds=[seed for _, seed in over.panel.episodes],
            purpose=over.purpose,
            confirmation=over.confirmation,
            needed=over.needed,
            exactness=exactness(self._plan.env_cfg),
            invalid=self._slots.invalid(outcomes),
        )
