"""Shorten the stand-alone evaluations of recorded runs to the scores of the confirmed checkpoint.

``python -m tools.shorten RECORD`` rewrites the evaluations of all runs in a folder of ``records/``. Each rewritten
journal is an excerpt with a hash chain of its own, and names no hashes of other journals. Name the commit with the
whole journals in ``records/README.md``.
"""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path

from ledger_lab.errors import UserError
from ledger_lab.ledger import PanelResult, read_journal, read_ledger
from ledger_lab.ledger.excerpt import excerpt_of
from ledger_lab.ledger.listing import COMPRESSED
from ledger_lab.reports import summarize_run


def shorten(record: Path) -> int:
    """Shorten the evaluations of all runs in a folder.

    Args:
        record: The folder.

    Returns:
        Bytes that the folder has lost.

    Raises:
        UserError: If a run has evaluations, but no confirmed checkpoint; nothing is written then.
    """
    kept: dict[Path, str] = {}
    for run in read_ledger(record, use_cache=False).runs:
        scored = {row.checkpoint for journal in run.evaluations for row in journal.of(PanelResult)}
        confirmed = summarize_run(run).confirmed
        if confirmed is None and scored:
            raise UserError(f"{run.directory} has evaluations, but no confirmed checkpoint whose scores could stay")
        if confirmed is not None and scored - {confirmed.path}:
            kept |= dict.fromkeys(run.directory.glob("journal-evaluation-*.jsonl*"), confirmed.path)
    lost = 0
    for path, checkpoint in kept.items():
        content = excerpt_of(read_journal(path), checkpoint)
        if path.suffix == COMPRESSED:
            content = gzip.compress(content, 9, mtime=0)
        lost += path.stat().st_size - len(content)
        path.write_bytes(content)
    return lost


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Shorten evaluations to the scores of the confirmed checkpoint.")
    parser.add_argument("record", type=Path, help="Folder of a record.")
    print(f"{shorten(parser.parse_args().record) / 1e6:.2f} MB less")
