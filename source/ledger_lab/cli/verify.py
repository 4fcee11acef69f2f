"""``scripts/verify_ledger.py``: checks that every journal is unchanged, and that its scores agree with each other."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ledger_lab.errors import UserError
from ledger_lab.ledger import read_ledger
from ledger_lab.ledger.leftovers import leftover_runs, leftovers
from ledger_lab.ledger.runs import without_telemetry
from ledger_lab.reports.audit import broken_verdicts, contradictions, unknown_rules
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.progress import ReadingProgress
from ledger_lab.reports.terminal.request import Program, Request, log_root_flag


@dataclass(frozen=True, kw_only=True)
class VerifyRequest(Request):
    """What a user asks of ``scripts/verify_ledger.py``: each field is a flag of the same name."""

    program = Program(
        name="verify_ledger.py",
        description=(
            "Check that no journal of a ledger was damaged or changed after it was written. The program checks the "
            "hash chain and every field, and that no journal is missing, cut short or doubled. It prints the file and "
            "line of each damage. It also prints checks and proofs that differ from the rule that their run declared, "
            "and contradictions: bitwise scores that differ, although checkpoint, panel id and seeds are the same. The "
            "exit status is 1 if there is damage, a wrong verdict or a contradiction, else 0. It stays 0 if the code "
            "of contradicting scores differs, if telemetry is missing, or if a killed process left its last line "
            "unfinished."
        ),
        examples=("verify_ledger.py --log_root records/cartpole-cpu",),
    )

    log_root: Path = log_root_flag()


def verify_ledger(argv: Sequence[str]) -> int:
    """Check every journal under a root.

    Args:
        argv: Command line without the program's name.

    Returns:
        0 if no journal is damaged, and no score contradicts another one or the rule of its run; else 1.

    Raises:
        UserError: If there is nothing to check.
        LedgerDamageError: If nothing can be read.
    """
    request = VerifyRequest.parse(argv)
    with ReadingProgress(make_console(sys.stderr), "verifying journals, MB") as progress:
        ledger = read_ledger(request.log_root, on_progress=progress.show, tolerate_damage=True)
    if not ledger.found:
        if ledger.damage:
            raise ledger.damage[0]  # nothing could be read
        raise UserError(f"no journals under {request.log_root}: name the root of a ledger with --log_root")
    damaged = [*ledger.damage, *(each for run in ledger.runs for each in leftovers(run))]
    damaged += leftover_runs(request.log_root)
    torn = [journal for journal in ledger.journals if journal.torn_bytes]
    notes = [
        f"torn: {journal.path}:{journal.count + 1}: the writer was stopped within this line, or the rest has not "
        "arrived on this host; nothing from here on is counted"
        for journal in torn
    ]
    if left_out := without_telemetry(ledger.journals):
        notes.append(f"telemetry left out: of {len(left_out)} supervised processes; the first: {left_out[0].path}")
    notes += [f"not checked: the verdict of run {each}, which follows a newer rule" for each in unknown_rules(ledger)]
    wrong = [f"wrong verdict: {line}" for line in broken_verdicts(ledger)]
    for pair in contradictions(ledger):
        if pair.explained_by is None:
            wrong.append(f"contradiction: {pair.text}")
        else:
            notes.append(f"other code, other score: {pair.text}. Between them, these differ: {pair.explained_by}")
    rows = sum(journal.count for journal in ledger.journals)
    total = f"{ledger.found} journals, {rows} rows, {len(torn)} torn, {len(damaged)} damaged, {len(wrong)} wrong scores"
    for line in (*(f"damaged: {each}" for each in damaged), *wrong, *notes, total):
        make_console().print(line, markup=False, soft_wrap=True)
    return 1 if damaged or wrong else 0
