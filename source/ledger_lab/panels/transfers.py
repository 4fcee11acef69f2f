"""Copies between host and device that the host does not wait for."""

from __future__ import annotations

from typing import Any

import torch


def to_device(values: Any, like: torch.Tensor | str, dtype: torch.dtype | None = None) -> torch.Tensor:
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


def zero_rows(rows: Any, *tensors: torch.Tensor) -> None:
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
