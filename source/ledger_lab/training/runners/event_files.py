"""Lets a training go on when the TensorBoard files of its library can't be written."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

_WRITERS = ("tensorboard.summary.writer.record_writer", "tensorboardX.record_writer")
"""Modules of the two packages whose ``RecordWriter`` writes these files."""


@contextmanager
def lossy_event_files(on_loss: Callable[[OSError], None]) -> Iterator[None]:
    """Drop the figures that can't be written into TensorBoard files, which are copies of those in the journal.

    Otherwise, the error would end the training, or with tensorboardX, whose thread it ends, the training would wait for
    ever. After an error, the rest of the file is dropped, because readers stop at an incomplete record.

    Args:
        on_loss: Called with the first error of each file.
    """
    import tensorboard.summary.writer.record_writer  # noqa: F401 - RSL-RL imports it only when it trains

    classes: list[type[Any]] = [sys.modules[name].RecordWriter for name in _WRITERS if name in sys.modules]
    originals = [(each, name, getattr(each, name)) for each in classes for name in ("write", "flush", "close")]
    failed: WeakSet[Any] = WeakSet()

    def lossy(original: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(original)
        def call(writer: Any, *arguments: Any) -> None:  # noqa: ANN401 - a writer of either package
            if writer in failed:
                return
            try:
                original(writer, *arguments)
            except OSError as error:
                failed.add(writer)
                on_loss(error)

        return call

    for each, name, original in originals:
        setattr(each, name, lossy(original))
    try:
        yield
    finally:
        for each, name, original in originals:
            setattr(each, name, original)
