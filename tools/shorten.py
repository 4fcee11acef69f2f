"""Shorten the stand-alone evaluations of recorded runs to the scores of the proven checkpoint.

``python -m tools.shorten RECORD`` looks for runs in a folder of ``records/`` whose evaluations scored other
checkpoints, too. It rewrites all evaluations of such a run, because they name the hashes of one another. Each rewritten
journal is an excerpt with a hash chain of its own, without telemetry and hashes. Name the commit with the whole
journals in ``records/README.md``.
"""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path

from ledger_lab.errors import UserError
from ledger_lab.files import whole_file
from ledger_lab.ledger import PanelResult, read_journal, read_ledger
from ledger_lab.ledger.listing import COMPRESSED
from ledger_lab.reports import summarize_run
from tools.excerpt import excerpt_of


def shorten(record: Path) -> int:
    """Shorten the evaluations of all runs in a folder.

    Args:
        record: The folder.

    Returns:
        Bytes that the folder has lost.

    Raises:
        UserError: If an evaluation has no scores of a proven checkpoint, or if there are no runs; nothing is written
            then.
    """
    kept: dict[Path, str] = {}
    runs = read_ledger(record).runs
    if not runs:
        raise UserError(f"no runs below {record}")
    for run in runs:
        scored = [{row.checkpoint for row in journal.of(PanelResult)} for journal in run.evaluations]
        proven = summarize_run(run).proven
        if any(each and (proven is None or proven.path not in each) for each in scored):
            raise UserError(f"{run.directory} has an evaluation without scores of a proven checkpoint")
        if proven is not None and any(each - {proven.path} for each in scored):
            kept |= dict.fromkeys(run.directory.glob("journal-evaluation-*.jsonl*"), proven.path)
    lost = 0
    for path, checkpoint in kept.items():
        content = excerpt_of(read_journal(path), checkpoint)
        if path.suffix == COMPRESSED:
            content = gzip.compress(content, 9, mtime=0)
        lost += path.stat().st_size - len(content)
        with whole_file(path) as unfinished:
            unfinished.write_bytes(content)
    return lost


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Shorten evaluations to the scores of the proven checkpoint.")
    parser.add_argument("record", type=Path, help="Folder of a record.")
    try:
        print(f"{shorten(parser.parse_args().record) / 1e6:.2f} MB less")
    except UserError as error:
        parser.error(str(error))
