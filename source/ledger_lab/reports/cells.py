"""Figures of runs and cohorts as table cells for the terminal and the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ledger_lab.ledger import Status
from ledger_lab.ledger.costs import FEWEST_RUNS
from ledger_lab.ledger.libraries import replays
from ledger_lab.reports.columns import TableCell
from ledger_lab.units import MISSING, counted, duration, energy, gigabytes, percent, quantity, target_share, usd

if TYPE_CHECKING:
    from ledger_lab.reports.checkpoints import CheckpointSummary
    from ledger_lab.reports.cohort_summary import CohortSummary
    from ledger_lab.reports.summary import RunSummary

NO_INTERVAL = f"no interval below {FEWEST_RUNS} runs"
"""Shown in place of the interval of the cost per target-reaching checkpoint."""


def run_cell(run: RunSummary) -> TableCell:
    """Return a run's id, its cohort and its seed."""
    seed = f"seed {run.seed}"
    return TableCell(run.run_id, details=(f"{run.cohort}, {seed}" if run.cohort else seed,))


def library_cell(run: RunSummary) -> str:
    """Return the library that trained the policy, and the algorithm if it is not PPO."""
    return f"{run.rl_library} · {run.algorithm}" if replays(run.algorithm) else run.rl_library


def status_cell(run: RunSummary) -> TableCell:
    """Return how a run ended, with its reason."""
    reasons = [
        run.reason,
        run.invalid_reason and f"invalid: {run.invalid_reason}",
        run.changed_code and f"with changed code: {run.changed_code}",
        shortfall(run),
    ]
    details = tuple(reason for reason in reasons if reason)
    if run.status == Status.TARGET_REACHED:
        return TableCell("target reached", details=details, sign="✓", style="good")
    if run.status == Status.COMPLETED:
        return TableCell("completed, short of target", details=details, sign="○", style="short")
    if run.status == Status.LIMIT_REACHED:
        return TableCell("limit reached", details=details, sign="○", style="short")
    if run.status == Status.RUNNING:
        return TableCell("running", details=details, sign="…", style="running")
    return TableCell(run.status.replace("_", " "), details=details, sign="✕", style="bad")


def shortfall(run: RunSummary) -> str | None:
    """Return why a completed run is short of its target, and what to do next; ``None`` for other runs.

    Args:
        run: The run.
    """
    if run.status != Status.COMPLETED or run.target_reached:
        return None
    target, best = target_share(run.target_success), run.best_try
    if best is None:
        return f"no policy was scored during the training, so {target} is not proven → score policies while training"
    share = best.successes / best.episodes
    had, needed = f"{best.checkpoint} succeeded in {best.successes} of {best.episodes}", f"{best.needed} were needed"
    if best.purpose == "confirmation":
        had = f"in the best confirmation, {had} fresh episodes ({percent(share)}), and {needed} to prove {target}"
    elif best.successes >= best.needed:
        return f"{had} screened episodes ({percent(share)}), which proves nothing → confirm it on fresh seeds"
    else:
        had = f"no checkpoint passed a screening; at best, {had} ({percent(share)}), and {needed}"
    if share < run.target_success:
        return f"{had} → train longer (--max_iterations), or continue from this checkpoint (--checkpoint)"
    return (
        f"{had} → continue from this checkpoint (--checkpoint), or score more episodes: a larger panel can prove a "
        "rate closer to the target"
    )


def success_cell(run: RunSummary) -> TableCell:
    """Return the held-out success with its interval and its counts."""
    if run.heldout_interval is None:
        return TableCell(MISSING)
    low, high = run.heldout_interval
    counts = f"{run.heldout_successes}/{run.heldout_episodes}"
    return TableCell(percent(run.heldout_success), f"[{100 * low:.1f}, {100 * high:.1f}]", (counts,))


def noise_cell(run: RunSummary) -> TableCell:
    """Return the gradient noise scale in the last third of a run, with its interval."""
    if not run.gradient_noise:
        return TableCell(MISSING)
    last = run.gradient_noise[-1]
    value = "unlimited" if last.scale is None else quantity(last.scale)
    if last.interval is None:
        return TableCell(value)
    low, high = last.interval
    return TableCell(value, f"[{quantity(low)}, {'unlimited' if high is None else quantity(high)}]")


def time_to_target_cell(run: RunSummary) -> str:
    """Return the time to target; for a run that missed the target, its whole time as a lower bound."""
    return duration(run.wall_to_target_s) if run.target_reached else f"> {duration(run.wall_s)}"


def cost_cell(run: RunSummary) -> TableCell:
    """Return the cost of a run; if another price was requested, also the cost at the declared price."""
    declared = run.declared_usd not in (None, run.billable_usd)
    return TableCell(
        _priced(run.billable_usd, energy_is_unknown=run.usd_per_hour is not None),
        details=(f"declared: {usd(run.declared_usd)}",) if declared else (),
    )


def evaluation_afterwards_cell(run: RunSummary) -> TableCell:
    """Return the time of stand-alone evaluations, and its cost."""
    if run.evaluation_afterwards_s is None:
        return TableCell(MISSING)
    cost = _priced(run.evaluation_afterwards_usd, energy_is_unknown=run.usd_per_hour is not None)
    return TableCell(duration(run.evaluation_afterwards_s), cost)


