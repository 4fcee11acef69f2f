"""Admits only the supervisors of other ranks."""

from __future__ import annotations

import errno
import os
import queue
import select
import socket
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import answer_challenge, deliver_challenge

from ledger_lab.training.supervision.channel import Channel
from ledger_lab.training.supervision.messages import Hello, MessageError, decode

HANDSHAKE_S = 5.0
"""How long each message of a handshake may take [s]."""
_MOST_STRANGERS = 64
"""Largest number of connections in their handshake at once, in addition to one for each missing rank."""
_SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_SHORTAGE_S = 0.05
"""How long to wait when a connection can't be accepted for lack of descriptors or memory [s]."""
_KEEPALIVE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 20_000}
"""TCP options that detect a vanished machine within 20 s, see tcp(7)."""


class Admission:
    """Accepts connections until all ranks are connected.

    A connection must prove that it knows the secret of the training before anything else that it sends is parsed. Each
    connection has its own thread, so a silent stranger delays no other connection. If there are too many
    connections, the oldest connection is closed, because a handshake takes milliseconds.
    """

    def __init__(self, listener: socket.socket, secret: bytes, ranks: Iterable[int]) -> None:
        """Accept from now on.

        Args:
            listener: Listening socket; closed when all ranks are in.
            secret: Shared by the supervisors of this training.
            ranks: Ranks to wait for.
        """
        self._listener, self._secret, self._missing = listener, secret, set(ranks)
        self._proven: queue.SimpleQueue[tuple[Channel, Hello]] = queue.SimpleQueue()
        self._news = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._lock = threading.Lock()
        self._strangers: dict[Channel, None] = {}
        """Connections in their handshake, the oldest first."""
        self._poll = select.epoll()
        self._poll.register(listener, select.EPOLLIN)
        self._poll.register(self._news, select.EPOLLIN)
        self._closed = False
        listener.setblocking(False)

    @property
    def is_open(self) -> bool:
        """Whether a rank is missing."""
        return not self._closed

    def fileno(self) -> int:
        """Return the descriptor to wait for; call :meth:`admitted` when it is readable."""
        return self._poll.fileno()

    def admitted(self) -> list[tuple[Channel, Hello]]:
        """Accept connections, and return those that have proven to be the supervisor of a missing rank."""
        self._accept()
        with suppress(BlockingIOError):
            os.eventfd_read(self._news)
        members = []
        while not self._proven.empty():
            channel, hello = self._proven.get()
            if hello.rank not in self._missing:
                channel.close()
                continue
            self._missing.remove(hello.rank)
            members.append((channel, hello))
        if not self._missing:
            self.close()
        return members

    def close(self) -> None:
        """Stop listening, and end all connections that are in their handshake."""
        if self._closed:
            return
        self._listener.close()
        self._poll.close()
        with self._lock:
            self._closed = True
            os.close(self._news)
            for stranger in self._strangers:
                stranger.abort()
        while not self._proven.empty():
            self._proven.get()[0].close()

    def _accept(self) -> None:
        """Accept the connections that wait, as many as may be in their handshake at once."""
        for _ in range(_MOST_STRANGERS):
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _SHORTAGES:  # the next call tries again
                    time.sleep(_SHORTAGE_S)
                    return
                continue  # that connection is closed already
            try:
                channel = member_channel(connection)
            except OSError:  # the other end is gone already
                connection.close()
                continue
            with self._lock:
                if len(self._strangers) >= _MOST_STRANGERS + len(self._missing):
                    oldest = next(iter(self._strangers))
                    del self._strangers[oldest]
                    oldest.abort()
                self._strangers[channel] = None
            try:
                threading.Thread(target=self._shake_hands, args=(channel,), daemon=True).start()
            except RuntimeError:  # no thread can be started: the other end tries again
                self._drop(channel)

    def _shake_hands(self, channel: Channel) -> None:
        """Let a connection prove that it knows the secret, prove the same to it, and receive its rank."""
        try:
            deliver_challenge(channel, self._secret)  # type: ignore[arg-type]  # of a connection it uses two methods
            answer_challenge(channel, self._secret)  # type: ignore[arg-type]
            hello = decode(channel.recv_bytes(), Hello)
        except (OSError, EOFError, AuthenticationError, MessageError):
            self._drop(channel)
            return
        with self._lock:
            wanted = self._strangers.pop(channel, channel) is None and not self._closed
            if wanted:
                self._proven.put((channel, hello))
                os.eventfd_write(self._news, 1)
        if not wanted:  # a newer connection displaced it meanwhile; the other end tries again
            channel.close()

    def _drop(self, channel: Channel) -> None:
        """Close a connection, and stop counting it as a stranger."""
        with self._lock:
            self._strangers.pop(channel, None)
        channel.close()


def member_channel(connection: socket.socket) -> Channel:
    """Return a channel over a TCP connection, which fails within 20 s when the other machine vanishes."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return Channel(connection, HANDSHAKE_S)
