"""Status of an attempt that an exception ended, and the reason in one line."""

from __future__ import annotations

import errno
import re

from ledger_lab.errors import first_line
from ledger_lab.ledger.rows import Status

_OUT_OF_MEMORY = re.compile(
    r"OutOfMemoryError|out[ _]of[ _]memory|Failed to allocate \d+ bytes|can(?:'t|not) allocate memory|std::bad_alloc"
    r"|_STATUS_ALLOC_FAILED|ErrorMemoryAllocation",
    re.IGNORECASE,
)
"""Messages of torch, CUDA, Warp and the C library when memory runs out."""

_DEVICE_FAULT = re.compile(
    r"illegal (?:memory access|instruction) was encountered|unspecified launch failure|device-side assert"
    r"|misaligned address|hardware stack error|invalid program counter|launch timed out and was terminated"
    r"|operation not supported on global/shared address space|uncorrectable (?:ECC|NVLink) error"
    r"|CUDA error: unknown error",
    re.IGNORECASE,
)
"""Messages of CUDA's faults after which the process can't use the GPU any more (CUDA Runtime API, ``cudaError_t``)."""

_NON_FINITE = re.compile(r"\bnan\b", re.IGNORECASE)
"""Messages of RSL-RL and torch's distributions about NaN."""

_NAN_POLICY = re.compile(r"normal expects all elements of std >= 0\.0")
"""Message of torch when the action noise of a policy is NaN."""

_LONGEST_REASON = 1000
"""Largest number of characters of a reason; some errors contain whole tensors."""


class Terminated(BaseException):
    """The system asked the process to end (SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU)."""


class CollectiveError(RuntimeError):
    """A collective failed: a process of the same training has ended, or can't be reached."""


class RanksDifferError(RuntimeError):
    """The processes of a training hold different parameters, so they do not train one policy."""


def is_device_fault(message: str) -> bool:
    """Tell whether a message names a fault of a GPU after which every call to this GPU fails, also for memory."""
    return _DEVICE_FAULT.search(message) is not None


def status_of(error: BaseException) -> Status:
    """Return the status of an attempt that an exception ended."""
    if isinstance(error, KeyboardInterrupt):
        return Status.INTERRUPTED
    if isinstance(error, Terminated):
        return Status.PREEMPTED
    if isinstance(error, RanksDifferError):
        return Status.INVALID
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Status.DISK_FULL
    if is_device_fault(str(error)):
        return Status.CRASHED
    if isinstance(error, MemoryError) or _OUT_OF_MEMORY.search(f"{type(error).__name__}: {error}"):
        return Status.OUT_OF_MEMORY
    if isinstance(error, FloatingPointError) or (isinstance(error, ValueError) and _NON_FINITE.search(str(error))):
        return Status.NON_FINITE
    if isinstance(error, RuntimeError) and _NAN_POLICY.search(str(error)):
        return Status.NON_FINITE
    return Status.CRASHED


def reason_of(error: BaseException) -> str:
    """Return an exception as one line that can be written into a journal."""
    line = f"{type(error).__name__}: {first_line(error)}" if str(error).strip() else type(error).__name__
    if len(line) > _LONGEST_REASON:
        line = line[:_LONGEST_REASON] + " …"
    return line.encode(errors="backslashreplace").decode()  # file names may contain bytes that are not text
