"""A device with a queue: kernels finish after their launch, on a clock that only the test moves."""

from __future__ import annotations


class QueuedDevice:
    """Host and device in one made-up time. The device's own clock has another zero.

    It obeys the protocol :class:`ledger_lab.ledger.meters.device_time.DeviceTimer`.
    """

    def __init__(self, now_ns: int = 0, clock_offset_ns: int = -700) -> None:
        self.now_ns, self._offset_ns = now_ns, clock_offset_ns
        self._free_at_ns = now_ns
        self.waits = 0
        """How often the host waited for the device."""
        self.capturing = False
        """Whether the device records a graph; it must then neither be waited for nor get marks."""

    def __call__(self) -> int:
        """Return the host's time [ns]."""
        return self.now_ns

    def work(self, host_ns: int) -> None:
        """Let the host compute."""
        self.now_ns += host_ns

    def launch(self, kernel_ns: int, launch_ns: int = 0) -> None:
        """Queue a kernel; the host goes on at once."""
        self.now_ns += launch_ns
        self._free_at_ns = max(self._free_at_ns, self.now_ns) + kernel_ns

    def synchronize(self) -> None:
        """Wait until the queue is empty, as ``bool(tensor.any())`` does."""
        assert not self.capturing, "waiting breaks a capture"
        self.waits += 1
        self.now_ns = max(self.now_ns, self._free_at_ns)

    def mark(self) -> int | None:
        """Return the moment at which the device passes here, on its own clock [ns]."""
        return None if self.capturing else max(self.now_ns, self._free_at_ns) + self._offset_ns

    def wait(self, mark: object) -> None:
        """Wait for a mark."""
        assert isinstance(mark, int) and not self.capturing
        self.waits += 1
        self.now_ns = max(self.now_ns, mark - self._offset_ns)

    def elapsed_ns(self, first: object, last: object) -> int:
        """Return the time between two marks that have been passed [ns]."""
        assert isinstance(first, int) and isinstance(last, int)
        assert max(first, last) - self._offset_ns <= self.now_ns, "the device has not passed the mark"
        return last - first
