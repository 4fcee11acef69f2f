"""The terminal: output for the user, separate from the output of the libraries."""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Buffer, Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, TextIO

import orjson
from rich.console import Console, ConsoleDimensions, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from ledger_lab.errors import UserError, as_user_error, first_line
from ledger_lab.files import new_file, whole_file
from ledger_lab.ledger.endings import Terminated
from ledger_lab.names import as_started, visible

PLAIN_WIDTH = 1_000_000
"""Width of output to a file or a pipe, so that nothing is cut or wrapped [columns]."""

EXIT_USER_ERROR = 2

_LONGEST_ERROR = 4000
"""Characters of an error that are shown."""


class Terminal:
    """Reserves the terminal for LedgerLab, and redirects all other output of the process to a log file.

    Isaac Lab, Warp and the system's libraries print hundreds of lines on both standard streams, partly from C. They go
    to memory first, and to ``console.log`` in the run's directory once that exists. If the file can't be written, the
    output is lost, LedgerLab says so once, and the work goes on.
    """

    def __init__(self, *, quiet_libraries: bool = True, speaks: bool = True, recorded: bool = False) -> None:
        """Redirect the output.

        Args:
            quiet_libraries: Whether the libraries' output goes to the log instead of the terminal.
            speaks: Whether LedgerLab prints anything; of several processes, only the first prints.
            recorded: Whether the ledger holds the results. The work then continues if the terminal, or the file in its
                place, can't be written, or if nobody reads a pipe any more.
        """
        self._saved = [os.dup(1), os.dup(2)]
        out = os.dup(1) if speaks else os.open(os.devnull, os.O_WRONLY)
        self._lost: set[str] = set()
        """What was lost and told."""
        if recorded:
            self._out = _lossy(out, "utf-8", "replace", self._tell_loss_of_terminal)
        else:
            self._out = os.fdopen(out, "w", encoding="utf-8", errors="replace")
        self.console = make_console(self._out)
        self._log: IO[bytes] | None = None
        self.log: Path | None = None
        """File with the libraries' output; ``None`` if it has no name yet, or the output stays on the terminal."""
        self._streams = (sys.stdout, sys.stderr)
        if quiet_libraries or recorded:
            _flush()
            sys.stdout, sys.stderr = (
                _lossy(descriptor, stream.encoding or "utf-8", stream.errors or "replace", self._tell_loss)
                for descriptor, stream in zip((1, 2), self._streams, strict=True)
            )
        if quiet_libraries:
            # Not a temporary file: the folder for these may be full.
            self._send_to(os.fdopen(os.memfd_create("output of the libraries"), "w+b"))

    def keep_log(self, path: Path) -> None:
        """Move the libraries' output so far to a file, and continue in that file.

        Args:
            path: The file to write.
        """
        if self._log is None:
            return
        _flush()
        self._log.seek(0)
        log: IO[bytes]
        try:
            log = new_file(path)
            self.log = path
            log.write(self._log.read())
        except OSError as error:
            self._tell_loss(error)
            log = log if self.log is not None else open(os.devnull, "wb")  # noqa: SIM115 - open until the end
        self._log.close()
        self._send_to(log)

    def restore(self) -> None:
        """Restore both streams."""
        _flush()
        sys.stdout, sys.stderr = self._streams
        for stream, saved in zip((1, 2), self._saved, strict=True):
            os.dup2(saved, stream)
            os.close(saved)
        if self._log is not None:
            self._log.close()
        self._out.flush()

    def _tell_loss(self, error: OSError) -> None:
        """Say once that output of the libraries is lost."""
        if "libraries" not in self._lost:
            self._lost.add("libraries")
            with suppress(OSError):
                where = "" if self.log is None else f" for {self.log}"
                self.console.print(f"output{where} is lost, and the work goes on: {error.strerror}", soft_wrap=True)

    def _tell_loss_of_terminal(self, error: OSError) -> None:
        """Say once, in the log, that output for the terminal is lost."""
        if "terminal" not in self._lost:
            self._lost.add("terminal")
            print(f"output for the terminal is lost: {error.strerror}", file=sys.stderr)

    def _send_to(self, log: IO[bytes]) -> None:
        """Point both streams at a file."""
        _flush()
        self._log = log
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)


def _lossy(descriptor: int, encoding: str, errors: str, on_loss: Callable[[OSError], None]) -> TextIO:
    """Return a stream that drops what can't be written to a descriptor."""
    return io.TextIOWrapper(io.BufferedWriter(_Lossy(descriptor, on_loss)), encoding, errors, line_buffering=True)


class _Lossy(io.FileIO):
    """A descriptor whose errors do not reach the writer."""

    def __init__(self, descriptor: int, on_loss: Callable[[OSError], None]) -> None:
        """Write to a descriptor. Closing closes the descriptor, unless it is a standard stream.

        Args:
            descriptor: The descriptor.
            on_loss: Called with the error when output is lost.
        """
        super().__init__(descriptor, "w", closefd=descriptor > 2)
        self._on_loss = on_loss

    def write(self, data: Buffer, /) -> int:
        """Write some bytes, or drop them."""
        try:
            return super().write(data)
        except OSError as error:
            self._on_loss(error)
            return memoryview(data).nbytes


