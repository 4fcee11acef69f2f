"""Processes that train together: programs of this folder in two of them, and where such processes listen."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import psutil

_FAKES = Path(__file__).parent


def two_processes(name: str, folder: Path, **environ: str) -> list[subprocess.CompletedProcess[str]]:
    """Run fake processes, and return what became of them by rank."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    command = [sys.executable, str(_FAKES / f"{name}.py"), str(folder)]
    started = [
        subprocess.Popen(
            command,
            env={
                **os.environ,
                **{"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2"},
                **{"MASTER_ADDR": "localhost", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"},
                **environ,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    texts = [process.communicate(timeout=300) for process in started]
    return [
        subprocess.CompletedProcess(command, process.returncode, *text)
        for process, text in zip(started, texts, strict=True)
    ]


def listening(processes: Iterable[psutil.Process]) -> set[tuple[str, int]]:
    """Return the TCP addresses at which processes listen."""
    return {
        each.laddr for process in processes for each in process.connections("tcp") if each.status == psutil.CONN_LISTEN
    }
