"""The times of a CUDA device by its events."""

from __future__ import annotations

from typing import cast

import torch
import warp


class CudaTimer:
    """Marks moments in the queue of a CUDA device, as :class:`~ledger_lab.ledger.meters.device_time.DeviceTimer` asks.

    The marks are events on CUDA's default stream, where torch computes. Warp and Newton compute on a stream that Warp
    creates as a *blocking* stream: work on it and work on the default stream never overlap, in the order of their
    launches. So a mark follows all work that torch and Warp launched before it. It does not follow work on other
    streams, such as those of NCCL, until torch's stream waits for this work.

    While Warp or torch records a graph, marks and waiting would break the recording, so there are none.
    """

    def __init__(self, device: str) -> None:
        """Use a device.

        Args:
            device: The device, such as ``cuda:0``.
        """
        self._device = torch.device(device)
        self._stream = torch.cuda.default_stream(self._device)
        self._warp = warp.get_device(device)

    @property
    def recording(self) -> bool:
        """Whether Warp or torch is recording a graph."""
        # Warp comes first: CUDA refuses torch's question about the default stream while a blocking stream is recorded.
        return bool(self._warp.is_capturing) or torch.cuda.is_current_stream_capturing()

    def synchronize(self) -> None:
        """Wait for the device, unless a graph is being recorded."""
        if not self.recording:
            torch.cuda.synchronize(self._device)

    def mark(self) -> torch.cuda.Event | None:
        """Record an event; return ``None`` while a graph is being recorded."""
        if self.recording:
            return None
        event = torch.cuda.Event(enable_timing=True)
        event.record(self._stream)
        return event

    def wait(self, mark: object) -> None:
        """Wait for an event."""
        cast(torch.cuda.Event, mark).synchronize()

    def elapsed_ns(self, first: object, last: object) -> int:
        """Return the time between two completed events [ns]; CUDA resolves about 0.5 µs."""
        return round(1e6 * cast(torch.cuda.Event, first).elapsed_time(cast(torch.cuda.Event, last)))