class PlainConsole(Console):
    """A console that shows control characters instead of sending them, because texts may come from others.

    Each string or text is one line, so a newline inside it is shown as well. To print several lines, pass several
    arguments, and a newline as ``sep``. No string is markup.
    """

    def __init__(self, file: IO[str], width: int | None = None) -> None:
        """Print to a stream.

        Args:
            file: The stream.
            width: Columns; ``None`` for those of the terminal.
        """
        super().__init__(file=file, width=width, markup=False, emoji=False, highlight=False)

    @property  # type: ignore[misc]
    def size(self) -> ConsoleDimensions:
        """Columns and lines of the terminal behind the stream. Rich asks the standard streams, which lead elsewhere."""
        if self._width is not None or "COLUMNS" in self._environ or not self.file.isatty():
            return super().size
        columns, lines = os.get_terminal_size(self.file.fileno())
        return ConsoleDimensions(columns or 80, lines or 25)  # a pseudo-terminal may not know its size

    def print(self, *objects: Any, sep: str = " ", **options: Any) -> None:
        """Print objects of rich; with a newline as separator, each on a line of its own."""
        for line in [(each,) for each in objects] if sep == "\n" else [objects]:
            super().print(*line, sep=sep, **options)

    def on_broken_pipe(self) -> None:
        """Raise the error that rich has caught, instead of :class:`SystemExit`."""
        raise  # noqa: PLE0704 - rich calls this while it handles the error

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a string as a text that can be drawn."""
        return super().render_str(visible(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Return the pieces of what is drawn."""
        if isinstance(renderable, Text) and not renderable.plain.isprintable():
            shown = renderable.blank_copy(visible(renderable.plain))  # without styles of parts, whose places change
            return super().render(shown, options)
        return super().render(renderable, options)


def make_console(file: IO[str] | None = None) -> Console:
    """Return a console that is as wide as the terminal; in a file or a pipe, nothing is cut or wrapped."""
    stream = sys.stdout if file is None else file
    return PlainConsole(stream, None if stream.isatty() else PLAIN_WIDTH)


def make_lossy_console() -> Console:
    """Return a console on standard output that drops what can't be written there. Close its file in the end."""
    return make_console(_lossy(os.dup(1), "utf-8", "replace", lambda error: None))


def write_output(name: str, content: str | bytes) -> None:
    """Write what a user asked for. Whoever reads the file meanwhile finds the earlier content or this one, as a whole.

    Args:
        name: The file; ``-`` means standard output, where a terminal shows control characters instead of obeying them.
        content: What to write.

    Raises:
        UserError: If the file can't be written.
    """
    if name == "-" and isinstance(content, str) and sys.stdout.isatty():
        content = "\n".join(map(visible, content.split("\n")))
    data = content.encode() if isinstance(content, str) else content
    if name == "-":
        sys.stdout.buffer.write(data)
        return
    path = Path(name)
    try:
        if path.exists() and not path.is_file():  # a pipe or a device must not be renamed away
            path.write_bytes(data)
            return
        with whole_file(path.resolve(), shared=True) as unfinished:
            unfinished.write_bytes(data)
    except OSError as error:
        raise UserError(f"cannot write {name}: {error.strerror}") from error


def write_json(name: str, content: Mapping[str, Any]) -> None:
    """Write JSON that a user asked for, as :func:`write_output` does.

    Args:
        name: The file; ``-`` means standard output.
        content: JSON values, and dataclasses of them.

    Raises:
        UserError: If the file can't be written.
    """
    options = orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS | orjson.OPT_APPEND_NEWLINE
    write_output(name, orjson.dumps(content, option=options).decode())


def tell_error(error: BaseException, console: Console | None = None, log: Path | None = None) -> int:
    """Print an error in one line.

    Args:
        error: The error. The traceback of an unforeseen error goes to standard error, and so to the log.
        console: Where to print; standard error by default.
        log: File that holds the traceback.

    Returns:
        The exit status: 2 for an error that the user can correct, otherwise 1.
    """
    console = console or make_console(sys.stderr)
    if (told := as_user_error(error)) is not None:
        console.print(f"error: {_shortened(as_started(str(told)))}", style="bold red", soft_wrap=True)
        return EXIT_USER_ERROR
    for line in "".join(traceback.format_exception(error)).splitlines():
        print(visible(line), file=sys.stderr)
    if isinstance(error, KeyboardInterrupt | Terminated):  # a requested end is no failure
        console.print(f"{error} asked the process to end", soft_wrap=True)
        return 1
    where = f" (traceback in {log})" if log else ""
    console.print(f"{type(error).__name__}: {first_line(error)}{where}", style="bold red", soft_wrap=True)
    return 1


def _shortened(text: str) -> str:
    """Return an error without the middle of it where it is too long to read, as with a name of 10,000 characters."""
    if len(text) <= _LONGEST_ERROR:
        return text
    half = _LONGEST_ERROR // 2
    return f"{text[:half]} … {text[-half:]}"


def _flush() -> None:
    """Flush Python's buffers of both streams."""
    sys.stdout.flush()
    sys.stderr.flush()
