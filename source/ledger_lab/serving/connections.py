"""Connections of the server, which a client that sends or reads slowly can't hold for ever.

uvicorn handles all connections in one thread, so a slow client holds up no other one. But without these bounds, it
keeps its connection and the unsent answer for as long as it likes, and many such clients leave no room for others.
"""

from __future__ import annotations

import asyncio
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
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        http=BoundedConnection,
        loop="asyncio",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE_S,
    )
    return uvicorn.Server(config)


class BoundedConnection(H11Protocol):
    """A connection with deadlines for the request and for reading the answer, and a bound on their number."""

    MAX_CONNECTIONS: ClassVar[int] = 100
    """Connections at most. For a new one, the one that has waited longest for a request is closed; if none waits,
    the new one."""
    REQUEST_S: ClassVar[float] = 10.0
    """Time for the head of a request, from the start of the connection or the end of the last answer [s]."""
    READING_S: ClassVar[float] = 30.0
    """Time in which a client must read :attr:`READING_BYTES` of an answer that waits for it [s]."""
    READING_BYTES: ClassVar[int] = 1 << 14
    """At most asyncio's low-water mark, so that a client that reads the last bytes of the buffer is never cut off."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - passes through
        """Take what uvicorn gives."""
        super().__init__(*args, **kwargs)
        self._request_timer: asyncio.TimerHandle | None = None
        """Runs while the connection waits for a request."""
        self._reading_timer: asyncio.TimerHandle | None = None
        """Runs while an answer waits for the client."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request; make room if there are too many connections."""
        super().connection_made(transport)
        others = [each for each in self.connections if isinstance(each, BoundedConnection) and each is not self]
        others = [each for each in others if each._is_open]
        if len(others) >= self.MAX_CONNECTIONS:
            waiting = [(each._request_timer.when(), each) for each in others if each._request_timer is not None]
            idle = [(when, each) for when, each in waiting if not each.flow.write_paused]
            _, oldest = min(idle, key=lambda each: each[0], default=(0.0, self))
            oldest.transport.abort()
        self._expect_request()

    @property
    def _is_open(self) -> bool:
        """Whether it still takes a request, or holds what the client has not read of its last answer."""
        return not self.transport.is_closing() or self.transport.get_write_buffer_size() > 0

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers."""
        self._cancel(self._request_timer, self._reading_timer)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Handle what has arrived. When the head of a request is complete, its deadline is met."""
        answered = self.cycle
        super().handle_events()
        if self.cycle is not answered:
            self._cancel(self._request_timer)
            self._request_timer = None

    def on_response_complete(self) -> None:
        """Wait for the next request, which may have arrived already."""
        self._expect_request()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Watch whether the client reads: as much of the answer as the buffer holds is unsent."""
        super().pause_writing()
        self._expect_reading()

    def resume_writing(self) -> None:
        """The client has read: the buffer has room for more of the answer."""
        self._cancel(self._reading_timer)
        super().resume_writing()

    def _expect_request(self) -> None:
        """Set the deadline for the head of a request."""
        self._cancel(self._request_timer)
        self._request_timer = self.loop.call_later(self.REQUEST_S, self._miss_request)

    def _miss_request(self) -> None:
        """Close the connection, unless the client still reads the last answer."""
        if self.flow.write_paused:
            self._expect_request()
        else:
            self.transport.abort()

    def _expect_reading(self) -> None:
        """Set the deadline for reading a part of the answer."""
        unsent = self.transport.get_write_buffer_size()
        self._reading_timer = self.loop.call_later(self.READING_S, self._check_reading, unsent)

    def _check_reading(self, unsent: int) -> None:
        """Close the connection if too little was read since the answer had so many unsent bytes."""
        if unsent - self.transport.get_write_buffer_size() < self.READING_BYTES:
            self.transport.abort()
        else:
            self._expect_reading()

    @staticmethod
    def _cancel(*timers: asyncio.TimerHandle | None) -> None:
        """Stop timers that run."""
        for timer in timers:
            if timer is not None:
                timer.cancel()
