"""What the processes of a run waited for each other, from their own journals."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ledger_lab.ledger import AttemptStarted, JournalContent, Run
from ledger_lab.meters import TRAINING_PHASES, Phase
from ledger_lab.reports.format import percent


@dataclass(frozen=True, kw_only=True)
class RankSummary:
    """What one process of a run did, in all attempts."""

    rank: int
    host: str
    """Its machine in the last attempt."""
    seed: int | None
    """Seed of its training; ``None`` where nobody said."""
    train_s: float
    """Seconds in its training loop."""
    synchronize_s: float
    """Seconds of that in collectives: least on the process that the others wait for."""
    synchronize_share: float | None
    """``synchronize_s`` ÷ ``train_s``; ``None`` before any training."""


def summarize_ranks(run: Run) -> list[RankSummary]:
    """Work out what each process of a run did.

    Args:
        run: The run.

    Returns:
        One summary per process, by rank; none for a run of one process.
    """
    if run.declared.world_size == 1:
        return []
    journals: dict[int, list[JournalContent]] = {}
    starts: dict[int, AttemptStarted] = {}
    for attempt in run.attempts:
        for journal in attempt.ranks:
            for start in journal.of(AttemptStarted):
                starts[start.rank] = start
                journals.setdefault(start.rank, []).append(journal)
    return [_summary(starts[rank], journals[rank]) for rank in sorted(starts)]


def _summary(start: AttemptStarted, journals: list[JournalContent]) -> RankSummary:
    """Summarize a process."""
    spent_ns: Counter[str] = Counter()
    for journal in journals:
        spent_ns.update(journal.windows.phase_ns)
    train_s = sum(spent_ns[phase] for phase in TRAINING_PHASES) / 1e9
    synchronize_s = spent_ns[Phase.SYNCHRONIZE] / 1e9
    return RankSummary(
        rank=start.rank,
        host=start.host,
        seed=start.seed,
        train_s=train_s,
        synchronize_s=synchronize_s,
        synchronize_share=synchronize_s / train_s if train_s else None,
    )


def rank_line(run_id: str, ranks: list[RankSummary]) -> list[str]:
    """Return how long the processes of a run waited for each other, where there are several.

    Args:
        run_id: The run.
        ranks: Its processes.
    """
    trained = [(rank.synchronize_share, rank) for rank in ranks if rank.synchronize_share is not None]
    if not trained:
        return []
    least, slowest = min(trained, key=lambda pair: pair[0])
    most, fastest = max(trained, key=lambda pair: pair[0])
    return [
        f"{run_id} ran in {len(ranks)} processes: synchronize {percent(least, 0)} of the training loop on rank "
        f"{slowest.rank} ({slowest.host}), which the others wait for, to {percent(most, 0)} on rank {fastest.rank} "
        f"({fastest.host})"
    ]
