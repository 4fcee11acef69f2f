"""Invalid messages are refused, and secrets are encrypted."""

from __future__ import annotations

import json
import secrets
import socket
import struct
import time
from pathlib import Path

import pytest

from ledger_lab.ledger import AttemptEnded, Status
from ledger_lab.training.supervision.channel import Channel
from ledger_lab.training.supervision.messages import (
    LARGEST_BYTES,
    Begin,
    Done,
    End,
    Join,
    Listen,
    Message,
    MessageError,
    PeerEnd,
    decode,
)
from ledger_lab.training.supervision.secret import _PRIME, KeyExchange, new_secret

ROW = AttemptEnded(
    status=Status.KILLED, reason="\\udce9", wall_ns=2**62, peak_host_memory_bytes=None, peak_gpu_memory_bytes=1
)
MESSAGES: list[Message] = [
    Listen(address="127.0.0.1"),
    Join(rank=1, ranks=2, address="a", port=1, host="h", secret="00"),
    Begin(journal="/\udce9", run_id="a", attempt=None, rank=0, device="cpu", grace_s=2.0, log="l"),
    End(row=ROW, exit_status=137, secondhand=False),
    PeerEnd(rank=0, host="h", status=Status.DISK_FULL, reason=None, exit_status=1),
    Done(),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_messages_are_read_as_they_were_sent(message: Message) -> None:
    assert decode(message.encode(), Done, type(message)) == message
    with pytest.raises(MessageError):
        decode(message.encode(), type(MESSAGES[0]) if message is MESSAGES[-1] else Done)


@pytest.mark.parametrize("message", MESSAGES[:-1], ids=lambda message: type(message).__name__)
def test_every_field_must_exist_and_have_its_type(message: Message) -> None:
    content = json.loads(message.encode())
    for name in content.keys() - {"kind"}:
        for value in ({}, ["a"], True if not isinstance(content[name], bool) else 1):
            with pytest.raises(MessageError):
                decode(json.dumps({**content, name: value}).encode(), type(message))
        with pytest.raises(MessageError):
            decode(json.dumps({key: value for key, value in content.items() if key != name}).encode(), type(message))
    with pytest.raises(MessageError):
        decode(json.dumps({**content, "more": 1}).encode(), type(message))


def test_the_longest_paths_fit_and_larger_messages_are_refused() -> None:
    longest = str(Path("/") / ("\udce9" * 4095))
    begin = Begin(journal=longest, run_id="a" * 16, attempt=1, rank=0, device="cpu", grace_s=None, log=longest)
    assert decode(begin.encode(), Begin) == begin
    with pytest.raises(MessageError):
        Listen(address="a" * LARGEST_BYTES).encode()


def test_an_incomplete_or_slow_message_does_not_block_the_reader() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = Channel(ours, 0.5)
        theirs.sendall(struct.pack("!i", 10) + b"abc")
        assert channel.arrived() == []
        began_s = time.monotonic()
        with pytest.raises(TimeoutError):
            channel.recv_bytes()
        assert time.monotonic() - began_s < 20.0
        theirs.sendall(b"defghij" + struct.pack("!i", 1) + b"x" + struct.pack("!i", 2))
        assert channel.arrived() == [b"abcdefghij", b"x"]
        theirs.sendall(b"yz" + struct.pack("!i", LARGEST_BYTES + 1))
        with pytest.raises(OSError, match="not expected"):
            channel.arrived()


def test_only_the_receiver_can_decrypt_a_secret() -> None:
    sender, receiver, listener = KeyExchange(), KeyExchange(), KeyExchange()
    secret = new_secret()
    sealed = bytes.fromhex(sender.seal(secret, receiver.public))
    assert sealed != secret
    assert bytes.fromhex(receiver.seal(sealed, sender.public)) == secret
    assert bytes.fromhex(listener.seal(sealed, sender.public)) != secret
    for public in ("0", "1", f"{_PRIME - 1:x}", f"{_PRIME:x}", "-2", "text"):
        with pytest.raises(ValueError):
            sender.seal(secret, public)


def test_the_prime_is_a_safe_prime() -> None:
    for number in (_PRIME, (_PRIME - 1) // 2):
        for _ in range(8):
            assert pow(secrets.randbelow(number - 3) + 2, number - 1, number) == 1
