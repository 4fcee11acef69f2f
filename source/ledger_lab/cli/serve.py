"""``scripts/serve.py``: shows the page of a ledger in a browser while trainings run. Imports no torch or Isaac Lab."""

from __future__ import annotations

import os
import secrets
import socket
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from urllib.parse import quote

from ledger_lab.cli.page import PageReader
from ledger_lab.errors import UserError
from ledger_lab.ledger import Run
from ledger_lab.ledger.cores import no_collection
from ledger_lab.reports.page.document import LivePage
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.durations import parse_period
from ledger_lab.reports.terminal.progress import ReadingProgress
from ledger_lab.reports.terminal.request import Program, Request, flag

LOOPBACK = "127.0.0.1"
_PORT, _LARGEST_PORT = 8765, 65535


@dataclass(frozen=True, kw_only=True)
class ServeRequest(Request):
    """What a user asks of ``scripts/serve.py``: each field is an argument or a flag of the same name."""

    program = Program(
        name="serve.py",
        description=(
            "Show the page of report.py page in a browser, and update it in place while trainings run. At its top, "
            "the page shows the trainings that wait or run, alerts, the time and the cost that are left, spend and "
            "forecasts, and the console of each run. The program listens on 127.0.0.1 only, and prints an address with "
            "a secret token. From another computer, use a tunnel: ssh -N -L 8765:127.0.0.1:8765 HOST."
        ),
        examples=("serve.py logs", "serve.py /shared/logs --port 0"),
    )

    log_root: Path = flag(MISSING, "Root folder of the ledger, such as logs.", metavar="LOG_ROOT", positional=True)
    port: int = flag(_PORT, f"Port to listen on; 0 for a free one (default: {_PORT}).", metavar="PORT")
    every: float = flag(
        5.0,
        "Time between two looks at the ledger [s] (default: 5).",
        metavar="SECONDS",
        parse=parse_period,
    )

    def __post_init__(self) -> None:
        """Check the port.

        Raises:
            UserError: If it is out of range.
        """
        if not 0 <= self.port <= _LARGEST_PORT:
            raise UserError(f"--port {self.port}: give a number from 0 to {_LARGEST_PORT}")


def serve(argv: Sequence[str]) -> int:
    """Serve the page until Ctrl-C.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        KeyboardInterrupt: At Ctrl-C.
        UserError: If there is no such ledger, the port is in use, or a package is missing.
    """
    request = ServeRequest.parse(argv)
    try:
        from ledger_lab.reports.serving.app import make_app
        from ledger_lab.reports.serving.connections import make_server
    except ImportError as error:
        raise UserError(f"serve.py needs the package {error.name}: pip install starlette uvicorn") from error
    listener = _listen(request.port)
    port, token = listener.getsockname()[1], secrets.token_urlsafe(32)
    reader = PageReader(log_root=request.log_root, every_s=request.every, address=_address)
    with ReadingProgress(make_console(sys.stderr), "reading journals, MB") as progress, no_collection():
        page = reader.read(progress.show)
    reading, due_s = threading.Lock(), time.monotonic() + reader.pause_s

    def latest() -> LivePage:
        """Return the page for all viewers: the first request after a while reads the ledger, others get the last."""
        nonlocal page, due_s
        if time.monotonic() >= due_s and reading.acquire(blocking=False):
            try:
                page = reader.again(page)
            finally:
                due_s = time.monotonic() + reader.pause_s
                reading.release()
        return page

    console = make_console()
    console.print(f"http://{LOOPBACK}:{port}/#{token}", soft_wrap=True)
    console.print("open this address in a browser; Ctrl-C ends", soft_wrap=True)
    sys.stdout.flush()
    make_server(make_app(latest, token)).run(sockets=[listener])
    return 0


def _listen(port: int) -> socket.socket:
    """Return a socket that listens on loopback.

    Raises:
        UserError: If the port can't be used.
    """
    try:
        return socket.create_server((LOOPBACK, port))
    except OSError as error:
        reason = error if error.errno is None else os.strerror(error.errno)
        raise UserError(f"--port {port}: {reason}: give another port, or 0 for a free one") from error


def _address(run: Run, kind: str, path: str) -> str:
    """Return the address of a file of a run on this server."""
    return f"runs/{quote(run.run_id, safe='')}/{kind}/{quote(path)}"
