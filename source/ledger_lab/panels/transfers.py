"""Copies between host and device that the host does not wait for."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray


def to_device(values: Any, like: torch.Tensor | str, dtype: torch.dtype | None = None) -> torch.Tensor:  # noqa: ANN401
    """Return values of the host as a tensor on a device.

    From ordinary memory, torch copies to a GPU only after the GPU has finished all earlier work. From pinned memory,
    the copy joins the GPU's queue, and the host goes on.

    Args:
        values: A NumPy array or a tensor on the CPU.
        like: The device, or a tensor on it.
        dtype: Type of the tensor; by default the type of the values.

    Returns:
        The tensor; on the CPU, it may share the memory of the values.
    """
    device = torch.device(like) if isinstance(like, str) else like.device
    tensor = torch.as_tensor(values, dtype=dtype)
    return tensor if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)


def zero_rows(rows: Any, *tensors: torch.Tensor) -> None:  # noqa: ANN401 - what Isaac Lab resets
    """Set rows of tensors to zero.

    ``tensor[rows] = 0.0`` would first copy the number to the GPU, after the GPU has finished all earlier work.

    Args:
        rows: A tensor of whole numbers on the device, or a slice; ``None`` for all rows.
        tensors: The tensors.
    """
    for tensor in tensors:
        if isinstance(rows, torch.Tensor):
            tensor.index_fill_(0, rows.long(), 0.0)
        else:
            tensor[slice(None) if rows is None else rows] = 0.0


class LateFlag:
    """A flag that a GPU computes and the host reads later, without waiting for the GPU.

    The copy of the flag joins the GPU's queue. If the host waits for later work of the queue anyway before it reads the
    flag, then reading the flag takes no time. Which copy is read never depends on the speed of the GPU.
    """

    def __init__(self, copy: torch.Tensor, copied: torch.cuda.Event) -> None:
        """Begin with the value of the copy.

        Args:
            copy: Boolean tensor without dimensions, in pinned memory of the host.
            copied: An event of the GPU.
        """
        self._copy, self._copied = copy, copied
        self._value: NDArray[np.bool_] = copy.numpy()  # shares the memory; reading it is no operation of torch

    @classmethod
    def pinned(cls) -> LateFlag:
        """Return a flag in pinned memory, which is not set."""
        return cls(torch.zeros((), dtype=torch.bool, pin_memory=True), torch.cuda.Event())

    def set(self, value: bool) -> None:
        """Set the flag now."""
        self._copied.synchronize()  # an event that was never recorded counts as passed
        self._value[()] = value

    def set_later(self, value: torch.Tensor) -> None:
        """Set the flag when the GPU has computed a value.

        Args:
            value: Boolean tensor without dimensions.
        """
        self._copy.copy_(value, non_blocking=True)
        self._copied.record()

    def __bool__(self) -> bool:
        """Return the last value; wait for it if the GPU has not come so far."""
        self._copied.synchronize()
        return bool(self._value)
