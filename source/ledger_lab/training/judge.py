"""Judging policies while training goes on: screening, confirmation, and when to stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from ledger_lab.ledger import CheckpointSaved, PanelResult
from ledger_lab.meters import Phase, PhaseClock
from ledger_lab.panels import Panel, PanelIdentity, VerdictRule
from ledger_lab.physics import exactness
from ledger_lab.runners import Policy
from ledger_lab.training.plan import TrainPlan
from ledger_lab.training.spread_slots import SpreadSlots


@dataclass(frozen=True)
class _Exam:
    """A policy that takes the panel."""

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
        clock: PhaseClock,
        append: Callable[[PanelResult], None],
        snapshot: Callable[[], CheckpointSaved],
        load: Callable[[CheckpointSaved], Policy],
    ) -> None:
        """Begin with nothing judged.

        Args:
            plan: The run.
            slots: Its held-out slots.
            clock: Its clock.
            append: Writes a row.
            snapshot: Saves the policy of the last iteration, or returns what is saved of it already.
            load: Makes a policy of a checkpoint.
        """
        self._plan, self._slots, self._clock = plan, slots, clock
        self._append, self._snapshot, self._load = append, snapshot, load
        self._share = (slots.count, slots.first + slots.count)
        clock.share(*self._share)  # all along: between two panels they are simulated, too
        self._rule = VerdictRule(plan.panel.target_success)
        self._exam: _Exam | None = None
        self._confirmations = 0
        self._screened: int | None = None
        self._spent: dict[int, str] = {}
        self.last: PanelResult | None = None
        """The newest result."""
        self.valid = 0
        """Results that are proofs of something."""
        self.confirmed: PanelResult | None = None
        """The result that proved that a policy reaches the target."""

    def state(self) -> dict[str, Any]:
        """Return what judging goes on from when the training is resumed, as plain values, for this process."""
        exam = self._exam
        return {
            "confirmations": self._confirmations,
            "screened": self._screened,
            "taking": self._slots.taking,
            "exam": None if exam is None else [exam.saved.path, exam.purpose, exam.confirmation, exam.needed],
        }

    def resume(
        self, state: dict[str, Any], checkpoints: Sequence[CheckpointSaved], results: Sequence[PanelResult], whole: bool
    ) -> None:
        """Go on where an earlier attempt was when it saved its state.

        Args:
            state: What :meth:`state` returned.
            checkpoints: What earlier attempts saved.
            results: What they found, also after they had saved the state: an error budget that is spent stays spent.
            whole: Whether held-out episodes go on in the middle. Else a panel that was being taken begins anew, on the
                same seeds, which nobody has seen the outcome of.
        """
        self._confirmations, self._screened = state["confirmations"], state["screened"]
        for row in results:
            if row.purpose == "confirmation" and row.confirmation is not None:
                self._spent[row.confirmation] = row.checkpoint_sha256
        self.valid = sum(row.invalid is None for row in results)
        self.last = results[-1] if results else None
        self.confirmed = next((row for row in results if row.confirms), None)
        if not whole:
            self._confirmations = max([self._confirmations, *self._spent])
        exam = None
        if state["exam"] is not None:
            path, purpose, number, needed = state["exam"]
            saved = next(saved for saved in checkpoints if saved.path == path)
            fresh = purpose == "confirmation"
            panel = self._plan.panel.confirmation(self._plan.run_id, number) if fresh else self._plan.panel
            exam = _Exam(self._load(saved), saved, purpose, number, panel, needed)
        if whole:
            self._exam = exam
            taking = state["taking"]
            if exam is None:
                self._slots.go_on([], taking)
            else:
                self._slots.go_on([exam.policy], taking, exam.panel)
        elif exam and (exam.saved.sha256, exam.purpose) not in {
            (row.checkpoint_sha256, row.purpose) for row in results
        }:
            self._begin(exam)

    def after_iteration(self, iterations: int) -> bool:
        """Take the result of a panel that is over, and let the next policy begin.

        Args:
            iterations: Iterations completed.

        Returns:
            Whether to go on training.
        """
        with self._clock.window(Phase.EVALUATE):
            self._conclude()
            if self.confirmed is not None and self._plan.stop_at_target:
                return False
            if self._exam is None and self._is_due(iterations):
                self._screen()
        return True

    def finish(self, on_step: Callable[[], None]) -> None:
        """Judge the last policy of a training that ended without a confirmed one.

        Args:
            on_step: Called after each step.
        """
        idle = torch.zeros(self._slots.first, self._slots.action_count, device=self._plan.device)
        self._clock.share(1, 1)  # nobody trains meanwhile
        with torch.inference_mode():
            while self._exam is not None or self._last_is_unjudged():
                if self._exam is None:
                    self._screen()
                while not self._slots.idle_here:
                    self._slots.step(idle)
                    on_step()
                self._conclude()
                if self.confirmed is not None:
                    break
        self._clock.share(*self._share)

    def _is_due(self, iterations: int) -> bool:
        """Tell whether the next policy is to be judged now."""
        every = self._plan.eval_every
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
        self._begin(_Exam(self._load(saved), saved, "screening", number, self._plan.panel, needed))

    def _confirm(self, exam: _Exam) -> None:
        """Let a policy that passed the screening take the panel once more, with fresh seeds."""
        number = self._confirmations + 1
        if self._spent.get(number, exam.saved.sha256) != exam.saved.sha256:
            number = max(self._spent) + 1  # an attempt that was lost has asked these seeds about another policy
        self._confirmations = number
        panel = self._plan.panel.confirmation(self._plan.run_id, number)
        needed = self._rule.confirmation_needs(number, len(panel.episodes))
        self._begin(_Exam(exam.policy, exam.saved, "confirmation", number, panel, needed))

    def _begin(self, exam: _Exam) -> None:
        """Start an exam."""
        self._exam = exam
        self._slots.begin([exam.policy], exam.panel)

    def _conclude(self) -> None:
        """Write the result of an exam that is over, and confirm a policy that has passed its screening."""
        exam = self._exam
        if exam is None or not self._slots.idle:
            return
        (outcomes,) = self._slots.outcomes()
        result = PanelResult(
            run_id=self._plan.run_id,
            checkpoint=exam.saved.path,
            checkpoint_sha256=exam.saved.sha256,
            panel=exam.panel.name,
            panel_id=PanelIdentity.of(exam.panel, self._plan.simulation).id,
            purpose=exam.purpose,
            confirmation=exam.confirmation,
            needed=exam.needed,
            exactness=exactness(self._plan.env_cfg),
            device=self._plan.device,
            wall_ns=self._clock.wall_ns(),
            invalid=self._slots.invalid(outcomes),
            outcomes=outcomes,
        )
        self._append(result)
        self._exam, self.last = None, result
        self.valid += result.invalid is None
        if result.confirms:
            self.confirmed = self.confirmed or result
        elif exam.purpose == "screening" and result.passes and self.confirmed is None:
            self._confirm(exam)
