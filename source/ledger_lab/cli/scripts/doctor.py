"""Check whether this machine is fit for trainings, also if packages are missing or broken."""

import sys
from pathlib import Path

if sys.version_info < (3, 12):  # noqa: UP036 - the other modules do not even compile
    sys.exit(f"fail  Python        {sys.version.split()[0]}: Isaac Lab 3.0 needs Python 3.12 → use ./isaaclab.sh -p")
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))  # LedgerLab may not be installed

from ledger_lab.cli.probes import broken_installation
from ledger_lab.cli.programs import run

if __name__ == "__main__":
    try:
        run("doctor")
    except ImportError as error:
        print(broken_installation(error))
        sys.exit(1)
