"""Phases as named ranges in the timelines of torch's profiler and of Nsight Systems."""

from __future__ import annotations

from contextlib import ExitStack

import torch

from ledger_lab.errors import UserError
from ledger_lab.ledger.meters import Phase


class Ranges:
    """Marks a clock's windows while it is active; see :meth:`ledger_lab.ledger.meters.PhaseClock.announce`."""

    def __init__(self, *, nvtx: bool) -> None:
        """Start inactive.

        Args:
            nvtx: Whether to mark them for Nsight Systems, rather than for torch's profiler.

        Raises:
            UserError: If this build of torch does not support it.
        """
        self.active = False
        self._nvtx = nvtx
        self._open: list[ExitStack] = []
        if nvtx:
            try:
                torch.cuda.nvtx.mark("LedgerLab")
            except RuntimeError as error:
                raise UserError("--nsys: this build of torch has no NVTX ranges: install one with CUDA") from error

    def opened(self, phase: Phase) -> None:
        """Start a range."""
        window = ExitStack()
        if self.active:
            window.enter_context((torch.cuda.nvtx.range if self._nvtx else torch.profiler.record_function)(str(phase)))
        self._open.append(window)

    def closed(self) -> None:
        """End the innermost range, if it was marked."""
        self._open.pop().close()
