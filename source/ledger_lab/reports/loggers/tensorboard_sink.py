"""TensorBoard: event files, written without torch and without TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from ledger_lab.errors import UserError
from ledger_lab.files import make_folder
from ledger_lab.ledger import Run, Status
from ledger_lab.reports.loggers.sink import Batch

_TEXT = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))


class TensorboardSink:
    """Writes an event file, by default in ``tensorboard/`` inside the run's directory.

    Each logger writes the run from its beginning. Its first event tells TensorBoard to drop the points of older files
    in the folder, so every point is shown once.
    """

    def __init__(self, *, dir: Path | None = None) -> None:  # noqa: A002 - the flag's name
        """Store the user's option.

        Args:
            dir: Folder for the event file.
        """
        self._dir = dir

    def open(self, run: Run) -> Mapping[str, int]:
        """Create the event file."""
        self._folder = folder = self._dir or run.directory / "tensorboard"
        try:
            make_folder(folder, f"--dir {folder}", None if self._dir else run.directory)
            self._writer = EventFileWriter(str(folder))
        except OSError as error:
            raise UserError(f"cannot write to --dir {folder}: {error.strerror}") from error
        self._step = 0
        start = SessionLog(status=SessionLog.START)
        self._writer.add_event(Event(wall_time=run.declared_at.timestamp(), step=0, session_log=start))
        self._text("run", f"{run.declared.task} {run.run_id}", run.declared_at)
        return {}

    def send(self, batch: Batch) -> None:
        """Write the figures at their steps, and the texts at the newest step."""
        with self._told_in_one_line():
            for point in batch.points:
                if point.axis == "iteration":
                    self._step = max(self._step, point.step)
                if values := [Summary.Value(tag=name, simple_value=value) for name, value in point.values.items()]:
                    summary = Summary(value=values)
                    self._writer.add_event(Event(wall_time=point.time.timestamp(), step=point.step, summary=summary))
                for name, text in point.notes.items():
                    self._text(name, text, point.time)
            self._writer.flush()

    def close(self, status: Status, time: datetime) -> None:
        """Write the status, and close the file."""
        with self._told_in_one_line():
            self._text("status", str(status), time)
            self._writer.close()

    @contextmanager
    def _told_in_one_line(self) -> Iterator[None]:
        """Turn an error of the writer's thread into an error for the user; the thread has ended by then."""
        try:
            yield
        except OSError as error:
            raise UserError(
                f"cannot write to {self._folder}: {error.strerror}; make the folder writable, and start the logger "
                "again"
            ) from error

    def _text(self, name: str, text: str, time: datetime) -> None:
        """Write a text. It is shown as Markdown, so it is indented as code."""
        tensor = TensorProto(
            dtype=DT_STRING,
            string_val=["\n".join(f"    {line}" for line in text.splitlines()).encode()],
            tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]),
        )
        summary = Summary(value=[Summary.Value(tag=name, metadata=_TEXT, tensor=tensor)])
        self._writer.add_event(Event(wall_time=time.timestamp(), step=self._step, summary=summary))
