"""Scores policies on the held-out slots while the training goes on, as the verdict of the run decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ledger_lab.ledger import CheckpointSaved, Outcomes, PanelResult
from ledger_lab.ledger.meters.phases import Phase
from ledger_lab.panels import Panel, PanelIdentity, VerdictRule
from ledger_lab.panels.physics import exactness
from ledger_lab.panels.slots import HeldOutSlots
from ledger_lab.panels.starts import changed_starts, different_start
from ledger_lab.panels.verdict import NextPanel, Verdict
from ledger_lab.training.plan import TrainPlan
from ledger_lab.training.ranks import gather_outcomes, share_of
from ledger_lab.training.runners import Policy
from ledger_lab.training.runners.process_group import ProcessGroup
from ledger_lab.training.writer import RunWriter


@dataclass(frozen=True)
class Judged:
    """A checkpoint, and its result on a panel."""

    saved: CheckpointSaved
    result: PanelResult


@dataclass(frozen=True)
class _Scored:
    """A policy whose episodes are running on a panel."""

    policy: Policy
    saved: CheckpointSaved
    what: NextPanel
    panel: Panel


class Judge:
    """Plays the panels of a run's verdict, and writes their results.

    Each scored policy is loaded from a checkpoint that was saved and hashed. Whenever the verdict asks for no further
    panel of a checkpoint, the newest policy is checked.
    """

    def __init__(
        self,
        plan: TrainPlan,
        slots: HeldOutSlots,
        group: ProcessGroup,
        writer: RunWriter,
        snapshot: Callable[[], CheckpointSaved],
        load: Callable[[CheckpointSaved], Policy],
    ) -> None:
        """Begin with nothing judged.

        Args:
            plan: The run.
            slots: The held-out slots of this process.
            group: The processes of the run; all of them score at the same time, each its share of the episodes.
            writer: Writes the panel results.
            snapshot: Saves the policy of the last iteration, unless it is saved already, and returns its row.
            load: Loads the policy of a checkpoint.
        """
        self._plan, self._slots, self._group, self._writer = plan, slots, group, writer
        self._clock, self._snapshot, self._load = writer.clock, snapshot, load
        self._share = (slots.count, slots.first + slots.count)
        self._clock.share(*self._share)  # always: held-out slots are also simulated between two panels
        rule = VerdictRule.of_version(plan.declared.verdict_rule, plan.panel.target_success, plan.declared.error_budget)
        self._verdict, self._episodes = Verdict(rule), len(plan.panel.episodes)
        self._scored: _Scored | None = None
        self._checked: int | None = None
        self._starts: dict[tuple[str, str], dict[str, str]] = {}
        """Hashes of what the episodes of a panel start with, from its first result, by its id and the changed code."""
        self.last: PanelResult | None = None
        """The newest result."""
        self.valid = 0
        """Number of valid results."""
        self.proven: PanelResult | None = None
        """The result that proved that a policy reaches the target."""
        self.cut_short = False
        """Whether the time of the run was used up before the last policy was judged."""

    @property
    def ends_training(self) -> bool:
        """Whether a policy is proven, and the run is to end at the target."""
        return self.proven is not None and self._plan.request.stop_at_target

    @property
    def proving(self) -> bool:
        """Whether the episodes of a proof are running."""
        return self._scored is not None and self._scored.what.purpose == "proof"

    def state(self) -> dict[str, Any]:
        """Return what :meth:`resume` needs besides the results of the run, as plain values."""
        scored = None if self._scored is None else self._scored.saved.to_data()
        return {"checked": self._checked, "scored": scored}

    def resume(self, state: dict[str, Any], results: Sequence[PanelResult]) -> None:
        """Continue after an earlier attempt. A panel that was running starts again on the same seeds.

        Args:
            state: The result of :meth:`state`.
            results: Results of earlier attempts, including those after the state was saved: a spent error budget stays
                spent.
        """
        self._checked = state["checked"]
        self._verdict = Verdict(self._verdict.rule, results)
        for row in results:
            self._note(row)
        if state["scored"] is None:
            return
        saved = CheckpointSaved.from_data(state["scored"])
        own = [row for row in results if row.checkpoint_sha256 == saved.sha256]
        what = self._verdict.after(own[-1], self._episodes) if own else self._verdict.check(self._episodes)
        if what is not None:
            self._begin(self._load(saved), saved, what)

    def after_iteration(self, iterations: int) -> list[Judged]:
        """Record the result of a panel that has ended, and begin to score the next policy.

        Args:
            iterations: Iterations completed.

        Returns:
            The results since the last call.
        """
        with self._clock.window(Phase.EVALUATE):
            found = self._conclude()
            if self._scored is None and not self.ends_training and self._is_due(iterations):
                self._check()
        return found

    def finish(self, on_step: Callable[[], None], is_over: Callable[[], bool] = lambda: False) -> list[Judged]:
        """Score the last policy of a training that ended without a proven policy.

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
            while self._scored is not None or self._checked != self._snapshot().iteration:
                if self._scored is None:
                    self._check()
                while not self._slots.idle and not is_over():
                    self._slots.step(idle)
                    on_step()
                if not self._group.all(self._slots.idle):  # of all processes: some may still have had time
                    self.cut_short = True
                    break
                found += self._conclude()
                if self.proven is not None:
                    break
        self._clock.share(*self._share)
        return found

    def _is_due(self, iterations: int) -> bool:
        """Tell whether it is time to score the next policy."""
        every = self._plan.request.eval_every
        return every is None or self._checked is None or iterations - self._checked >= every

    def _check(self) -> None:
        """Begin to check the newest policy."""
        saved = self._snapshot()
        self._checked = saved.iteration
        self._begin(self._load(saved), saved, self._verdict.check(self._episodes))

    def _begin(self, policy: Policy, saved: CheckpointSaved, what: NextPanel) -> None:
        """Begin the episodes of a panel."""
        panel = self._plan.panel
        if what.purpose == "proof":
            panel = panel.proof(self._plan.declared.run_id, what.proof, what.extension)
        self._scored = _Scored(policy, saved, what, panel)
        self._slots.begin([policy], share_of(panel, self._group.world.rank, self._group.world.size))

    def _conclude(self) -> list[Judged]:
        """Write the result of a panel that has ended, and begin what follows from it.

        Returns:
            The result; empty while episodes are running.
        """
        scored = self._scored
        if scored is None or not self._group.all(self._slots.idle):
            return []
        result = self._write(scored, *gather_outcomes(self._slots, self._group, scored.panel))
        self._scored = None
        self._verdict.feed(result)
        self._note(result)
        if (what := self._verdict.after(result, self._episodes)) is not None:
            self._begin(scored.policy, scored.saved, what)
        return [Judged(scored.saved, result)]

    def _note(self, result: PanelResult) -> None:
        """Keep what the training asks of a result, and how its episodes start."""
        self.last = result
        self.valid += result.invalid is None
        if result.proves:
            self.proven = self.proven or result
        if result.starts is not None:
            self._starts.setdefault((result.panel_id, str(result.changed_code)), result.starts)

    def _write(
        self, scored: _Scored, outcomes: Outcomes, invalid: str | None, starts: dict[str, str] | None
    ) -> PanelResult:
        """Write the result of a panel."""
        panel = scored.panel
        identity = PanelIdentity(self._plan.declared.panel_fields)
        panel_id = (identity.with_fresh_seeds(panel.seeds) if panel.fresh else identity).id
        if starts is not None:
            first = self._starts.get((panel_id, str(self._plan.changed_code)))
            invalid = invalid or different_start(changed_starts(first, starts))
        return self._writer.result(
            scored.saved,
            outcomes,
            scored.what,
            panel=panel.name,
            panel_id=panel_id,
            seeds=[seed for _, seed in panel.episodes],
            exactness=exactness(self._plan.env_cfg),
            invalid=invalid,
            changed_code=self._plan.changed_code,
            replayed=self._slots.replayed and self._slots.replayed * self._group.world.size,
            starts=starts,
        )
