"""The store of a training on several machines; tests/training/test_ranks.py has those of one machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.fakes.launching import listening

HOSTED = """
import os, sys, time
from ledger_lab.training.launch import read_world
from ledger_lab.training.runners.process_group import joined
with joined(read_world(os.environ, distributed=True), on_gpu=False) as group:
    group.gather(0)
    print("joined", flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
def test_the_store_of_several_machines_listens_at_the_given_address(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    program = tmp_path / "hosted.py"
    program.write_text(HOSTED)
    agent = [
        sys.executable,
        "-m",
        "ledger_lab.training.launch.torchrun_agent",
        "--nnodes",
        "2",
        "--nproc-per-node",
        "1",
    ]
    flags = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "a"]
    launchers = [
        subprocess.Popen(
            [*agent, *flags, "--local-addr", "127.0.0.1", str(program)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        )
        for _ in range(2)
    ]  # fmt: skip
    try:
        for launcher in launchers:
            assert launcher.stdout is not None and launcher.stderr is not None
            assert launcher.stdout.readline() == "joined\n", launcher.stderr.read()
        everybody = [psutil.Process(launcher.pid) for launcher in launchers]
        everybody += [child for each in everybody for child in each.children(recursive=True)]
        assert {host for host, _ in listening(everybody)} == {"127.0.0.1"}
    finally:
        for launcher in launchers:
            for child in psutil.Process(launcher.pid).children(recursive=True):
                child.kill()
            launcher.kill()
            launcher.communicate()
