"""Compares the final policies of two runs by what the ledger holds of them."""

from __future__ import annotations

from dataclasses import dataclass

from ledger_lab.ledger import CheckpointSaved, PanelResult, Run
from ledger_lab.ledger.libraries import LIBRARIES
from ledger_lab.panels import Comparison, ConfirmedComparison, PanelIdentity, compare_confirmed, compare_paired
from ledger_lab.panels.seeds import comparison_seeds
from ledger_lab.reports.facts import RunFacts
from ledger_lab.reports.summary import RunSummary


@dataclass(frozen=True, kw_only=True)
class FinalPolicies:
    """What the ledger says about the difference between the final policies of two runs.

    A run selects its final policy by its screenings. Screenings of two runs have the same seeds, but a test on these
    seeds would favour the run that screened more policies. So at most one of the following is known.
    """

    paired: Comparison | None
    """Comparison on fresh episodes that both policies played; ``None`` if ``evaluate.py --versus`` has not compared
    them."""
    confirmed: ConfirmedComparison | None
    """Comparison of the confirmations, if both policies are confirmed."""
    first: str
    """Checkpoint of the first policy."""
    second: str
    """Checkpoint of the second policy."""
    loadable: bool
    """Whether ``evaluate.py`` can load both policies; it cannot load those of other frameworks."""


def compare_final_policies(runs: tuple[Run, Run], summaries: tuple[RunSummary, RunSummary]) -> FinalPolicies | None:
    """Compare the final policies of two runs: the confirmed policy, else the policy of the last checkpoint.

    Args:
        runs: Two runs with the same panel.
        summaries: Their figures.

    Returns:
        The comparison; ``None`` if a run has no checkpoint.
    """
    first, second = (_final(run, summary) for run, summary in zip(runs, summaries, strict=True))
    if first is None or second is None:
        return None
    hashes = first.sha256, second.sha256
    ours, theirs = (_common(run, own.sha256, hashes) for run, own in zip(runs, (first, second), strict=True))
    paired = confirmed = None
    if ours is not None and theirs is not None and ours.outcomes.cell == theirs.outcomes.cell:
        paired = compare_paired(ours.outcomes.success, theirs.outcomes.success)
    else:
        proofs = ((run, RunFacts(run).proof) for run in runs)
        shares = [proof.share(run.declared.target_success) for run, proof in proofs if proof is not None]
        if len(shares) == len(runs):
            confirmed = compare_confirmed(*shares)
    return FinalPolicies(
        paired=paired,
        confirmed=confirmed,
        first=first.path,
        second=second.path,
        loadable=all(run.declared.rl_library in LIBRARIES for run in runs),
    )


def _final(run: Run, summary: RunSummary) -> CheckpointSaved | None:
    """Return the checkpoint of a run that ``evaluate.py --versus`` takes, too."""
    saved, confirmed = run.checkpoints, summary.confirmed
    last = saved[-1] if saved else None
    return last if confirmed is None else next((each for each in saved if each.path == confirmed.path), last)


def _common(run: Run, own: str, hashes: tuple[str, str]) -> PanelResult | None:
    """Return the first score of a policy on the fresh episodes of a comparison, in the simulation of its run.

    Args:
        run: The run of the policy.
        own: SHA-256 of its checkpoint.
        hashes: SHA-256 of both checkpoints.
    """
    declared = PanelIdentity(run.declared.panel_fields)
    for row in run.results:
        if row.purpose != "evaluation" or row.checkpoint_sha256 != own or row.invalid is not None:
            continue
        seeds = list(comparison_seeds(*hashes, row.outcomes.episodes))
        # Other panels and simulations have other ids.
        if row.outcomes.seed == seeds and row.panel_id == declared.with_fresh_seeds(seeds).id:
            return row
    return None
