"""No open port of a training is of use to a stranger."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from ledger_lab.ledger import AttemptEnded, Status, read_ledger
from ledger_lab.training.launch import torchrun_argv

ROOT = Path(__file__).parents[2]


def listening(processes: list[psutil.Process]) -> dict[int, list[tuple[str, int]]]:
    """Return the TCP addresses that processes listen at, by process id."""
    return {
        process.pid: [each.laddr for each in process.connections("tcp") if each.status == psutil.CONN_LISTEN]
        for process in processes
    }


def test_processes_of_one_machine_listen_only_at_loopback_addresses(tmp_path: Path) -> None:
    command = torchrun_argv(2, str(ROOT / "tests" / "fakes" / "ranks.py"), [str(tmp_path / "run"), "wait"])
    (tmp_path / "run").mkdir()
    (tmp_path / "tmp").mkdir()
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path / "tmp")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ) as launcher:
        try:
            assert launcher.stdout is not None and launcher.stderr is not None
            for _ in range(2):
                if (line := launcher.stdout.readline()) != "working\n":
                    launcher.kill()  # so that its standard error ends
                    raise AssertionError(f"{line!r}: {launcher.stderr.read()}")
            parent = psutil.Process(launcher.pid)
            supervisors = parent.children()
            workers = [child for each in supervisors for child in each.children()]
            assert len(supervisors) == len(workers) == 2
            assert not any(listening([parent, *supervisors]).values())
            ports = {address for each in listening(workers).values() for address in each}
            assert all(address in ("127.0.0.1", "::1") for address, _ in ports), ports
            folders = [path for path in (tmp_path / "tmp").iterdir() if path.is_dir()]
            assert folders and all(path.stat().st_mode & 0o077 == 0 for path in folders)
            for address in ports:  # what is left, gloo's own, takes noise without harm
                with socket.create_connection(address) as stranger:
                    stranger.sendall(b"\x80\x04\x95" + b"\xff" * 1000)
            time.sleep(1.0)
            assert all(worker.is_running() for worker in workers)
            launcher.send_signal(signal.SIGINT)
            assert launcher.wait(120) == 130
        finally:
            launcher.kill()
    (run,) = read_ledger(tmp_path / "run").runs
    (attempt,) = run.attempts
    assert [row.status for row in attempt.of(AttemptEnded)] == [Status.INTERRUPTED] * 2
    assert not list((tmp_path / "tmp").glob("ledger_lab_*")), "nothing is left of them"


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
        ports = [address for each in listening(everybody).values() for address in each]
        assert ports and {address for address, _ in ports} == {"127.0.0.1"}
    finally:
        for launcher in launchers:
            for child in psutil.Process(launcher.pid).children(recursive=True):
                child.kill()
            launcher.kill()
            launcher.communicate()
