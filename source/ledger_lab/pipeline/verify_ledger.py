"""``scripts/verify_ledger.py``: is every journal what its writer wrote?"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from ledger_lab.errors import UserError
from ledger_lab.ledger import LedgerDamageError, read_journal
from ledger_lab.ledger.reader import find_journals


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
            "Verify the hash chain of every journal. A last line that a killed writer left unfinished is reported and "
            "tolerated; anything else is damage, told with file and line. Exit status 0 or 1."
        )
    )
    parser.add_argument("--log_root", type=Path, default=Path("logs"), help="Root of the ledger (default: logs).")
    args = parser.parse_args(argv)
    journals = find_journals(args.log_root)
    if not journals:
        raise UserError(f"no journals under {args.log_root}: name the root of a ledger with --log_root")
    damaged = rows = torn = 0
    for path in journals:
        try:
            content = read_journal(path)
        except LedgerDamageError as error:
            damaged += 1
            print(f"damaged: {error}")
            continue
        rows += len(content.rows)
        if content.torn_bytes:
            torn += 1
            print(
                f"torn: {path}:{len(content.rows) + 1}: the writer was stopped within this line; its row is not counted"
            )
    print(f"{len(journals)} journals, {rows} rows, {torn} torn, {damaged} damaged")
    return 1 if damaged else 0
