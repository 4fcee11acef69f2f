"""The end of one process is heard by the supervisors of all others."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Iterator

import pytest

from ledger_lab.ledger import AttemptEnded, Status
from ledger_lab.supervision.peers import Peers

HERE = socket.gethostname()


def end(status: Status, reason: str | None = None) -> AttemptEnded:
    """Return an end without figures."""
    return AttemptEnded(
        status=status, reason=reason, wall_ns=1, peak_host_memory_bytes=None, peak_gpu_memory_bytes=None
    )


@pytest.fixture
def peers() -> Iterator[list[Peers]]:
    """Three supervisors that know each other."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    middle = Peers(rank=0, token="t", listener=listener)
    others = [Peers(rank=rank, token="t") for rank in (1, 2)]
    for other in others:
        other.connect("127.0.0.1", listener.getsockname()[1], HERE)
    while len(middle._lines) < 2 or any(line.rank is None for line in middle._lines.values()):
        middle.hear()
    yield [middle, *others]
    for each in (middle, *others):
        each.close()


def settled_while(peers: Peers, row: AttemptEnded, middle: Peers) -> AttemptEnded:
    """Let a supervisor tell an end while the one in the middle listens."""
    settled: list[AttemptEnded] = []
    teller = threading.Thread(target=lambda: settled.append(peers.settle(row, 1, asked=False)[0]))
    teller.start()
    while teller.is_alive():
        middle.hear()
    return settled[0]


def test_who_ends_first_is_the_end_of_all(peers: list[Peers]) -> None:
    middle, first, second = peers
    killed = end(Status.KILLED, "SIGKILL")
    assert settled_while(first, killed, middle) == killed, "its own end is its own"
    second.hear()  # it was passed on before the first one went
    for other in (middle, second):
        row, _ = other.settle(end(Status.CRASHED, "CollectiveError: closed"), 1, asked=False)
        assert (row.status, row.reason) == (Status.KILLED, f"rank 1 on {HERE}: SIGKILL")


def test_the_end_of_the_first_rank_reaches_the_others(peers: list[Peers]) -> None:
    middle, first, second = peers
    middle.settle(end(Status.NON_FINITE, "NaN"), 1, asked=False)
    middle.close()
    for other in (first, second):
        other.hear(5.0)
        row, _ = other.settle(end(Status.PREEMPTED, "SIGTERM"), 143, asked=False)
        assert (row.status, row.reason) == (Status.NON_FINITE, f"rank 0 on {HERE}: NaN")
    middle._poll = first._poll.__class__()  # closed already


def test_who_goes_without_a_word_is_missed(peers: list[Peers]) -> None:
    middle, first, second = peers
    first.close()
    middle.hear(5.0)
    second.hear(5.0)
    for other in (middle, second):
        assert other.first is not None
        assert other.first.in_words == f"rank 1 on {HERE}: gone, with its supervisor, and without a word"
    first._poll = second._poll.__class__()


def test_an_end_that_all_agree_on_is_nobodys_fault(peers: list[Peers]) -> None:
    middle, first, second = peers
    for each in (first, middle, second):
        row, _ = each.settle(end(Status.TARGET_REACHED), 0, asked=False)
        assert row.status is Status.TARGET_REACHED
    first.close()
    middle.hear()
    assert middle.first is None
    row = end(Status.CRASHED, "in shutdown")
    assert second.settle(row, 1, asked=False) == (row, 1)
    first._poll = second._poll.__class__()


def test_what_somebody_asked_for_before_is_no_consequence(peers: list[Peers]) -> None:
    middle, first, _ = peers
    settled_while(first, end(Status.PREEMPTED, "SIGTERM"), middle)
    own = end(Status.INTERRUPTED, "SIGINT")
    assert middle.settle(own, 130, asked=True) == (own, 130)


def test_what_a_user_can_mend_stays_that_for_all(peers: list[Peers]) -> None:
    middle, first, _ = peers
    refused = end(Status.CRASHED, "UserError: the task's reset draws from numpy")
    teller = threading.Thread(target=lambda: first.settle(refused, 2, asked=False))
    teller.start()
    middle.hear(5.0)
    row, exit_status = middle.settle(end(Status.PREEMPTED, "Terminated: SIGTERM"), 143, asked=False)
    assert (row.status, row.reason, exit_status) == (Status.CRASHED, f"rank 1 on {HERE}: {refused.reason}", 2)
    teller.join()


def test_a_connection_that_cannot_be_taken_holds_nobody_up(peers: list[Peers]) -> None:
    middle, _, _ = peers
    listener = middle.listener
    assert listener is not None

    class OutOfDescriptors:
        fileno = listener.fileno
        close = listener.close

        def accept(self) -> None:
            raise OSError(errno.EMFILE, "Too many open files")

    middle.listener = OutOfDescriptors()  # type: ignore[assignment]
    with socket.create_connection(listener.getsockname()):
        heard = threading.Thread(target=middle.hear, daemon=True)
        heard.start()
        heard.join(10.0)
        assert not heard.is_alive()


@pytest.mark.parametrize(
    "noise",
    [b'{"token": "u", "rank": 1, "host": "h"}\n', b"GET / HTTP/1.1\r\n\r\n", b"[]\n", b"\xff\n", b"x" * (1 << 17)],
    ids=["wrong token", "browser", "no object", "no text", "no end"],
)
def test_strangers_are_sent_away(peers: list[Peers], noise: bytes) -> None:
    middle, first, _ = peers
    assert middle.listener is not None
    with socket.create_connection(middle.listener.getsockname()) as stranger:
        stranger.settimeout(5.0)
        stranger.sendall(noise)
        closed = False
        while not closed:
            middle.hear()
            try:
                closed = stranger.recv(1, socket.MSG_DONTWAIT) == b""
            except BlockingIOError:
                continue
            except ConnectionResetError:
                closed = True
    assert middle.first is None and len(middle._lines) == 2
