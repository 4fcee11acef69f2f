"""Connections of the server, which a client that sends or reads slowly can't hold for ever.

uvicorn handles all connections in one thread, so a slow client holds up no other one. But without these bounds, it
keeps its connection and the unsent answer for as long as it likes, and many such clients leave no room for others.
Each connection is for one request. So a client without the token can't hold a connection: its answer is short.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, ClassVar

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

_GRACE_S = 1
"""Time that downloads get to finish at Ctrl-C [s]."""

_PIECE_BYTES = 1 << 16
"""Size of the pieces in which an answer is sent [B]: about as much waits in memory for each client."""


def make_server(app: ASGIApp) -> uvicorn.Server:
    """Return a server that only speaks HTTP, and that writes nothing of a request anywhere.

    Args:
        app: The application.
    """
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    config = uvicorn.Config(
        _in_pieces(app),
        log_config=None,
        log_level="error",  # a client could cause any number of warnings
        access_log=False,
        lifespan="off",
        ws="none",
        http=BoundedConnection,
        loop="asyncio",
        proxy_headers=False,
        server_header=False,
        headers=[("Connection", "close")],
        timeout_graceful_shutdown=_GRACE_S,
    )
    return uvicorn.Server(config)


def _in_pieces(app: ASGIApp) -> ASGIApp:
    """Return an application that waits for the client after each piece of an answer."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_in_pieces(message: Message) -> None:
            body = message.get("body", b"")
            for start in range(_PIECE_BYTES, len(body), _PIECE_BYTES):
                await send({**message, "body": body[start - _PIECE_BYTES : start], "more_body": True})
            last = (len(body) - 1) // _PIECE_BYTES * _PIECE_BYTES
            await send({**message, "body": body[last:]} if body else message)

        await app(scope, receive, send_in_pieces)

    return answer


class BoundedConnection(H11Protocol):
    """A connection for one request, with deadlines for the request and for reading, and a bound on their number."""

    MAX_CONNECTIONS: ClassVar[int] = 100
    """Connections at most. For a new one, the one that has waited longest for a request is closed; if none waits,
    the new one."""
    REQUEST_S: ClassVar[float] = 10.0
    """Time for the head of the request [s]."""
    READING_S: ClassVar[float] = 30.0
    """Time in which a client must read what waits for it: a piece of the answer, or the end of it [s]."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - passes through
        """Take what uvicorn gives."""
        super().__init__(*args, **kwargs)
        self._deadline: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request; make room if there are too many connections."""
        super().connection_made(transport)
        self._deadline = self.loop.call_later(self.REQUEST_S, transport.abort)
        others = [each for each in self.connections if isinstance(each, BoundedConnection) and each is not self]
        others = [each for each in others if not each.transport.is_closing() or each.transport.get_write_buffer_size()]
        if len(others) >= self.MAX_CONNECTIONS:
            waiting = [each for each in others if each.cycle is None]
            min(waiting, key=lambda each: each._deadline.when(), default=self).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._deadline.cancel()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Handle what has arrived. When the head of the request is complete, its deadline is met."""
        waited = self.cycle is None
        super().handle_events()
        if waited and self.cycle is not None:
            self._deadline.cancel()

    def on_response_complete(self) -> None:
        """Give the client time to read the end of the answer."""
        super().on_response_complete()
        self._expect_reading()

    def pause_writing(self) -> None:
        """Wait until the client has read a piece of the answer."""
        super().pause_writing()
        self._expect_reading()

    def resume_writing(self) -> None:
        """Go on with the answer, because the client has read."""
        self._deadline.cancel()
        super().resume_writing()

    def _expect_reading(self) -> None:
        """Set the deadline for reading."""
        self._deadline.cancel()
        self._deadline = self.loop.call_later(self.READING_S, self.transport.abort)
