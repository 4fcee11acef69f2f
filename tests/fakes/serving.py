"""``scripts/serve.py`` as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

ROOT = Path(__file__).parents[2]


@dataclass
class Server:
    """A server that runs."""

    process: subprocess.Popen[str]
    address: str
    """What it printed."""
    log_root: Path
    _errors: IO[str]

    @property
    def port(self) -> int:
        """Its port."""
        port = urlsplit(self.address).port
        assert port is not None
        return port

    @property
    def token(self) -> str:
        """Its token."""
        return urlsplit(self.address).fragment

    def errors(self) -> str:
        """Return what it printed on standard error."""
        self._errors.seek(0)
        return self._errors.read()


@contextmanager
def serving(log_root: Path, every_s: float = 1.0, port: int = 0) -> Iterator[Server]:
    """Serve a ledger within a context.

    Args:
        log_root: Root of the ledger.
        every_s: Time between two looks at the ledger [s].
        port: Its port; 0 for a free one.
    """
    command = [
        sys.executable,
        str(ROOT / "scripts" / "serve.py"),
        str(log_root),
        "--port",
        str(port),
        "--every",
        str(every_s),
    ]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env={**os.environ})
        assert process.stdout is not None
        try:
            server = Server(process, process.stdout.readline().strip(), log_root, errors)
            assert server.address.startswith("http"), server.errors()
            yield server
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
