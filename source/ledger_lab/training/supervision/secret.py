"""Sends a secret from one rank to all others over a connection that strangers may listen to.

The ranks exchange public values (Diffie-Hellman, in the group of 2048 bits of RFC 3526), so the secret never travels in
clear. This does not help against an attacker who can also change the messages between ranks.
"""

from __future__ import annotations

import hashlib
import secrets

_PRIME = int(
    "FFFFFFFFFFFFFFFFC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74020BBEA63B139B22514A08798E3404DDEF9519B3CD3A431B"
    "302B0A6DF25F14374FE1356D6D51C245E485B576625E7EC6F44C42E9A637ED6B0BFF5CB6F406B7EDEE386BFB5A899FA5AE9F24117C4B1FE6"
    "49286651ECE45B3DC2007CB8A163BF0598DA48361C55D39A69163FA8FD24CF5F83655D23DCA3AD961C62F356208552BB9ED529077096966D"
    "670C354E4ABC9804F1746C08CA18217C32905E462E36CE3BE39E772C180E86039B2783A2EC07A28FB5C55DF06F4C52C9DE2BCBF695581718"
    "3995497CEA956AE515D2261898FA051015728E5A8AACAA68FFFFFFFFFFFFFFFF",
    16,
)
_GENERATOR = 2
_BYTES = 32
"""Size of the secret, and of the key that seals it [B]."""


class KeyExchange:
    """The key exchange of one rank. Use it for one secret only."""

    def __init__(self) -> None:
        """Draw a private number."""
        self._private = secrets.randbits(512)
        self.public = f"{pow(_GENERATOR, self._private, _PRIME):x}"
        """Value to send to all others; hexadecimal."""

    def seal(self, secret: bytes, public: str) -> str:
        """Encrypt a secret for the rank with a public value, or decrypt a secret from that rank.

        Args:
            secret: 32 bytes.
            public: The public value of the other rank.

        Returns:
            The result, hexadecimal.

        Raises:
            ValueError: If the public value or the size of the secret is wrong.
        """
        other = int(public, 16)
        if not 1 < other < _PRIME - 1 or len(secret) != _BYTES:
            raise ValueError("a public value or a secret of this size is not expected")
        shared = pow(other, self._private, _PRIME).to_bytes(_PRIME.bit_length() // 8)
        key = hashlib.sha256(b"ledger_lab supervisors" + shared).digest()
        return bytes(a ^ b for a, b in zip(secret, key, strict=True)).hex()


def new_secret() -> bytes:
    """Return 32 random bytes."""
    return secrets.token_bytes(_BYTES)
