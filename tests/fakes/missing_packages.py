"""Runs a script where some packages are missing.

Usage: ``python tests/fakes/missing_packages.py PACKAGE,PACKAGE,… SCRIPT [ARGUMENT …]``.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    for name in sys.argv[1].split(","):
        sys.modules[name] = None  # type: ignore[assignment]
    sys.argv = sys.argv[2:]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
