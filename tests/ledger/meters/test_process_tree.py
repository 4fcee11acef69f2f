"""Processor time of real processes is counted completely and once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest

from ledger_lab.ledger.meters import telemetry
from ledger_lab.ledger.meters.telemetry import ProcessTree

BURN = """
import os, subprocess, sys, threading, time
def burn(cpu_s):
    start = time.thread_time()
    while time.thread_time() - start < cpu_s:
        pass
def child(code, **more):
    return subprocess.Popen([sys.executable, "-c", f"BURN = {BURN!r}\\n" + BURN + code], **more)
def wait():
    print("ready", flush=True)
    return sys.stdin.readline()
"""


@contextmanager
def running(code: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program that says ``ready`` and goes on for each line that it gets."""
    program = f"BURN = {BURN!r}\n{BURN}\n{code}"
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        for each in psutil.Process(process.pid).children(recursive=True) if process.poll() is None else ():
            each.kill()
        process.kill()
        process.wait()
        process.stdin.close()  # type: ignore[union-attr]
        process.stdout.close()  # type: ignore[union-attr]


def until_ready(process: subprocess.Popen[str]) -> str:
    line = process.stdout.readline().strip()  # type: ignore[union-attr]
    assert line, "the program ended early"
    return line


def go_on(process: subprocess.Popen[str]) -> None:
    process.stdin.write("\n")  # type: ignore[union-attr]
    process.stdin.flush()  # type: ignore[union-attr]


def test_threads_and_children_count_and_the_busiest_thread_is_named() -> None:
    code = """
threads = [threading.Thread(target=burn, args=(s,)) for s in (0.6, 0.2)]
wait()
[t.start() for t in threads]; [t.join() for t in threads]
kid = child("burn(0.3); wait()", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
kid.stdout.readline()
done = threading.Thread(target=burn, args=(0.5,)); done.start(); done.join()
wait()
"""
    with running(code) as process:
        until_ready(process)
        tree = ProcessTree(process.pid)
        before = tree.usage()
        assert before is not None and before.memory_bytes > 5_000_000
        go_on(process)
        until_ready(process)
        usage = tree.usage()
    assert usage is not None
    assert 1.5 <= usage.cpu_s < 4.0  # 1.6 s burnt, and two starts of Python
    assert usage.busiest_thread_s <= usage.cpu_s
    assert usage.memory_bytes > 1.5 * before.memory_bytes


def test_a_running_thread_is_distinguished_from_ended_ones() -> None:
    code = """
def work():
    wait(); burn(0.5); wait()
first = threading.Thread(target=work); first.start(); first.join()
wait()
"""
    with running(code) as process:
        until_ready(process)
        tree = ProcessTree(process.pid)
        assert tree.usage() is not None
        go_on(process)
        until_ready(process)
        usage = tree.usage()
        assert usage is not None and 0.4 < usage.busiest_thread_s < 1.0
        go_on(process)
        until_ready(process)
        usage = tree.usage()
        assert usage is not None and usage.busiest_thread_s < 0.2  # what the ended thread took is not the other one's


def test_children_that_come_and_go_count_once() -> None:
    code = """
for _ in range(6):
    kid = child("burn(0.15); wait()", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    kid.stdout.readline()
    wait()
    kid.communicate(b"\\n")
    wait()
    child("burn(0.1)").wait()  # comes and goes between two samples
t = os.times(); print(t.user + t.system + t.children_user + t.children_system, flush=True)
sys.stdin.readline()
"""
    with running(code) as process:
        tree = ProcessTree(process.pid)
        counted = []
        while (line := until_ready(process)) == "ready":
            usage = tree.usage()
            assert usage is not None
            counted.append(usage.cpu_s)
            go_on(process)
        usage = tree.usage()
        assert usage is not None
    total = sum(counted) + usage.cpu_s
    assert min(counted) >= 0.0
    assert float(line) - 0.1 <= total <= float(line) + 0.2
    assert total > 6 * 0.25


def test_an_orphan_stays_in_the_tree() -> None:
    code = """
orphan = '''
parent = os.getppid()
print(os.getpid(), flush=True)
while os.getppid() == parent: time.sleep(0.01)
burn(0.4); print("ready", flush=True); time.sleep(600)
'''
middle = child(f"child({orphan!r}, stdin=subprocess.DEVNULL); sys.stdin.readline()", stdin=subprocess.PIPE)
sys.stdin.readline()
middle.communicate(b"\\n")
sys.stdin.readline()
"""
    with running(code) as process:
        tree = ProcessTree(process.pid)
        orphan = psutil.Process(int(until_ready(process)))
        try:
            assert tree.usage() is not None
            go_on(process)
            until_ready(process)
            assert process.pid not in [each.pid for each in orphan.parents()]
            usage = tree.usage()
            assert usage is not None and 0.35 <= usage.cpu_s < 1.0
        finally:
            orphan.kill()


def test_the_process_may_end_during_a_reading() -> None:
    with running("wait()") as process:
        until_ready(process)
        tree = ProcessTree(process.pid)
        assert tree.usage() is not None
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        zombie = tree.usage()
        assert zombie is not None and zombie.cpu_s >= 0.0 and zombie.memory_bytes == 0
        process.wait()
        assert tree.usage() is None
    assert ProcessTree(2**22 + 1).usage() is None


def test_a_reused_process_id_is_another_process() -> None:
    tree = ProcessTree(os.getpid())
    tree._accounts[os.getpid()].started -= 1
    assert tree.usage() is None


def test_time_of_a_failed_reading_is_counted_later(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(path: str) -> str:
        raise OSError(24, "Too many open files")

    with running("burn(0.3); wait(); burn(0.4); wait()") as process:
        until_ready(process)
        tree = ProcessTree(process.pid)
        assert tree.usage() is not None
        go_on(process)
        until_ready(process)
        with monkeypatch.context() as patch:
            patch.setattr(telemetry, "_text", fails)
            with pytest.raises(OSError, match="Too many"):
                tree.usage()
        usage = tree.usage()
    assert usage is not None and 0.35 <= usage.cpu_s < 0.65
