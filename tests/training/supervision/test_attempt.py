"""Every end of an attempt gives exactly one status."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ledger_lab.ledger import AttemptEnded, Journal, Status, read_journal
from ledger_lab.ledger.endings import status_of
from ledger_lab.ledger.meters.phases import Phase, PhaseClock
from ledger_lab.training.supervision.attempt import Begin, attempt_life
from ledger_lab.training.writer import AttemptWriter

BEGIN = Begin(journals={}, attempt=1, device="cpu", log=Path())


def into(journal: Journal) -> Any:
    """Return a link to a supervisor that writes ends into a journal."""
    return SimpleNamespace(begin=lambda begin: None, end=lambda end, exit_status: journal.append(end))


def written_into(journal: Journal) -> AttemptWriter:
    """Return what writes into a journal, with a clock that starts now."""
    return AttemptWriter(journal.append, PhaseClock(time.perf_counter_ns()))


def live(path: Path, error: BaseException | None, peak: int | Exception | None = None) -> AttemptEnded:
    def measured() -> int | None:
        if isinstance(peak, Exception):
            raise peak
        return peak

    with Journal(path) as journal:
        with attempt_life(written_into(journal), into(journal), BEGIN, measured) as attempt:
            if error is not None:
                raise error
        assert attempt.error is error
    (ended,) = read_journal(path).of(AttemptEnded)
    return ended


def test_an_attempt_without_an_error_is_completed(tmp_path: Path) -> None:
    ended = live(tmp_path / "journal-1-0.jsonl", None, peak=5)
    assert (ended.status, ended.reason, ended.peak_gpu_memory_bytes) == (Status.COMPLETED, None, 5)
    assert ended.peak_host_memory_bytes is not None and ended.peak_host_memory_bytes > 1e6


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (KeyboardInterrupt(), Status.INTERRUPTED),
        (MemoryError(), Status.OUT_OF_MEMORY),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"),
            Status.OUT_OF_MEMORY,
        ),
        (OSError(errno.ENOSPC, "No space left on device"), Status.DISK_FULL),
        (RuntimeError("CUDA error: out of memory"), Status.OUT_OF_MEMORY),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"), Status.OUT_OF_MEMORY),
        (RuntimeError("cuGraphInstantiate failed: CUDA_ERROR_OUT_OF_MEMORY"), Status.OUT_OF_MEMORY),
        (RuntimeError("Failed to allocate 123456 bytes on device 'cuda:0'"), Status.OUT_OF_MEMORY),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), Status.CRASHED),
        (
            RuntimeError(
                "CUDA error: unspecified launch failure "
                "(what failed first: Failed to allocate 8 bytes on device 'cuda:0')"
            ),
            Status.CRASHED,
        ),
        (ValueError("The rewards returned by the environment contain NaN values."), Status.NON_FINITE),
        (FloatingPointError("Loss/value is inf at iteration 3"), Status.NON_FINITE),
        (RuntimeError("normal expects all elements of std >= 0.0"), Status.NON_FINITE),
        (RuntimeError("banana"), Status.CRASHED),
        (ZeroDivisionError("division by zero"), Status.CRASHED),
    ],
)
def test_every_end_has_its_status(error: BaseException, status: Status, tmp_path: Path) -> None:
    assert status_of(error) is status
    ended = live(tmp_path / "journal-1-0.jsonl", error)
    assert ended.status is status
    assert ended.reason is not None and ended.reason.startswith(type(error).__name__)


def test_a_second_signal_does_not_interrupt_the_end(tmp_path: Path) -> None:
    path = tmp_path / "journal-1-0.jsonl"
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)

    def again() -> int:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        return 1

    with (
        Journal(path) as journal,
        attempt_life(written_into(journal), into(journal), BEGIN, again) as attempt,
    ):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1)
    assert attempt.exit_status == 143
    (ended,) = read_journal(path).of(AttemptEnded)
    assert ended.status is Status.PREEMPTED
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


@pytest.mark.parametrize(("working", "status"), [(True, Status.CRASHED), (False, Status.COMPLETED)])
def test_a_device_that_is_lost_does_not_hide_the_end(working: bool, status: Status, tmp_path: Path) -> None:
    lost = False

    def synchronize() -> None:
        if lost:
            raise RuntimeError("device lost")

    clock = PhaseClock(time.perf_counter_ns(), synchronize=synchronize)
    with Journal(tmp_path / "journal-1-0.jsonl") as journal:
        with attempt_life(AttemptWriter(journal.append, clock), into(journal), BEGIN, lambda: None) as attempt:
            lost = True
            if working:
                clock.set_base(Phase.UNATTRIBUTED)
        assert (attempt.error is not None) is working
    (ended,) = read_journal(tmp_path / "journal-1-0.jsonl").of(AttemptEnded)
    assert ended.status is status


def test_a_signal_that_was_ignored_stays_ignored(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        path = tmp_path / "journal-1-0.jsonl"
        with (
            Journal(path) as journal,
            attempt_life(written_into(journal), into(journal), BEGIN, lambda: None),
        ):
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    (ended,) = read_journal(path).of(AttemptEnded)
    assert ended.status is Status.COMPLETED


def test_a_signal_waits_for_a_good_moment(tmp_path: Path) -> None:
    path = tmp_path / "journal-1-0.jsonl"
    done = 0
    with Journal(path) as journal:
        with attempt_life(written_into(journal), into(journal), BEGIN, lambda: None) as attempt:
            with attempt.signals_deferred():
                os.kill(os.getpid(), signal.SIGUSR1)
                os.kill(os.getpid(), signal.SIGTERM)
                done += 1
                assert attempt.asked is signal.SIGUSR1
                attempt.heed(signal.SIGTERM)
                assert attempt.asked is signal.SIGUSR1
            attempt.resumable = True
            attempt.leave()
        assert (done, attempt.exit_status) == (1, 75)
    (ended,) = read_journal(path).of(AttemptEnded)
    assert (ended.status, ended.reason) == (Status.PREEMPTED, "Terminated: SIGUSR1")


@pytest.mark.parametrize(("signum", "exit_status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_is_raised_if_no_good_moment_comes_in_time(
    signum: signal.Signals, exit_status: int, tmp_path: Path
) -> None:
    with Journal(tmp_path / "journal-1-0.jsonl") as journal:
        begin = replace(BEGIN, grace_s=0.5)
        with attempt_life(written_into(journal), into(journal), begin, lambda: None) as attempt:
            with attempt.signals_deferred():
                os.kill(os.getpid(), signum)
                asked_s = time.monotonic()
                with contextlib.suppress(BaseException):
                    time.sleep(30)
                assert 0.29 < time.monotonic() - asked_s < 20
                attempt.leave()
            raise AssertionError("the alarm did not end it")
        assert attempt.exit_status == exit_status


def test_an_attempt_that_the_supervisor_cannot_record_ends_in_its_own_journal(tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")

    def refuse(begin: Begin) -> None:
        raise full

    with Journal(tmp_path / "journal-1-0.jsonl") as journal, pytest.raises(OSError) as raised:
        link: Any = SimpleNamespace(begin=refuse)
        with attempt_life(written_into(journal), link, BEGIN, lambda: None):
            raise AssertionError("it did not begin")
    assert raised.value is full
    (ended,) = read_journal(tmp_path / "journal-1-0.jsonl").of(AttemptEnded)
    assert ended.status is Status.DISK_FULL
