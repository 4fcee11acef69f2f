"""Sends and receives messages over a stream socket, with limits for size and time."""

from __future__ import annotations

import socket
import struct
import time

from ledger_lab.training.supervision.messages import LARGEST_BYTES

_HEADER = struct.Struct("!i")


class Channel:
    """A connected stream socket that carries messages, framed as :class:`multiprocessing.connection.Connection` does.

    That class waits without a limit, also for the rest of an incomplete message. This class has limits, and the two
    methods that the HMAC challenge of :mod:`multiprocessing.connection` needs.
    """

    def __init__(self, connection: socket.socket, limit_s: float) -> None:
        """Use a socket.

        Args:
            connection: The socket.
            limit_s: How long receiving or sending one message may take [s].
        """
        self._socket, self._limit_s = connection, limit_s
        self._unread = b""

    def fileno(self) -> int:
        """Return the descriptor of the socket."""
        return self._socket.fileno()

    def send_bytes(self, message: bytes) -> None:
        """Send a message.

        Raises:
            OSError: If the other end is gone, or does not read within the limit.
        """
        self._socket.settimeout(self._limit_s)
        self._socket.sendall(_HEADER.pack(len(message)) + message)

    def recv_bytes(self, maxlength: int = LARGEST_BYTES) -> bytes:
        """Wait for a message, and return it.

        Args:
            maxlength: Size of the largest message that is accepted [B].

        Raises:
            EOFError: If the other end has closed the connection.
            OSError: If the message is larger, or did not come within the limit.
        """
        deadline_s = time.monotonic() + self._limit_s
        while (message := self._next(maxlength)) is None:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError(f"no message within {self._limit_s:g} s")
            self._socket.settimeout(left_s)
            if not (data := self._socket.recv(LARGEST_BYTES)):
                raise EOFError
            self._unread += data
        return message

    def arrived(self) -> list[bytes]:
        """Return the messages that have arrived, without waiting.

        Raises:
            EOFError: If there is none, and the other end has closed the connection.
            OSError: If a message is too large, or the connection is broken.
        """
        self._socket.settimeout(0.0)
        try:
            data = self._socket.recv(LARGEST_BYTES + _HEADER.size)
            closed = not data
        except BlockingIOError:
            data, closed = b"", False
        self._unread += data
        messages = []
        while (message := self._next(LARGEST_BYTES)) is not None:
            messages.append(message)
        if closed and not messages:
            raise EOFError
        return messages

    def abort(self) -> None:
        """End the connection; a thread that waits for a message gets an error."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # the other end is gone already

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _next(self, maxlength: int) -> bytes | None:
        """Remove the next complete message from the bytes that were read; ``None`` if there is none yet.

        Raises:
            OSError: If it is larger than allowed.
        """
        if len(self._unread) < _HEADER.size:
            return None
        (size,) = _HEADER.unpack_from(self._unread)
        if not 0 <= size <= maxlength:
            raise OSError(f"a message of {size} bytes is not expected")
        end = _HEADER.size + size
        if len(self._unread) < end:
            return None
        message, self._unread = self._unread[_HEADER.size : end], self._unread[end:]
        return message
