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
            "Check that no journal of a ledger was damaged or changed after it was written. Every journal is read "
            "completely. In each journal, the program checks the hash chain, and the type and range of every "
            "field. It also checks that every journal is in the directory of its "
            "own run, and that no journal is missing or cut short, by what later rows, console outputs and saved "
            "states show. It also finds two journals of one process, two directories of one run, and two different "
            "sizes of one cohort. The program prints the file "
            "and line of each damage. It also applies the rule of the verdict that each run declared, and prints every "
            "screening and confirmation whose needed successes differ from the rule. It prints contradictions: two "
            "bitwise scores of one checkpoint on the same seeds of one panel id that differ. The exit status is 0, or "
            "1 if there is damage, a wrong verdict or a contradiction. A contradiction between scores that were made "
            "by different code, missing telemetry and an unfinished last line are printed, but do not change the exit "
            "status. A process that is killed while it writes leaves an unfinished last line."
        ),
        terms=("journal", "ledger", "run", "cohort", "telemetry"),
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
    console = make_console()
    damaged = [*ledger.damage, *(each for run in ledger.runs for each in leftovers(run))]
    damaged += leftover_runs(request.log_root)
    for damage in damaged:
        console.print(f"damaged: {damage}", soft_wrap=True)
    journals = ledger.journals
    torn = [journal for journal in journals if journal.torn_bytes]
    for journal in torn:
        console.print(
            f"torn: {journal.path}:{journal.count + 1}: the writer was stopped within this line, or the rest has not "
            "arrived on this host; nothing from here on is counted",
            soft_wrap=True,
        )
    if left_out := without_telemetry(journals):
        first = left_out[0].path
        console.print(
            f"telemetry left out: of {len(left_out)} supervised processes; the first: {first}", soft_wrap=True
        )
    wrong = [f"wrong verdict: {line}" for line in broken_verdicts(ledger)]
    notes = [
        f"not checked: the verdict of run {run_id}, which follows a newer rule" for run_id in unknown_rules(ledger)
    ]
    for pair in contradictions(ledger):
        if pair.explained_by is None:
            wrong.append(f"contradiction: {pair.text}")
        else:
            notes.append(f"other code, other score: {pair.text}. Between them, these differ: {pair.explained_by}")
    for line in (*wrong, *notes):
        console.print(line, markup=False, soft_wrap=True)
    rows = sum(journal.count for journal in journals)
    console.print(
        f"{ledger.found} journals, {rows} rows, {len(torn)} torn, {len(damaged)} damaged, {len(wrong)} wrong scores"
    )
    return 1 if damaged or wrong else 0
