"""The supervisors of all ranks learn how the process of one rank ended."""

from __future__ import annotations

import fcntl
import os
import resource
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import answer_challenge, deliver_challenge
from pathlib import Path

import pytest

from ledger_lab.ledger import AttemptEnded, Status
from ledger_lab.training.supervision import peers as module
from ledger_lab.training.supervision.admission import Admission
from ledger_lab.training.supervision.channel import Channel
from ledger_lab.training.supervision.messages import LARGEST_BYTES, Hello, PeerEnd
from ledger_lab.training.supervision.peers import Peers

SECRET = bytes(range(32))
HERE = socket.gethostname()


def end(status: Status, reason: str | None = None) -> AttemptEnded:
    """Return an end without figures."""
    return AttemptEnded(
        status=status, reason=reason, wall_ns=1, peak_host_memory_bytes=None, peak_gpu_memory_bytes=None
    )


def hub(ranks: int) -> tuple[Peers, tuple[str, int]]:
    """Return the supervisor of the first rank, and its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    address = listener.getsockname()
    return Peers(rank=0, secret=SECRET, admission=Admission(listener, SECRET, range(1, ranks))), address


@contextmanager
def doing(what: Callable[[], object]) -> Iterator[threading.Thread]:
    """Run a function in a thread during the context."""
    thread = threading.Thread(target=what, daemon=True)
    thread.start()
    yield thread
    thread.join(60.0)
    assert not thread.is_alive()


def admit(middle: Peers, others: int) -> None:
    """Let the first supervisor read messages until a number of others have joined."""
    deadline_s = time.monotonic() + 60.0
    while len(middle._lines) < others:
        assert time.monotonic() < deadline_s
        middle.hear()
        time.sleep(0.001)


def member(address: tuple[str, int], rank: int) -> Channel:
    """Connect as a supervisor that knows the secret, to send arbitrary messages."""
    channel = Channel(socket.create_connection(address), 30.0)
    answer_challenge(channel, SECRET)  # type: ignore[arg-type]
    deliver_challenge(channel, SECRET)  # type: ignore[arg-type]
    channel.send_bytes(Hello(rank=rank, host="h").encode())
    return channel


@pytest.fixture
def peers() -> Iterator[list[Peers]]:
    """Three connected supervisors, the first rank first."""
    middle, address = hub(3)
    others = [Peers(rank=rank, secret=SECRET) for rank in (1, 2)]
    for known, other in enumerate(others, start=1):
        with doing(lambda other=other: other.connect(*address, HERE)):  # type: ignore[misc]
            admit(middle, known)
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


def test_the_first_end_is_the_end_of_all_ranks(peers: list[Peers]) -> None:
    middle, first, second = peers
    killed = end(Status.KILLED, "SIGKILL")
    assert settled_while(first, killed, middle) == killed, "its own end is its own"
    second.hear()  # the hub forwarded it before it closed
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


def test_a_supervisor_that_vanishes_is_reported(peers: list[Peers]) -> None:
    middle, first, second = peers
    first.close()
    middle.hear(5.0)
    second.hear(5.0)
    for other in (middle, second):
        assert other.first is not None
        assert other.first.in_words == f"rank 1 on {HERE}: gone, with its supervisor, and without a word"


def test_an_agreed_end_is_not_reported_as_a_cause(peers: list[Peers]) -> None:
    middle, first, second = peers
    for each in (first, middle, second):
        row, _ = each.settle(end(Status.TARGET_REACHED), 0, asked=False)
        assert row.status is Status.TARGET_REACHED
    first.close()
    middle.hear()
    assert middle.first is None
    row = end(Status.CRASHED, "in shutdown")
    assert second.settle(row, 1, asked=False) == (row, 1)


def test_a_rank_that_was_asked_to_end_first_keeps_its_own_status(peers: list[Peers]) -> None:
    middle, first, _ = peers
    settled_while(first, end(Status.PREEMPTED, "SIGTERM"), middle)
    own = end(Status.INTERRUPTED, "SIGINT")
    assert middle.settle(own, 130, asked=True) == (own, 130)


def test_an_error_that_the_user_can_fix_has_its_exit_status_on_all_ranks(peers: list[Peers]) -> None:
    middle, first, _ = peers
    refused = end(Status.CRASHED, "UserError: the task's reset draws from numpy")
    teller = threading.Thread(target=lambda: first.settle(refused, 2, asked=False))
    teller.start()
    middle.hear(5.0)
    row, exit_status = middle.settle(end(Status.PREEMPTED, "Terminated: SIGTERM"), 143, asked=False)
    assert (row.status, row.reason, exit_status) == (Status.CRASHED, f"rank 1 on {HERE}: {refused.reason}", 2)
    teller.join()


def test_no_connection_is_accepted_after_all_ranks_have_joined() -> None:
    middle, address = hub(2)
    other = Peers(rank=1, secret=SECRET)
    with socket.create_connection(address), doing(lambda: other.connect(*address, HERE)):
        admit(middle, 1)
    assert middle.admission is not None and not middle.admission.is_open
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=5.0)
    for each in (middle, other):
        each.close()


PEER_END = b'{"kind": "PeerEnd", "rank": %s, "host": "h", "status": "%s", "reason": "", "exit_status": %s}'
FRAMED: dict[str, bytes] = {
    "deep": b"[" * 60_000,
    "digits": b'{"rank": ' + b"9" * 60_000 + b"}",
    "huge": PEER_END % (b"1e999", b"killed", b"1"),
    "not a number": PEER_END % (b"NaN", b"killed", b"1"),
    "truth": PEER_END % (b"true", b"killed", b"1"),
    "big": PEER_END % (b"1", b"killed", b"1000000000000"),
    "no status": PEER_END % (b"1", b"asleep", b"1"),
    "lost": PEER_END % (b"1", b"lost", b"1"),
    "of another": PEER_END % (b"2", b"killed", b"1"),
    "object": b'{"kind": "PeerEnd", "rank": 1, "host": {}, "status": "killed", "reason": [], "exit_status": 1}',
    "fields": b'{"kind": "PeerEnd", "rank": 1, "self": 3}',
    "kind": b'{"kind": ["PeerEnd"]}',
    "end": b'{"kind": "End", "row": {"status": "killed"}, "exit_status": 1, "secondhand": false}',
    "no object": b"[]",
    "nothing": b"",
    "no text": b"\xff\x00\xfe",
    "zero": b"\x00" * 1000,
    "old": b'{"token": "t", "rank": 1, "host": "h"}\n',
}
RAW: dict[str, bytes] = {
    **{name: struct.pack("!i", len(data)) + data for name, data in FRAMED.items()},
    "browser": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "endless": struct.pack("!i", 2**31 - 1) + b"x" * (1 << 17),
    "endless in 64 bits": struct.pack("!iQ", -1, 2**63) + b"x" * 1000,
    "negative": struct.pack("!i", -7),
    "half a header": b"\x00\x00",
    "half a message": struct.pack("!i", 100) + b"{",
}


@pytest.mark.parametrize("noise", RAW.values(), ids=RAW)
@pytest.mark.parametrize("stays", [True, False], ids=["stays", "hangs up"])
def test_a_stranger_can_neither_end_nor_delay_a_training(noise: bytes, stays: bool) -> None:
    middle, address = hub(2)
    stranger = socket.create_connection(address)
    stranger.sendall(noise)
    if not stays:
        stranger.close()
    other = Peers(rank=1, secret=SECRET)
    with doing(lambda: other.connect(*address, HERE)):
        admit(middle, 1)
    assert middle.first is None and [line.rank for line in middle._lines.values()] == [1]
    for each in (middle, other, stranger):
        each.close()


@pytest.mark.parametrize("noise", FRAMED.values(), ids=FRAMED)
def test_a_member_can_end_a_training_only_with_its_own_end(noise: bytes) -> None:
    middle, address = hub(3)
    with doing(lambda: None):
        joined: list[Channel] = []
        with doing(lambda: joined.append(member(address, 1))):
            admit(middle, 1)
    (channel,) = joined
    channel.send_bytes(noise)
    channel._socket.sendall(struct.pack("!i", 50) + b"{")  # half a message more
    for _ in range(20):
        middle.hear()
        time.sleep(0.005)
    assert middle.first is None and len(middle._lines) == 1
    channel._socket.sendall(b" " * 49)
    channel.send_bytes(PeerEnd(rank=1, host="h", status=Status.KILLED, reason="x" * 2000, exit_status=137).encode())
    while middle.first is None:
        middle.hear()
    row, exit_status = middle.settle(end(Status.CRASHED, "CollectiveError"), 1, asked=False)
    assert row.status is Status.KILLED and exit_status == 137
    channel.close()
    middle.close()


def test_a_member_that_disconnects_within_a_message_has_vanished() -> None:
    middle, address = hub(2)
    joined: list[Channel] = []
    with doing(lambda: joined.append(member(address, 1))):
        admit(middle, 1)
    joined[0]._socket.sendall(struct.pack("!i", LARGEST_BYTES) + b"{")
    joined[0].close()
    middle.hear(5.0)
    assert middle.first is not None and "without a word" in middle.first.in_words
    middle.close()


def test_a_rank_is_admitted_once() -> None:
    middle, address = hub(3)
    joined: list[Channel] = []
    for rank in (1, 1, 0, 7):
        known = len(joined)
        with doing(lambda rank=rank: joined.append(member(address, rank))):  # type: ignore[misc]
            while len(joined) == known:
                middle.hear()
        while not middle._lines:  # the first one is admitted before another one says that it has this rank
            middle.hear()
    closed: list[EOFError] = []

    def wait() -> None:
        for refused in joined[1:]:
            with pytest.raises(EOFError) as raised:
                refused.recv_bytes()
            closed.append(raised.value)

    with doing(wait) as waiting:
        while waiting.is_alive():
            middle.hear()
    assert len(closed) == 3
    assert [line.rank for line in middle._lines.values()] == [1] and middle.first is None
    middle.close()
    joined[0].close()


def test_connections_without_the_secret_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    middle, address = hub(2)
    sent: list[bytes] = []
    send = Channel.send_bytes
    monkeypatch.setattr(Channel, "send_bytes", lambda self, data: (sent.append(data), send(self, data)))
    stranger, other = Peers(rank=1, secret=bytes(32)), Peers(rank=1, secret=SECRET)
    refused: list[OSError] = []

    def knock() -> None:
        with pytest.raises(OSError, match="is not the supervisor of rank 0") as raised:
            stranger.connect(*address, HERE)
        refused.append(raised.value)

    with doing(knock):
        while not refused:
            middle.hear()
    assert isinstance(refused[0].__cause__, AuthenticationError) and not middle._lines
    with doing(lambda: other.connect(*address, HERE)):
        admit(middle, 1)
    assert sent and all(SECRET not in data and SECRET.hex().encode() not in data for data in sent)
    for each in (middle, stranger, other):
        each.close()


def test_a_false_first_rank_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CONNECT_S", 1.0)
    other = Peers(rank=1, secret=SECRET)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            channel = Channel(server.accept()[0], 30.0)
            with pytest.raises(AuthenticationError):
                deliver_challenge(channel, bytes(32))  # type: ignore[arg-type]
            channel.close()

        with doing(answer), pytest.raises(OSError, match="is not the supervisor of rank 0"):
            other.connect(*server.getsockname(), HERE)

        def hang_up() -> None:
            server.settimeout(2.0)
            with suppress(TimeoutError):
                while True:
                    server.accept()[0].close()

        with doing(hang_up), pytest.raises(OSError, match="does not answer at port"):
            other.connect(*server.getsockname(), HERE)
    other.close()


IDLE = """
import resource, socket, sys, time
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
held = []
for _ in range(int(sys.argv[2])):
    held.append(socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=60))
