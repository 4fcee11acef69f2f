"""``scripts/verify_ledger.py``: is every journal what its writer wrote?"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ledger_lab.errors import UserError
from ledger_lab.ledger import LedgerDamageError, find_journals
from ledger_lab.ledger.digest import Digest
from ledger_lab.ledger.digests import digest_journals
from ledger_lab.ledger.reader import assemble_ledger
from ledger_lab.terminal.console import make_console
from ledger_lab.terminal.flags import HelpFormatter, examples
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
            "Check every journal of a ledger from the first byte to the last, without the cache: the hash chain, the "
            "sums in its tallies, and that no two journals claim the same process, run or cohort. An unfinished last "
            "line, which a killed writer leaves, is reported and is not damage. The exit status is 0, or 1 if there is "
            "damage; the output names its file and line."
        ),
        epilog=examples("verify_ledger.py --log_root records/cartpole-cpu"),
        formatter_class=HelpFormatter,
    )
    parser.add_argument("--log_root", type=Path, default=Path("logs"), help="Root of the ledger (default: logs).")
    args = parser.parse_args(argv)
    journals = find_journals(args.log_root)
    if not journals:
        raise UserError(f"no journals under {args.log_root}: name the root of a ledger with --log_root")
    with ReadingProgress(make_console(sys.stderr), "verifying journals, MB") as progress:
        digests = digest_journals(journals, on_progress=progress.show)
    damaged = rows = torn = 0
    whole: dict[Path, Digest | LedgerDamageError] = {}
    for path, digest in digests.items():
        if isinstance(digest, LedgerDamageError):
            damaged += 1
            print(f"damaged: {digest}")
            continue
        whole[path] = digest
        rows += digest.rows
        if digest.torn_bytes:
            torn += 1
            print(f"torn: {path}:{digest.rows + 1}: the writer was stopped within this line; its row is not counted")
    try:
        assemble_ledger(args.log_root, whole)
    except LedgerDamageError as error:  # each journal is what its writer wrote, but they contradict each other
        damaged += 1
        print(f"damaged: {error}")
    print(f"{len(digests)} journals, {rows} rows, {torn} torn, {damaged} damaged")
    return 1 if damaged else 0
