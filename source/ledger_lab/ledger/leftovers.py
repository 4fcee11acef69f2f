"""Files that a run, an attempt or an evaluation has left, although all of its journals are missing.

Rows reveal that a journal is missing only if they name it. The journals of the newest attempt are named by no row.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from ledger_lab.files import file_sha256
from ledger_lab.ledger.listing import LedgerDamageError, is_journal
from ledger_lab.ledger.rows import STATE_FILE, StateSaved, Status
from ledger_lab.ledger.runs import Run, attempt_number, evaluation_name

_CONSOLE = re.compile(r"console(?:-(\d{1,9}))?(?:-\d{1,9})?\.log")
"""Output of a process of an attempt."""
_EVALUATION = re.compile(r"(journal-evaluation-\w+)\.log")
"""Output of an evaluation."""


def leftover_runs(root: Path) -> Iterator[LedgerDamageError]:
    """Find outputs of runs that have no journal at all. Links are not followed.

    Args:
        root: The root of the ledger.

    Yields:
        What is wrong with the first output in each directory.
    """
    for directory, _, names in os.walk(root):
        outputs = sorted(name for name in names if _CONSOLE.fullmatch(name))
        if outputs and not any(map(is_journal, names)):
            path = Path(directory, outputs[0])
            yield LedgerDamageError(path, 1, "it is the console output of a run whose journals are missing")


def leftovers(run: Run) -> Iterator[LedgerDamageError]:
    """Find outputs and a state whose journals are missing, although other journals of their run exist.

    Args:
        run: The run. If one of its attempts still runs, its state is not checked, because it changes.

    Yields:
        What is wrong with each file.
    """
    names = sorted(os.listdir(run.directory))
    journals = [Path(name) for name in names if is_journal(name)]
    attempts, evaluations = {*map(attempt_number, journals)}, {*map(evaluation_name, journals)}
    for name in names:
        if (output := _CONSOLE.fullmatch(name)) and (number := int(output[1] or 1)) not in attempts:
            what = f"the console output of attempt {number}"
        elif (output := _EVALUATION.fullmatch(name)) and output[1] not in evaluations:
            what = "the console output of an evaluation"
        else:
            continue
        yield LedgerDamageError(run.directory / name, 1, f"it is {what}, whose journals are missing")
    state = run.directory / STATE_FILE
    if not state.is_file() or any(attempt.status is Status.RUNNING for attempt in run.attempts):
        return
    try:
        sha256 = file_sha256(state)
    except OSError as error:
        yield LedgerDamageError.unreadable(state, error)
        return
    if sha256 not in {row.sha256 for attempt in run.attempts for row in attempt.of(StateSaved)}:
        yield LedgerDamageError(state, 1, "no row names this state: the journals of its attempt are missing")
