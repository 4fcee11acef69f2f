"""A client that sends or reads slowly keeps neither a connection for ever, nor others from being answered."""

from __future__ import annotations

import http.client
import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress

import pytest
import uvicorn
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ledger_lab.reports.serving.connections import BoundedConnection, make_server
from tests.fakes.waiting import wait_until

ANSWER = bytes(32 << 20)
"""More than the buffers of a loopback connection hold."""

HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Running:
    """A server that runs in a thread."""

    def __init__(self, server: uvicorn.Server, port: int) -> None:
        """Keep both."""
        self.server, self.port = server, port

    def connect(self, sent: bytes = b"") -> socket.socket:
        """Return a connection through which something was sent already."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        connection.sendall(sent)
        return connection

    def is_answered(self) -> bool:
        """Tell whether a quick client gets its answer; a full server closes the connection."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as client:
            try:
                client.request("GET", "/small")
                return client.getresponse().read() == b"small"
            except ConnectionError:
                return False


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Running]]:
    """Returns a function that starts a server with some bounds."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await Response(b"small" if scope["path"] == "/small" else ANSWER)(scope, receive, send)

    with ExitStack() as stack:

        def started(**bounds: float) -> Running:
            for name, value in bounds.items():
                monkeypatch.setattr(BoundedConnection, name, value)
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            server = make_server(app)
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
            thread.start()
            stack.callback(thread.join)
            stack.callback(setattr, server, "should_exit", True)
            return Running(server, listener.getsockname()[1])

        yield started


def is_closed(connection: socket.socket) -> bool:
    """Send on, until the server has closed the connection."""
    stop = threading.Event()

    def drip() -> None:
        while not stop.wait(0.02):
            try:
                connection.sendall(b"x")
            except OSError:
                return

    sender = threading.Thread(target=drip)
    sender.start()
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionError:
        pass
    finally:
        stop.set()
        sender.join()
    return True


@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        (b"G", False),
        (
            b"GET /small HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n",
            True,
        ),  # bytes put off no deadline
    ],
)
def test_a_request_that_comes_byte_by_byte_is_given_up(
    start: Callable[..., Running], sent: bytes, answered: bool
) -> None:
    running = start(REQUEST_S=0.3)
    with running.connect(sent) as slow:
        assert running.is_answered(), "a quick client"
        assert not answered or slow.recv(12) == b"HTTP/1.1 200"
        assert is_closed(slow)


def test_a_client_that_does_not_read_its_answer_is_given_up(start: Callable[..., Running]) -> None:
    running = start(ANSWER_S=0.3)
    with running.connect(HEAD) as slow:
        assert slow.recv(12) == b"HTTP/1.1 200"
        assert running.is_answered()
        wait_until(lambda: not running.server.server_state.connections, "no connection is left", 60)
        received = 12
        with pytest.raises(ConnectionError):
            while part := slow.recv(1 << 20):
                received += len(part)
            raise ConnectionError("closed in the middle of the answer")
        assert received < len(ANSWER)


def test_a_new_client_takes_the_place_of_one_that_asks_nothing(start: Callable[..., Running]) -> None:
    running = start(MAX_CONNECTIONS=3)
    with ExitStack() as stack:
        idle = [stack.enter_context(running.connect()) for _ in range(5)]
        assert running.is_answered()
        assert [each.recv(1) for each in idle[:3]] == [b""] * 3, "those that have waited longest"
        state = running.server.server_state
        wait_until(lambda: len(state.connections) <= 3, "no more than three connections are open", 60)


def test_connections_that_are_being_answered_are_kept(start: Callable[..., Running]) -> None:
    running = start(MAX_CONNECTIONS=1, REQUEST_S=0.1)
    with running.connect(HEAD) as busy:
        assert busy.recv(12) == b"HTTP/1.1 200"
        threading.Event().wait(0.2)  # no deadline of the request ends the answer
        with running.connect() as late:
            assert late.recv(1) == b""
        received = 12
        while part := busy.recv(1 << 20):
            received += len(part)
            if received > len(ANSWER):  # with its head
                return
    pytest.fail(f"only {received} bytes came")


def test_clients_that_ask_again_and_again_and_do_not_read_keep_nobody_out(start: Callable[..., Running]) -> None:
    running = start(MAX_CONNECTIONS=10)
    asked = HEAD.replace(b"GET /", b"GET /small") * 2000
    with ExitStack() as stack:
        for _ in range(40):
            crowd = stack.enter_context(socket.socket())
            crowd.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            crowd.setblocking(False)
            with suppress(BlockingIOError):
                crowd.connect(("127.0.0.1", running.port))
            wait_until(lambda: crowd in select.select([], [crowd], [], 0)[1], "it is connected", 60)  # noqa: B023
            with suppress(OSError):
                crowd.send(asked)
        for _ in range(20):
            wait_until(running.is_answered, "the crowd's answers make room", 60)


def test_a_request_that_comes_in_pieces_is_answered(start: Callable[..., Running]) -> None:
    with start().connect(b"GET /sma") as client:
        for piece in (b"ll HTTP/1.1\r\nHo", b"st: localhost\r\n\r", b"\n"):
            threading.Event().wait(0.05)
            client.sendall(piece)
        assert client.recv(12) == b"HTTP/1.1 200"