def cohort_evaluation_afterwards(cohort: CohortSummary) -> str | None:
    """Return time and cost of stand-alone evaluations of all runs in words; ``None`` if there was none."""
    if cohort.evaluation_afterwards_s is None:
        return None
    priced = cohort.spend_usd is not None or cohort.runs_of_unknown_energy > 0
    cost = _priced(cohort.evaluation_afterwards_usd, energy_is_unknown=priced)
    return f"evaluation afterwards: {duration(cohort.evaluation_afterwards_s)}, {cost}"


def peak_memory_cell(run: RunSummary | CheckpointSummary) -> TableCell:
    """Return the peak memory of the accelerator; without an accelerator, the peak memory of the host."""
    on_gpu = run.peak_gpu_memory_gb is not None
    peak = run.peak_gpu_memory_gb if on_gpu else run.peak_host_memory_gb
    return TableCell(MISSING) if peak is None else TableCell(gigabytes(peak), "GPU" if on_gpu else "host")


def replay_memory_cell(run: RunSummary) -> str:
    """Return the memory of the replay memory; small ones in MB."""
    held_gb = run.replay_memory_gb
    return gigabytes(held_gb) if held_gb is None or held_gb >= 0.1 else f"{1e3 * held_gb:.3g} MB"


def energy_cell(run: RunSummary) -> str:
    """Return the energy; ``~`` marks a sum integrated from samples of the power."""
    return ("~" if run.energy_source == "power" else "") + energy(run.energy_kwh)


def instance_cell(run: RunSummary) -> TableCell:
    """Return the entry of the price book, and its price."""
    return TableCell(run.instance, details=() if run.usd_per_hour is None else (f"{usd(run.usd_per_hour)} per hour",))


def cohort_cell(cohort: CohortSummary) -> TableCell:
    """Return a cohort's name and its task."""
    return TableCell(cohort.cohort or "in no cohort", details=(cohort.task,))


def made_cell(cohort: CohortSummary) -> TableCell:
    """Return how many runs were made, how many earlier ones they repeat, and how many declared ones are missing."""
    made = f"{cohort.runs}" if cohort.declared_runs is None else f"{cohort.runs} of {cohort.declared_runs}"
    missing = f"{cohort.missing_runs} missing" if cohort.missing_runs else ""
    repeated = f"+ {cohort.repeated_runs} repeated" if cohort.repeated_runs else ""
    differs = f"they differ in {', '.join(cohort.differs_in)}" if cohort.differs_in else ""
    return TableCell(made, details=tuple(filter(None, (repeated, missing, differs))), style="bad" if missing else "")


def spend_cell(cohort: CohortSummary) -> TableCell:
    """Return the cost of all runs together; apart from it, that of earlier runs and of evaluations afterwards."""
    spend = _priced(cohort.spend_usd, energy_is_unknown=cohort.runs_of_unknown_energy > 0)
    apart = (before_words(cohort), cohort_evaluation_afterwards(cohort))
    return TableCell(spend, details=tuple(words for words in apart if words))


def before_words(cohort: CohortSummary, checkpoints: int = 1) -> str:
    """Return the cost of the earlier runs in words, such as "+ $0.25 before"; empty if there are none.

    Args:
        cohort: The cohort.
        checkpoints: Number of checkpoints that share this cost.
    """
    if not cohort.begun_runs:
        return ""
    amount = "unpriced" if cohort.before_usd is None else usd(cohort.before_usd / checkpoints)
    return f"+ {amount} before"


def cost_per_checkpoint_cell(cohort: CohortSummary) -> TableCell:
    """Return the cost per target-reaching checkpoint with its interval, or why there is none."""
    if cohort.usd_per_target_reaching_checkpoint is not None:
        interval = cohort.usd_per_target_reaching_checkpoint_interval
        if interval is not None:
            details: tuple[str, ...] = (f"[{usd(interval[0])}, {usd(interval[1])}] 95 %",)
        else:
            details = (NO_INTERVAL,) if cohort.runs > 1 else ()
        if before := before_words(cohort, cohort.target_reaching_runs):
            details = (before, *details)
        return TableCell(usd(cohort.usd_per_target_reaching_checkpoint), details=details)
    if cohort.spend_usd is not None:
        return TableCell(f"undefined, ≥ {usd(cohort.spend_usd)} spent")
    if unknown := cohort.runs_of_unknown_energy:
        reason = f"the energy of {counted(unknown, 'run')} is unknown: set power_w for your own hardware"
    else:
        reason = "name an --instance or give --usd_per_hour"
    return TableCell("unpriced", details=(reason,))


def median_time_cell(cohort: CohortSummary) -> str:
    """Return the median time to target; “≈” marks an estimate, “>” a lower bound."""
    if cohort.median_wall_to_target_s is None:
        return f"> {duration(cohort.median_wall_to_target_exceeds_s)}"
    return ("" if cohort.median_wall_to_target_is_exact else "≈ ") + duration(cohort.median_wall_to_target_s)


def mean_time_cell(cohort: CohortSummary) -> TableCell:
    """Return the restricted mean time to target, and the time that it is restricted to."""
    return TableCell(
        duration(cohort.restricted_mean_wall_to_target_s),
        details=(f"up to {duration(cohort.restricted_mean_limit_s)}",),
    )


def false_pass_cell(cohort: CohortSummary) -> str:
    """Return the highest probability that at least one run confirms a policy below the target."""
    return f"≤ {percent(cohort.false_pass_bound)}"


def _priced(amount: float | None, *, energy_is_unknown: bool) -> str:
    """Return an amount, or why there is none: no price, or unknown energy that is paid on top."""
    if amount is not None:
        return usd(amount)
    return "energy unknown" if energy_is_unknown else "unpriced"
