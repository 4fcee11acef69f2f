"""Asks commands in one process where some packages are missing, and prints what they answer, as JSON.

Usage: ``python tests/fakes/answers.py PACKAGE,PACKAGE,…``, with a JSON list of command lines on standard input.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys

from ledger_lab.cli import programs
from ledger_lab.errors import UserError


def main() -> None:
    """Ask them."""
    for name in sys.argv[1].split(","):
        sys.modules[name] = None  # type: ignore[assignment]
    answers = []
    for name, *arguments in json.load(sys.stdin):
        sys.argv = [f"scripts/{name}.py", *arguments]
        out, error = io.StringIO(), None
        with contextlib.redirect_stdout(out):
            try:
                programs._run(name, arguments)
            except UserError as refused:
                error = str(refused)
            except SystemExit as end:
                assert not end.code, end.code
        answers.append((out.getvalue(), error))
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