print("held", flush=True)
time.sleep(600)
"""


def test_silent_strangers_neither_use_up_descriptors_nor_block_ranks() -> None:
    middle, address = hub(2)
    used = len(list(Path("/proc/self/fd").iterdir()))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 200, limits[1]))
    command = [sys.executable, "-c", IDLE, str(address[1]), "1000"]
    stranger = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        held: list[str] = []
        assert stranger.stdout is not None
        with doing(lambda: held.append(stranger.stdout.readline())):  # type: ignore[union-attr]
            while not held:
                middle.hear()
                assert len(list(Path("/proc/self/fd").iterdir())) < used + 150
        assert held == ["held\n"]
        other = Peers(rank=1, secret=SECRET)
        with doing(lambda: other.connect(*address, HERE)):
            admit(middle, 1)
        other.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        stranger.kill()
        stranger.communicate()
        middle.close()


def is_open(descriptor: int) -> bool:
    """Tell whether a descriptor is open, without touching its file, whose disk may be gone."""
    try:
        fcntl.fcntl(descriptor, fcntl.F_GETFD)
    except OSError:
        return False
    return True


def test_a_supervisor_without_free_descriptors_continues() -> None:
    middle, address = hub(2)
    with socket.create_connection(address):
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        used = max(filter(is_open, map(int, os.listdir("/proc/self/fd"))))
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + 1, limits[1]))
        try:
            with doing(middle.hear):
                pass
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    other = Peers(rank=1, secret=SECRET)
    with doing(lambda: other.connect(*address, HERE)):
        admit(middle, 1)
    for each in (middle, other):
        each.close()
