"""Check whether this machine is fit for trainings, also if packages are missing or broken."""

import sys
from pathlib import Path

if sys.version_info < (3, 12):  # noqa: UP036 - the other modules do not even compile
    sys.exit(f"fail  Python        {sys.version.split()[0]}: Isaac Lab 3.0 needs Python 3.12 → use ./isaaclab.sh -p")
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))  # LedgerLab may not be installed

try:
    from ledger_lab.cli.doctor.program import examine_machine
except ImportError as error:
    from ledger_lab.cli.doctor.packages import broken_installation

    print("\n".join(broken_installation(error)))
    sys.exit(1)

if __name__ == "__main__":
    sys.exit(examine_machine(sys.argv[1:]))
