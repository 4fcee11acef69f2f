"""Connections of the server, which a client that sends or reads slowly can't hold for ever.

uvicorn handles all connections in one thread, so a slow client holds up no other one. But without these bounds, it
keeps its connection for as long as it likes, and many such clients leave no room for others. Each connection is for one
request. A client without the token can't hold a connection: its answer is short.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, ClassVar

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

_GRACE_S = 1
"""Time that downloads get to finish at Ctrl-C [s]."""


def make_server(app: ASGIApp) -> uvicorn.Server:
    """Return a server that only speaks HTTP, and that writes nothing of a request anywhere.

    Args:
        app: The application.
    """
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    config = uvicorn.Config(
        app,
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


class BoundedConnection(H11Protocol):
    """A connection for one request, with deadlines for the request and for its answer, and a bound on their number."""

    MAX_CONNECTIONS: ClassVar[int] = 100
    """Connections at most. For a new one, the one that has waited longest for a request is closed; if none waits,
    the new one."""
    REQUEST_S: ClassVar[float] = 10.0
    """Time for the head of the request [s]."""
    ANSWER_S: ClassVar[float] = 3600.0
    """Time in which a client must have read the answer [s]: a video, over a slow line."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - passes through
        """Take what uvicorn gives."""
        super().__init__(*args, **kwargs)
        self._deadline: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request; make room if there are too many connections."""
        super().connection_made(transport)
        self._deadline = self.loop.call_later(self.REQUEST_S, transport.abort)
        others = [each for each in self.connections if isinstance(each, BoundedConnection) and each is not self]
        if len(others) >= self.MAX_CONNECTIONS:
            waiting = [each for each in others if each.cycle is None and not each.transport.is_closing()]
            min(waiting, key=lambda each: each._deadline.when(), default=self).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._deadline.cancel()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Handle what has arrived. When the head of the request is complete, the time for the answer begins."""
        waited = self.cycle is None
        super().handle_events()
        if waited and self.cycle is not None:
            self._deadline.cancel()
            self._deadline = self.loop.call_later(self.ANSWER_S, self.transport.abort)
