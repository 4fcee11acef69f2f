"""Scores policies during a training: screening, confirmation, and the decision to stop."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from ledger_lab.ledger import CheckpointSaved, Outcomes, PanelResult
from ledger_lab.ledger.meters import Phase
from ledger_lab.panels import Panel, VerdictRule
from ledger_lab.panels.physics import exactness
from ledger_lab.panels.starts import changed_starts, different_start
from ledger_lab.panels.verdict import Standing
from ledger_lab.training.plan import TrainPlan
from ledger_lab.training.recording.writer import RunWriter
from ledger_lab.training.runners import Policy
from ledger_lab.training.spread_slots import SpreadSlots


@dataclass(frozen=True)
class Judged:
    """A checkpoint, and its result on a panel."""

    saved: CheckpointSaved
    result: PanelResult


@dataclass(frozen=True)
class _Evaluation:
    """A policy whose episodes are running on a panel."""

    policy: Policy
    saved: CheckpointSaved
    purpose: Literal["screening", "confirmation"]
    confirmation: int
    extension: int
    panel: Panel
    needed: int


class Judge:
    """Chooses the policy that is scored next, and decides what its result means.

    Each scored policy is loaded from a checkpoint that was saved and hashed. A policy that passes the screening is
    confirmed on fresh seeds. Each confirmation uses a share of the run's error budget. A near miss is extended on
    further fresh seeds, before the newest policy is screened.
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
            slots: The held-out slots of all processes.
            writer: Writes the panel results.
            snapshot: Saves the policy of the last iteration, unless it is saved already, and returns its row.
            load: Loads the policy of a checkpoint.
        """
        self._plan, self._slots, self._writer = plan, slots, writer
        self._clock, self._snapshot, self._load = writer.clock, snapshot, load
        self._share = (slots.count, slots.first + slots.count)
        self._clock.share(*self._share)  # always: held-out slots are also simulated between two panels
        self._rule = VerdictRule.of_version(plan.verdict_rule, plan.panel.target_success, plan.error_budget)
        self._evaluation: _Evaluation | None = None
        self._confirmations = 0
        self._screened: int | None = None
        self._ended: CheckpointSaved | None = None
        """The checkpoint whose episodes the next panel replays."""
        self._starts: dict[tuple[str, str], dict[str, str]] = {}
        """Hashes of what the episodes of a panel start with, from its first result, by its id and the changed code."""
        self._spent: dict[tuple[int, int], PanelResult] = {}
        """Results of confirmations, earlier attempts included, by the number of the confirmation and of its panel."""
        self.last: PanelResult | None = None
        """The newest result."""
        self.valid = 0
        """Number of valid results."""
        self.confirmed: PanelResult | None = None
        """The result that proved that a policy reaches the target."""
        self.cut_short = False
        """Whether the time of the run was used up before the last policy was judged."""

    @property
    def ends_training(self) -> bool:
        """Whether a policy is confirmed, and the run is to end at the target."""
        return self.confirmed is not None and self._plan.request.stop_at_target

    def state(self) -> dict[str, Any]:
        """Return the state of this object as plain values, for :meth:`resume`."""
        running = self._evaluation
        evaluation = None
        if running is not None:
            evaluation = {
                "saved": running.saved.to_data(),
                "purpose": running.purpose,
                "confirmation": running.confirmation,
                "extension": running.extension,
                "needed": running.needed,
            }
        return {
            "confirmations": self._confirmations,
            "screened": self._screened,
            "taking": self._slots.taking,
            "ended": None if self._ended is None else self._ended.to_data(),
            "evaluation": evaluation,
        }

    def resume(self, state: dict[str, Any], results: Sequence[PanelResult], whole: bool) -> None:
        """Continue from the state that an earlier attempt saved.

        Args:
            state: The result of :meth:`state`.
            results: Results of earlier attempts, including those after the state was saved: a spent error budget stays
                spent.
            whole: Whether held-out episodes continue in the middle. If not, an unfinished panel starts again on the
                same seeds, whose outcomes are still unknown.
        """
        self._confirmations, self._screened = state["confirmations"], state["screened"]
        for row in results:
            self._keep(row)
        self.valid = sum(row.invalid is None for row in results)
        self.last = results[-1] if results else None
        self.confirmed = next((row for row in results if row.confirms), None)
        if not whole:
            self._confirmations = max([self._confirmations, *(number for number, _ in self._spent)])
        evaluation = None if state["evaluation"] is None else self._resumed_evaluation(**state["evaluation"])
        if whole:
            self._evaluation = evaluation
            self._ended = None if state["ended"] is None else CheckpointSaved.from_data(state["ended"])
            before = None if self._ended is None else self._load(self._ended)
            if evaluation is None:
                self._slots.go_on([], state["taking"], before=before)
            else:
                self._slots.go_on([evaluation.policy], state["taking"], evaluation.panel, before)
        elif evaluation is not None:
            self._go_on_from(evaluation, [row for row in results if row.checkpoint_sha256 == evaluation.saved.sha256])

    def _go_on_from(self, running: _Evaluation, results: Sequence[PanelResult]) -> None:
        """Continue where an earlier attempt ended: with an evaluation, or with what follows from its result.

        Args:
            running: The evaluation that was running when the state was saved.
            results: Results of its checkpoint.
        """
        of = (running.purpose, running.extension)
        ended = next((row for row in results if (row.purpose, row.extension) == of), None)
        if ended is None:
            self._begin(running)
            return
        if self.confirmed is not None:
            return
        spent = [place for place, row in self._spent.items() if row in results and place[0] >= running.confirmation]
        if spent:
            number, extension = max(spent)
            last = dataclasses.replace(running, purpose="confirmation", confirmation=number, extension=extension)
            self._go_on(last, self._spent[number, extension])
        elif ended.passes:
            self._confirm(running)

    def _resumed_evaluation(
        self,
        saved: dict[str, Any],
        purpose: Literal["screening", "confirmation"],
        confirmation: int,
        needed: int,
        extension: int = 0,
    ) -> _Evaluation:
        """Return the evaluation that was running when the state was saved."""
        row, panel = CheckpointSaved.from_data(saved), self._plan.panel
        if purpose == "confirmation":
            panel = panel.confirmation(self._plan.run_id, confirmation, extension)
        return _Evaluation(self._load(row), row, purpose, confirmation, extension, panel, needed)

    def after_iteration(self, iterations: int) -> list[Judged]:
        """Record the result of a panel that has ended, and begin to score the next policy.

        Args:
            iterations: Iterations completed.

        Returns:
            The results since the last call.
        """
        with self._clock.window(Phase.EVALUATE):
            found = self._conclude()
            if self._evaluation is None and not self.ends_training and self._is_due(iterations):
                self._screen()
        return found

    def finish(self, on_step: Callable[[], None], is_over: Callable[[], bool] = lambda: False) -> list[Judged]:
        """Score the last policy of a training that ended without a confirmed policy.

        Args:
            on_step: Called after each step.
            is_over: Tells whether the time of the run is used up. Then :attr:`cut_short` is set in all processes, and
                unfinished episodes give no result.

        Returns:
            The results.
        """
        found: list[Judged] = []
        idle = torch.zeros(self._slots.first, self._slots.action_count, device=self._plan.device)
        self._clock.share(1, 1)  # there is no training meanwhile
        with torch.inference_mode():
            while self._evaluation is not None or self._last_is_unjudged():
                if self._evaluation is None:
                    self._screen()
                while not self._slots.idle_here and not is_over():
                    self._slots.step(idle)
                    on_step()
                if not self._slots.idle:  # of all processes: some may still have had time
                    self.cut_short = True
                    break
                found += self._conclude()
                if self.confirmed is not None:
                    break
        self._clock.share(*self._share)
        return found

    def _is_due(self, iterations: int) -> bool:
        """Tell whether it is time to score the next policy."""
        every = self._plan.request.eval_every
        return every is None or self._screened is None or iterations - self._screened >= every

    def _last_is_unjudged(self) -> bool:
        """Tell whether the newest policy has not been screened."""
        return self._screened != self._snapshot().iteration

    def _screen(self) -> None:
        """Begin to screen the newest policy."""
        saved = self._snapshot()
        self._screened = saved.iteration
        number = self._confirmations + 1
        needed = self._rule.screening_needs(len(self._plan.panel.episodes))
        self._begin(_Evaluation(self._load(saved), saved, "screening", number, 0, self._plan.panel, needed))

    def _confirm(self, screened: _Evaluation) -> None:
        """Begin to confirm a policy that passed the screening, on fresh seeds."""
        number = self._confirmations + 1
        spent = self._spent.get((number, 0))
        if spent is not None and spent.checkpoint_sha256 != screened.saved.sha256:
            number = max(self._spent)[0] + 1  # an earlier attempt scored another policy on these seeds
        self._confirmations = number
        self._confirm_on(screened, number, 0)

    def _go_on(self, ended: _Evaluation, result: PanelResult) -> None:
        """Extend a confirmation on further fresh seeds if its last panel was a near miss."""
        standing = self._standing(ended.confirmation, ended.extension + 1)
        if result.invalid is None and self._rule.goes_on(standing):
            self._confirm_on(ended, ended.confirmation, ended.extension + 1)

    def _confirm_on(self, scored: _Evaluation, number: int, extension: int) -> None:
        """Begin a panel of a confirmation."""
        standing = self._standing(number, extension)
        if extension == 0:
            standing = self._rule.begin(standing)
        panel = self._plan.panel.confirmation(self._plan.run_id, number, extension)
        needed = int(self._rule.needs(standing, len(panel.episodes)))
        self._begin(_Evaluation(scored.policy, scored.saved, "confirmation", number, extension, panel, needed))

    def _standing(self, number: int, extension: int) -> Standing:
        """Return what the run may still risk before a panel of a confirmation."""
        return self._rule.replay(row for place, row in self._spent.items() if place < (number, extension))

    def _keep(self, result: PanelResult) -> None:
        """Remember what a panel of a confirmation spent, and how the episodes of a panel start."""
        if result.starts is not None:
            self._starts.setdefault((result.panel_id, str(result.changed_code)), result.starts)
        if result.purpose == "confirmation" and result.confirmation is not None:
            self._spent[result.confirmation, result.extension] = result

    def _begin(self, evaluation: _Evaluation) -> None:
        """Begin the episodes of an evaluation."""
        self._evaluation = evaluation
        self._slots.begin([evaluation.policy], evaluation.panel)

    def _conclude(self) -> list[Judged]:
        """Write the result of an evaluation that has ended, and begin what follows from it.

        A policy that passed its screening is confirmed, and a near miss of a confirmation is extended.

        Returns:
            The result; empty while episodes are running.
        """
        ended = self._evaluation
        if ended is None or not self._slots.idle:
            return []
        (outcomes,) = self._slots.outcomes()
        result = self._write(ended, outcomes)
        self._evaluation, self._ended, self.last = None, ended.saved, result
        self._keep(result)
        self.valid += result.invalid is None
        if result.confirms:
            self.confirmed = self.confirmed or result
        elif self.confirmed is not None:
            pass
        elif ended.purpose == "confirmation":
            self._go_on(ended, result)
        elif result.passes:
            self._confirm(ended)
        return [Judged(ended.saved, result)]

    def _write(self, ended: _Evaluation, outcomes: Outcomes) -> PanelResult:
        """Write the result of an evaluation, unless an earlier attempt did; return the result that counts."""
        invalid, starts = self._slots.invalid(outcomes), self._slots.starts
        identity = self._plan.identity
        panel_id = (identity.with_fresh_seeds(ended.panel.seeds) if ended.panel.fresh else identity).id
        if starts is not None:
            first = self._starts.setdefault((panel_id, str(self._plan.changed_code)), starts)
            invalid = invalid or different_start(changed_starts(first, starts))
        return self._writer.result(
            ended.saved,
            outcomes,
            panel=ended.panel.name,
            panel_id=panel_id,
            seeds=[seed for _, seed in ended.panel.episodes],
            purpose=ended.purpose,
            confirmation=ended.confirmation,
            extension=ended.extension,
            needed=ended.needed,
            exactness=exactness(self._plan.env_cfg),
            invalid=invalid,
            changed_code=self._plan.changed_code,
            replayed=self._slots.replayed,
            starts=starts,
        )
