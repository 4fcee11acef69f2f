"""The error budget that a run leaves to the runs that begin with its checkpoints.

A training can be divided into runs: one ends short of its target, and another begins with its checkpoint. If each run
had a new error budget, a policy below the target would pass sooner or later. So a run begins with what the run before
it has left. The probability that *any* run of such a chain passes a checkpoint below its target is then at most the
error budget of the first run: the budget before a false pass, and 1 after it, is a supermartingale over the whole
chain, because all seeds of a proof are fresh, whatever happened before (see
:class:`~ledger_lab.panels.verdict.VerdictRule`).

**The target or the panel differs.** What is left is carried over all the same. Each proof tests a claim of its
own, and the proof does not need equal claims. With a new budget for each new claim, one more seed in the panel or a
slightly lower target would be enough for a new budget.

**The run before has proven its target.** A proof that passes returns its stake. If the pass is true, nothing was
lost. If it is false, the chain has its false pass, and the bound counts it already. So a run that passed with its first
proof leaves its whole error budget to the next stage.

**Several runs begin with one run, or that run continues after another has begun.** Each of them begins with what that
run has left when they are declared. The bound holds for each path from a first run to a last one, not for all runs of
the tree together: every branch is a further chance. We do not divide what is left among them. Nobody knows how many
will follow, and runs of a cohort would have different budgets, by their order. The report of a cohort states the
probability for all its runs together.

``python -m benchmarks error_budget`` simulates chains and branches.

**Rows are missing.** The journals of a pretrained policy contain the proof that passed, and no other. Only rows
that are there count, so such a policy leaves a whole error budget. The bound then holds for the chain from there on:
the policy was fixed before any seed of the chain was drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ledger_lab.ledger import PanelResult, Run
from ledger_lab.panels.verdict import Verdict, VerdictRule


@dataclass(frozen=True)
class LeftBudget:
    """What the proofs of a run leave of its error budget."""

    budget: float
    """Error budget for a run that begins with a checkpoint of the run, in (0, 1)."""
    panels: int
    """Panels of proofs that were counted."""


def left_budget(run: Run, panels: int | None = None) -> LeftBudget:
    """Return what the proofs of a run leave of its error budget.

    Args:
        run: The run.
        panels: How many panels of its proofs count; ``None`` for all.

    Raises:
        ValueError: If the run's rule of the verdict is unknown.
    """
    counted = _proof_panels(run)[:panels]
    return _left(_rule_of(run), counted)


def left_budget_as_pretrained(run: Run, checkpoint_sha256: str) -> LeftBudget | None:
    """Return what a run leaves if only the proof of one checkpoint counts, as in a pretrained policy's journals.

    Args:
        run: The run.
        checkpoint_sha256: SHA-256 of the checkpoint.

    Returns:
        The error budget; ``None`` if the run has not proven this checkpoint.

    Raises:
        ValueError: If the run's rule of the verdict is unknown.
    """
    rule, found = _rule_of(run), _proof_panels(run)
    own = [row for row in found if row.checkpoint_sha256 == checkpoint_sha256]
    if not own or not Verdict(rule, found[: found.index(own[-1]) + 1]).proven:
        return None
    return _left(rule, own)


def _left(rule: VerdictRule, counted: Sequence[PanelResult]) -> LeftBudget:
    """Return what some panels of proofs leave."""
    return LeftBudget(Verdict(rule, counted).standing.after_proof.item(), len(counted))


def _rule_of(run: Run) -> VerdictRule:
    """Return the rule of the verdict that a run declared."""
    declared = run.declared
    return VerdictRule.of_version(declared.verdict_rule, declared.target_success, declared.error_budget)


def _proof_panels(run: Run) -> list[PanelResult]:
    """Return the panels of a run's proofs, in order."""
    found = [row for attempt in run.attempts for row in attempt.of(PanelResult) if row.purpose == "proof"]
    return sorted(found, key=lambda row: (row.proof or 0, row.extension))
