"""Compares scores with those that a run recorded on the same panel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ledger_lab.ledger import Outcomes, PanelResult, Run
from ledger_lab.ledger.meters.host import hardware_facts, package_versions
from ledger_lab.panels.starts import changed_starts


def compared_with_record(result: PanelResult, run: Run, code: Mapping[str, str]) -> tuple[PanelResult, str | None]:
    """Compare a score with the recorded scores of its run on the same panel.

    If the simulation repeats episodes bit for bit, the episodes of every checkpoint must start as they did in the
    training, and those of the same checkpoint must be equal. This process has another clock, another hash seed, other
    numbers of environments and threads, and no curriculum. So a difference shows that episodes depend on more than
    their seeds, unless code, package versions or the processor differ, too.

    Args:
        result: The score.
        run: The run of its checkpoint.
        code: Hashes of the code that the task runs, by top-level package or module.

    Returns:
        The score, which is invalid if nothing explains a difference; and a line that says what explains a difference,
        ``None`` if there is none.
    """
    if (found := next(_differences(result, run), None)) is None:
        return result, None
    if causes := list(_other_circumstances(run, code)):
        return result, f"{found}; this may be because other things differ, too: {', '.join(causes)}"
    reason = f"episodes depend on more than their seeds: {found}"
    return replace(result, invalid=result.invalid or reason), None


def _differences(result: PanelResult, run: Run) -> Iterator[str]:
    """Yield how a score differs from the recorded scores on the same panel."""
    if result.exactness != "bitwise":
        return
    same = ("panel_id", "exactness", "device", "changed_code")
    for row in (row for attempt in run.attempts for row in attempt.of(PanelResult)):
        if row.invalid is not None or any(getattr(row, name) != getattr(result, name) for name in same):
            continue
        for name in changed_starts(row.starts, result.starts):
            yield (
                f"the episodes of {result.checkpoint} start differently from those of {row.checkpoint} in the "
                f"training, with the same seeds: {name} differs"
            )
        if row.starts is None or row.checkpoint_sha256 != result.checkpoint_sha256:
            continue  # its fingerprints contain rewards, or it has other episodes
        if others := _episodes(row.outcomes, result.outcomes):
            yield (
                f"{len(others)} of {result.outcomes.episodes} episodes of {result.checkpoint} differ from those that "
                f"the training recorded; the first is {others[0]}"
            )


def _episodes(then: Outcomes, now: Outcomes) -> list[str]:
    """Return the episodes that differ."""
    recorded = dict(zip(zip(then.cell, then.seed, strict=True), then.fingerprint, strict=True))
    return [
        f"seed {seed} of cell {cell!r}"
        for cell, seed, fingerprint in zip(now.cell, now.seed, now.fingerprint, strict=True)
        if recorded.get((cell, seed), fingerprint) != fingerprint
    ]


def _other_circumstances(run: Run, code: Mapping[str, str]) -> Iterator[str]:
    """Yield what differs between a run and this process and can change episodes."""
    declared = run.declared
    yield from (f"the source of {name}" for name, each in code.items() if declared.code_sha256.get(name) != each)
    now = package_versions()
    yield from (f"the version of {name}" for name in now if declared.versions.get(name) != now[name])
    if declared.hardware.get("cpu") != hardware_facts().get("cpu"):
        yield "the processor"
