"""``ledgerlab`` and ``python -m ledger_lab``: every command of LedgerLab in one program."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import NoReturn

import ledger_lab
from ledger_lab.cli.programs import known_commands, run, what_it_does
from ledger_lab.errors import nearest


def main() -> NoReturn:
    """Run the command that the command line names, and exit with its status."""
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    commands = known_commands()
    if name in ("-h", "--help"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `ledgerlab --help | head` ends quietly
        width = max(map(len, commands))
        lines = [f"  {each.ljust(width)}  {what_it_does(each)}" for each in commands]
        print("usage: ledgerlab COMMAND [arguments]\n\n" + "\n".join(lines))
        print("\nledgerlab COMMAND --help explains a command.")
        sys.exit(0)
    if name == "--version":
        print(ledger_lab.__version__)
        sys.exit(0)
    if name not in commands:
        print(f"error: unknown command {name!r}: {nearest(name, list(commands))}", file=sys.stderr)
        sys.exit(2)
    # torchrun, Nsight Systems and studies start the file again that they find here, or its neighbour.
    sys.argv[:2] = [str(Path(__file__).parent / "cli" / "scripts" / f"{name}.py")]
    run(name)


if __name__ == "__main__":
    main()
