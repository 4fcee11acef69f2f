"""How long the processes of a run waited for each other, and whether their learners were equal, from their journals."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ledger_lab.ledger import AttemptStarted, JournalContent, LearnerHashed, Run
from ledger_lab.ledger.meters import TRAINING_PHASES, Phase
from ledger_lab.units import percent


@dataclass(frozen=True, kw_only=True)
class LearnerHash:
    """Hash of one process's learner at a comparison of all processes."""

    attempt: int
    iteration: int
    """Iterations completed."""
    sha256: str
    """Hash of its parameters, normalizers and optimizer."""


@dataclass(frozen=True, kw_only=True)
class RankSummary:
    """Figures of one process of a run, over all attempts."""

    rank: int
    host: str
    """Its machine in the last attempt."""
    seed: int | None
    """Seed of its training; ``None`` if not recorded."""
    train_s: float
    """Seconds in its training loop."""
    synchronize_s: float
    """Seconds of ``train_s`` spent in collectives; smallest on the process that the others wait for."""
    synchronize_share: float | None
    """``synchronize_s`` ÷ ``train_s``; ``None`` before any training."""
    learner: list[LearnerHash]
    """Hashes of its learner, one per comparison with the other processes."""


def summarize_ranks(run: Run) -> list[RankSummary]:
    """Summarize each process of a run.

    Args:
        run: The run.

    Returns:
        One summary per process, by rank; none for a run of one process.
    """
    if run.declared.world_size == 1:
        return []
    journals: dict[int, list[tuple[int, JournalContent]]] = {}
    starts: dict[int, AttemptStarted] = {}
    for attempt in run.attempts:
        for journal in attempt.ranks:
            for start in journal.of(AttemptStarted):
                starts[start.rank] = start
                journals.setdefault(start.rank, []).append((attempt.number, journal))
    return [_summary(starts[rank], journals[rank]) for rank in sorted(starts)]


def _summary(start: AttemptStarted, journals: list[tuple[int, JournalContent]]) -> RankSummary:
    """Summarize a process by its journals, with the numbers of their attempts."""
    spent_ns: Counter[str] = Counter()
    for _, journal in journals:
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
        learner=[
            LearnerHash(attempt=attempt, iteration=row.iteration, sha256=row.sha256)
            for attempt, journal in journals
            for row in journal.of(LearnerHashed)
        ],
    )


def rank_line(run_id: str, ranks: list[RankSummary]) -> list[str]:
    """Return in words how long the processes of a run waited for each other, and whether their learners were equal.

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
        f"({fastest.host})" + _equality(ranks)
    ]


def _equality(ranks: list[RankSummary]) -> str:
    """Return the result of comparing the processes' learners, at iterations that all processes recorded."""
    learners = [{(each.attempt, each.iteration): each.sha256 for each in rank.learner} for rank in ranks]
    moments = sorted(set.intersection(*map(set, learners)))
    if not moments:
        return ""
    for moment in moments:
        if len({learner[moment] for learner in learners}) > 1:
            return f"; their learners differ after iteration {moment[1]}"
    return (
        f"; their learners were equal to the last bit whenever compared ({len(moments)} ×), after iteration "
        f"{moments[-1][1]} with SHA-256 {learners[0][moments[-1]][:12]}…"
    )
