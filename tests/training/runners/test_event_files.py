"""TensorBoard files that can't be written end no training."""

from __future__ import annotations

import errno
import importlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger_lab.training.runners.recorded_calls import lossy_event_files


class Full:
    """A file on a full disk."""

    def write(self, data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def flush(self) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        """Close it."""


@pytest.fixture(params=["torch.utils.tensorboard", "tensorboardX"])
def writer_type(request: pytest.FixtureRequest) -> Iterator[type]:
    yield pytest.importorskip(request.param).SummaryWriter


def test_a_full_disk_loses_figures_and_is_told_once(writer_type: type, tmp_path: Path) -> None:
    told: list[OSError] = []
    with lossy_event_files(told.append):
        writer = writer_type(str(tmp_path), flush_secs=0)
        files = importlib.import_module(f"{writer.file_writer.event_writer.__class__.__module__}")
        owner = writer.file_writer.event_writer
        record = owner._async_writer._writer if hasattr(files, "_AsyncWriter") else owner._ev_writer._py_recordio_writer
        record._writer = Full()
        for step in range(50):  # more than its queue takes
            writer.add_scalar("loss", 1.0, step)
            writer.flush()
        writer.close()
    assert [error.errno for error in told] == [errno.ENOSPC]
