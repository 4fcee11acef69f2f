"""``scripts/verify_ledger.py``: is every journal what its writer wrote?"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ledger_lab.errors import UserError
from ledger_lab.ledger import LedgerDamageError, find_journals
from ledger_lab.ledger.digests import digest_journals
from ledger_lab.ledger.reader import assemble_ledger
from ledger_lab.terminal.console import make_console
from ledger_lab.terminal.progress import ReadingProgress


def verify_ledger(argv: Sequence[str]) -> int:
    """Check every journal under a root.

    Args:
        argv: Command line without the program's name.

    Returns:
        0 if all are whole, 1 if any is damaged.

    Raises:
        UserError: If there is nothing to check.
    """
    parser = argparse.ArgumentParser(
        description=(
            "Verify every journal under a root, whatever was verified before: the hash chain, from the first byte to "
            "the last; the type and range of each field; that tallies equal the sums of their rows; that all journals "
            "of a run belong to it; that none is missing or cut, as far as other journals tell; and that no two claim "
            "the same process, run or cohort. A last line that a killed writer left unfinished is reported and "
            "tolerated. Anything else is damage, and is told with file and line. Exit status 0 or 1."
        )
    )
    parser.add_argument("--log_root", type=Path, default=Path("logs"), help="Root of the ledger (default: logs).")
    args = parser.parse_args(argv)
    journals = find_journals(args.log_root)
    if not journals:
        raise UserError(f"no journals under {args.log_root}: name the root of a ledger with --log_root")
    with ReadingProgress(make_console(sys.stderr), "verifying journals, MB") as progress:
        digests = digest_journals(journals, on_progress=progress.show)
    damage = assemble_ledger(args.log_root, digests).damage
    for each in damage:
        print(f"damaged: {each}")
    rows = torn = 0
    for path, digest in digests.items():
        if isinstance(digest, LedgerDamageError):
            continue
        rows += digest.rows
        if digest.torn_bytes:
            torn += 1
            print(f"torn: {path}:{digest.rows + 1}: the writer was stopped within this line; its row is not counted")
    print(f"{len(digests)} journals, {rows} rows, {torn} torn, {len(damage)} damaged")
    return 1 if damage else 0
