"""Files of measured figures, with the command and the versions that produced them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ledger_lab.ledger.meters.host import package_versions
from ledger_lab.ledger.redaction import Redactor
from ledger_lab.reports.terminal.console import write_output


def write_findings(path: Path | None, **findings: Any) -> None:  # noqa: ANN401 - plain JSON values
    """Write figures with the command, without its secrets, and the versions that produced them.

    Args:
        path: The file; ``None`` writes nothing.
        findings: Figures by their names.

    Raises:
        UserError: If the file can't be written.
    """
    if path is not None:
        content = {
            "versions": package_versions(),
            "command": Redactor().value(["python", *sys.orig_argv[1:]]),
            **findings,
        }
        write_output(str(path), json.dumps(content, indent=2) + "\n")
